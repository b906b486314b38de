"""Benchmark suites: one TOML file each."""
