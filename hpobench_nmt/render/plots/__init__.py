"""Figures. Each function takes data and returns a matplotlib Figure; matplotlib is imported on first use."""
