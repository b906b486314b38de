"""Results in memory and on disk."""
