"""Ledgers: one line per training that has ended; how they are merged and made into a table."""
