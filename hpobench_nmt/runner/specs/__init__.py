"""Specs: the grid of configurations that is trained, from a TOML file."""
