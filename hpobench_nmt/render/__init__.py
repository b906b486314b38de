"""Everything that is drawn or printed: terminal, plots, the HTML report, and files for a paper."""
