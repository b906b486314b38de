"""Other people's optimizers as methods, one file per library; each needs the library's extra.

`common.py` has what they share, and shows how to write one of your own.
"""
