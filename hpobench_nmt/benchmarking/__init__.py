"""Benchmarks: suites, methods by name, trials in worker processes, and results in memory and on disk."""
