"""The output of the commands. Nothing is cut: a line too wide for the terminal is folded."""
