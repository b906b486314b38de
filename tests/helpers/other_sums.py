"""Where sums are added up in another order, so that graph-based methods choose other rows (promises.md)."""

import scipy

OTHER_SUMS = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 18)
TABLES = ("lohelp-de-en", "nmtlc-fr-en", "nmtlc-zh-en")
