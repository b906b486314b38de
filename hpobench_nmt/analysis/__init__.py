"""Analyses of a run or of a table, as frames and sentences. Nothing is drawn here."""
