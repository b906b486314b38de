"""Analyses of a run: plain functions of its results that return data."""
