"""Lookup tables: values, folders on disk, where they are found, and what to check before trusting one."""
