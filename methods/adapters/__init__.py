"""Optimizers of other libraries as methods, one file per library; each needs the library's extra.

`common.py` has their common code, and shows how to write an adapter of your own. If a library can rank the
rows that are left, its adapter asks for the best of them (BoTorch, SMAC, Syne Tune). A proposal of any other
library is moved to the nearest row that is left.
"""
