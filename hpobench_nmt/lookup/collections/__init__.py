"""Published table collections, one file each."""
