"""Graphs of neighbouring rows, and beliefs from them."""
