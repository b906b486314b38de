"""A Cholesky factor L that grows by one row with each observation, and V = L^-1 K, one row for each row of L;
and for whole matrices A = L L', L^-1 B and A^-1.

symbol   shape    meaning
L        n x n    lower triangular, L L' = K[S,S] + s^2 I for n observed rows S
V        n x N    L^-1 K[S,:]; the posterior mean is V' L^-1 y for targets y
l, d              the next row of L: n numbers, and its last

All sums run in a fixed order (no BLAS, no fused or reordered arithmetic), so the bits do not depend on the
number of threads, the machine's vector width or the version of a library.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled

# The number of columns that are updated together, so that a new row stays in the processor's cache.
_TILE = 1024
# The number of rows that are updated together, for the same reason.
_PANEL = 32


def _rows_added(rows: Floats, shares: Floats, total: Floats) -> None:
    for row, share in zip(rows, shares, strict=False):
        total += share * row


@compiled(_rows_added, error_model="numpy")
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


@compiled(plain=True, error_model="numpy")
def solve(factor: Floats, y: Floats, z: Floats) -> None:
    """z = L^-1 y for the first n rows of L, y of shape (n,); z may have more places, or be y. O(n^2)."""
    for i in range(y.shape[0]):
        value = y[i]
        for j in range(i):
            value -= factor[i, j] * z[j]
        z[i] = value / factor[i, i]


def _row_divided(new: Floats, d: float, var: Floats) -> None:
    new *= 1.0 / d
    np.maximum(var - new * new, 0.0, out=var)


@compiled(_row_divided, error_model="numpy")
def divide_row(new: Floats, d: float, var: Floats) -> None:
    """Make a row of V from K[p,:] - l'V, and subtract its squares from the variance; both in place."""
    inverse = 1.0 / d
    for i in range(new.shape[0]):
        new[i] *= inverse
        var[i] = max(var[i] - new[i] * new[i], 0.0)


@compiled(error_model="numpy")
def whitened(matrix: Floats, columns: Floats) -> Floats:
    """L^-1 B, shape (n, M), for a positive definite A = L L', shape (n, n), and B, (n, M). O(n^2 (n + M))."""
    n = matrix.shape[0]
    return _eliminated(matrix, columns, False)[:, n:].copy()


@compiled(error_model="numpy")
def inverse(matrix: Floats) -> Floats:
    """A^-1, symmetric to the last bit, for a positive definite A of shape (n, n). O(n^3)."""
    n = matrix.shape[0]
    root = _eliminated(matrix, np.eye(n), True)[:, n:].copy()
    found = np.zeros((n, n))
    for first in range(0, n, _PANEL):
        last = min(first + _PANEL, n)
        _subtract_rows(root, -root[:, first:last], found[first:last], 0, last)
        for i in range(first, last):
            found[:i, i] = found[i, :i]
    return found


@compiled(error_model="numpy")
def product(a: Floats, b: Floats) -> Floats:
    """a'b, shape (k, m), for a of shape (n, k) and b of shape (n, m). O(n k m)."""
    found = np.zeros((a.shape[1], b.shape[1]))
    for first in range(0, a.shape[1], _PANEL):
        last = min(first + _PANEL, a.shape[1])
        _subtract_rows(b, -a[:, first:last], found[first:last], 0, b.shape[1])
    return found


@compiled(error_model="numpy")
def _eliminated(matrix: Floats, columns: Floats, triangular: bool) -> Floats:
    """[L', L^-1 B], shape (n, n + M); the part of L' below its diagonal is not 0. B may be triangular."""
    n, width = matrix.shape[0], matrix.shape[0] + columns.shape[1]
    v = np.empty((n, width))
    v[:, :n] = matrix
    v[:, n:] = columns
    for first in range(0, n, _PANEL):
        last = min(first + _PANEL, n)
        high = n + last if triangular else width
        _subtract_rows(v[:first], v[:first, first:last].copy(), v[first:last], first, high)
        for i in range(first, last):
            _subtract_rows(v[first:i], v[first:i, i : i + 1].copy(), v[i : i + 1], i, high)
            d = np.sqrt(v[i, i])
            for k in range(i, high):
                v[i, k] /= d
    return v


@compiled(error_model="numpy")
def _subtract_rows(rows: Floats, shares: Floats, totals: Floats, low: int, high: int) -> None:
    """totals -= shares' rows in the columns from low to high; shapes (k, N), (k, m) and (m, N)."""
    for start in range(low, high, _TILE):
        stop = min(start + _TILE, high)
        for j in range(rows.shape[0]):
            row = rows[j, start:stop]
            for i in range(totals.shape[0]):
                share, total = shares[j, i], totals[i, start:stop]
                if share != 0.0:
                    for k in range(row.shape[0]):
                        total[k] -= share * row[k]
