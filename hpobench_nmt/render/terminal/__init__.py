"""What the commands print. Nothing is cut: what is too wide for the terminal takes more lines."""
