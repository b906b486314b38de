"""Our methods and tables in other people's programs."""
