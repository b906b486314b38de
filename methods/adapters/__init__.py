"""Other people's optimizers as methods, one file per library; each needs the library's extra.

`common.py` has what they share, and shows how to write one of your own. Where a library can rank the rows
that are left, its adapter lets it (BoTorch, SMAC, Syne Tune); what others propose is moved to the nearest row
that is left.
"""
