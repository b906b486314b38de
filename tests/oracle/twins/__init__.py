"""Slow, obvious twins of the package's algorithms, written from their definitions, without its code."""
