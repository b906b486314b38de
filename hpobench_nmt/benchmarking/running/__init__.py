"""Blocks of trials in worker processes and on clusters, and the conformance checks."""
