"""Files that the runner writes and reads: locks between processes, archives, paths that a spec names."""
