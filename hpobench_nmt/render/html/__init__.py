"""The report of a run: one HTML file that needs nothing else, or its figures and tables as files."""
