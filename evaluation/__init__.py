"""Scores of trials, and what random search scores on average."""
