"""The output of the commands. Nothing is cut off: a line that is too wide for the terminal is folded."""
