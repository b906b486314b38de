"""A Cholesky factor L that grows by one row with each observation, and V = L^-1 K, one row for each row of L.

symbol   shape    meaning
L        n x n    lower triangular, L L' = K[S,S] + s^2 I for n observed rows S
V        n x N    L^-1 K[S,:]; the posterior mean is V' L^-1 y for targets y
l, d              the next row of L: n numbers, and its last

All sums run in a fixed order (no BLAS, no fused or reordered arithmetic), so the bits do not depend on the
number of threads or the machine's vector width.
"""

from __future__ import annotations

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled

# The number of columns that are updated together, so that a new row stays in the processor's cache.
_TILE = 1024


@compiled(error_model="numpy")
def add_rows(rows: Floats, shares: Floats, total: Floats) -> None:
    """total += shares @ rows, rows of shape (k, N), in their order; four rows in each pass over `total`."""
    for start in range(0, total.shape[0], _TILE):
        tile = total[start : start + _TILE]
        j = 0
        while j + 4 <= shares.shape[0]:
            a, b, c, d = shares[j], shares[j + 1], shares[j + 2], shares[j + 3]
            row_a, row_b = rows[j, start : start + _TILE], rows[j + 1, start : start + _TILE]
            row_c, row_d = rows[j + 2, start : start + _TILE], rows[j + 3, start : start + _TILE]
            for i in range(tile.shape[0]):
                tile[i] = (((tile[i] + a * row_a[i]) + b * row_b[i]) + c * row_c[i]) + d * row_d[i]
            j += 4
        while j < shares.shape[0]:
            a, row_a = shares[j], rows[j, start : start + _TILE]
            for i in range(tile.shape[0]):
                tile[i] += a * row_a[i]
            j += 1


@compiled(error_model="numpy")
def solve(factor: Floats, y: Floats, z: Floats) -> None:
    """z = L^-1 y for the first n rows of L, y of shape (n,); z may have more places, or be y. O(n^2)."""
    for i in range(y.shape[0]):
        value = y[i]
        for j in range(i):
            value -= factor[i, j] * z[j]
        z[i] = value / factor[i, i]


@compiled(error_model="numpy")
def divide_row(new: Floats, d: float, var: Floats) -> None:
    """Make a row of V from K[p,:] - l'V, and subtract its squares from the variance; both in place."""
    inverse = 1.0 / d
    for i in range(new.shape[0]):
        new[i] *= inverse
        var[i] = max(var[i] - new[i] * new[i], 0.0)
