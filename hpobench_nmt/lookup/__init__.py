"""Lookup tables: their values, their folders on disk, how they are found, and checks before they are used."""
