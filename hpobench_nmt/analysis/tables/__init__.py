"""Analyses of a table, as sections of frames and sentences."""
