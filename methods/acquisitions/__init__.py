"""What a row is worth: expected improvement and hypervolume of a belief about the rows."""
