"""Gaussian processes over the rows of a table."""
