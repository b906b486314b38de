"""The Gaussian posterior over a finite candidate set, updated one observation at a time.

Every surrogate here is a Gaussian prior over the N candidates, defined by its covariance K, and
conditioned on the n rows observed so far (Zhang & Duh 2020, sections 5.1.1 and 5.3). The equations are those
of Rasmussen & Williams 2006, algorithm 2.1, with a Cholesky factor that grows by one row at a time.

    symbol   shape    meaning
    K        N x N    prior covariance, read one row at a time
    s        scalar   standard deviation of the observation noise
    L        n x n    Cholesky factor of K[S,S] + s^2 I
    V        n x M    L^-1 K[S,U] for the observed rows S and the M candidates that are kept
    z        n x m    L^-1 y_S, for m targets
    mean     m x M    V' z
    var      M        diag K[U,U] - column sums of V^2

Observing row p appends one row to V:

    l = V[:,p];  d = sqrt(K[p,p] + s^2 - l.l);  v = (K[p,U] - l'V) / d;  zeta = (y - l.z) / d
    mean += zeta v;  var -= v^2

A step costs O(n M). Observed rows are no longer candidates, so their columns are dropped from time to time.
This makes a trial over the whole table three times faster than with all N columns. V is stored in blocks of
rows that are allocated when they are needed, so it grows without being copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.surrogates.cholesky import add_rows, divide_row

# Columns of seen rows are dropped when they exceed this share of the stored columns.
_STALE_SHARE = 0.15
# A conditional variance below this share of the prior variance is rounding error. The rows already seen
# determine such a row, and dividing by its variance would only amplify the error.
VARIANCE_FLOOR = 1e-12
# The least number of rows of a block of V, a multiple of 4 because sums add four rows at a time, and the
# largest size of a larger block in bytes. A table of up to about 1,000 rows needs only one block.
_BLOCK_ROWS = 64
_BLOCK_BYTES = 8 * 2**20
# The number of columns that are updated together, so that the new row of V stays in the processor's cache.
_TILE = 2048


class Prior(Protocol):
    """The covariance of the finite set: its diagonal, and its rows when they are needed."""

    @property
    def diagonal(self) -> Floats:
        """K[i,i] for every row, shape (N,)."""

    def row(self, i: int) -> Floats:
        """K[i], shape (N,). The caller must not write to it."""


class FinitePosterior(ABC):
    """The interface of a posterior over N rows, of which M candidates are stored.

    Attributes (views that later observations overwrite):
        rows: the candidates' row numbers, ascending, shape (M,).
        unseen: False where the row was observed or discarded, shape (M,).
        var: posterior variance, never negative, shape (M,).
        row_sums: sum over unseen j of Cov[i, j], shape (M,), if the posterior tracks it.
        noise_variance: s^2.
    """

    def __init__(self, prior: Prior, noise_sd: float) -> None:
        n_rows = len(prior.diagonal)
        self._prior = prior
        self.noise_variance = noise_sd * noise_sd
        self.rows: Rows = np.arange(n_rows, dtype=np.int64)
        self.unseen: Bools = np.ones(n_rows, dtype=bool)
        self.var: Floats = prior.diagonal.copy()
        self.row_sums: Floats | None = None

    @abstractmethod
    def observe(self, row: int, targets: Floats) -> bool:
        """Condition on the targets of a row, shape (m,), float64; False if other rows determine it."""

    @abstractmethod
    def discard(self, row: int) -> None:
        """Remove a row, whose training failed, from the candidates without learning from it."""

    @abstractmethod
    def covariance(self, row: int) -> Floats:
        """Posterior covariance of a candidate with all stored candidates, shape (M,). O(n M)."""

    def prior_variance(self, row: int) -> float:
        """K[i,i] of a row."""
        return float(self._prior.diagonal[row])


class Posterior(FinitePosterior):
    """Mean and variance of every unseen candidate, given the rows observed; `mean` has shape (m, M).

    The m = n_targets targets share the covariance. Given `row_sums`, K @ 1 of shape (N,), the posterior
    tracks the row sums of its covariance over the unseen set (for expected influence). They are exact only
    with noise_sd = 0.
    """

    def __init__(
        self, prior: Prior, n_targets: int = 1, noise_sd: float = 0.0, row_sums: Floats | None = None
    ) -> None:
        super().__init__(prior, noise_sd)
        n_rows = len(self.rows)
        self._n_seen = 0
        self._n_stale = 0
        self._block_rows = max(_BLOCK_ROWS, min(n_rows, _BLOCK_BYTES // (8 * n_rows)) // 4 * 4)
        self._blocks: list[Floats] = []
        self._whitened = np.zeros((self._block_rows, n_targets))
        self.mean: Floats = np.zeros((n_targets, n_rows))
        self.row_sums = None if row_sums is None else row_sums.copy()

    def observe(self, row: int, targets: Floats) -> bool:
        """Condition on a row for the first time. O(n M)."""
        full, n = divmod(self._n_seen, self._block_rows)
        if full == len(self._blocks):
            self._grow()
        last = self._blocks[full]
        prior_row = self._prior.row(row)
        earlier = self._explain(prior_row, row, self._blocks[:full], last[n]) if full else _NOTHING
        column, conditional = _append(
            last,
            n,
            prior_row,
            row,
            self.rows,
            self.noise_variance,
            earlier,
            self._whitened,
            targets,
            self.mean,
            self.var,
            self.unseen,
        )
        if column < 0:
            raise _gone(row)
        if conditional > 0.0:
            if self.row_sums is not None:
                _follow(self.row_sums, last, n, column, conditional)
            self._n_seen += 1
        self._forget_seen()
        return conditional > 0.0

    def discard(self, row: int) -> None:
        """Remove a row from the candidates. O(n M)."""
        column = self._column(row)
        if self.row_sums is not None:
            prior_row = self._prior.row(row)[self.rows]
            for block, n in self._filled():
                prior_row = conditioned(block[:n], prior_row, column)
            self.row_sums -= prior_row
        self.unseen[column] = False
        self._forget_seen()

    def covariance(self, row: int) -> Floats:
        """Computed with four rows of V at a time."""
        column = self._column(row)
        found: Floats = self._prior.row(row)[self.rows]
        for block, n in self._filled():
            _subtract(block[:n], column, found)
        return found

    def _explain(self, prior_row: Floats, row: int, full: list[Floats], new: Floats) -> Floats:
        """Write K[p,U], minus its projection on the full blocks of V, to `new`. Return l in these blocks."""
        column = self._column(row)
        new[:] = prior_row[self.rows]
        for block in full:
            _subtract(block, column, new)
        return np.concatenate([block[:, column] for block in full])

    def _column(self, row: int) -> int:
        column = int(self.rows.searchsorted(row))
        if column == len(self.rows) or self.rows[column] != row:
            raise _gone(row)
        return column

    def _forget_seen(self) -> None:
        """Count one more seen candidate. If there are many, drop the columns of all of them."""
        self._n_stale += 1
        if self._n_stale > _STALE_SHARE * len(self.rows) + 8:
            keep = np.flatnonzero(self.unseen)
            self._blocks = [_kept(block, n, keep) for block, n in self._filled()]
            self.rows = self.rows[keep]
            self.mean = np.ascontiguousarray(self.mean[:, keep])
            self.var = self.var[keep]
            self.unseen = np.ones(len(keep), dtype=bool)
            if self.row_sums is not None:
                self.row_sums = self.row_sums[keep]
            self._n_stale = 0

    def _filled(self) -> list[tuple[Floats, int]]:
        """The blocks of V, each with its number of filled rows."""
        size = self._block_rows
        return [(block, min(self._n_seen - i * size, size)) for i, block in enumerate(self._blocks)]

    def _grow(self) -> None:
        self._blocks.append(np.empty((self._block_rows, len(self.rows))))
        if self._n_seen:
            more = np.zeros_like(self._whitened[: self._block_rows])
            self._whitened = np.concatenate([self._whitened, more])


def _gone(row: int) -> ValueError:
    return ValueError(f"row {row} is not a candidate any more: it was observed or discarded before.")


_NOTHING = np.empty(0)


@compiled(inline="always")
def _subtract_rows(block: Floats, n: int, column: int, new: Floats) -> None:
    """new -= l'V for the first n rows of a block, four rows of V in each pass over `new`.

    Sums run in a fixed order (no BLAS, no fused or reordered arithmetic), so the bits do not depend on the
    number of threads or the machine's vector width.
    """
    for start in range(0, new.shape[0], _TILE):
        tile = new[start : start + _TILE]
        width = tile.shape[0]
        j = 0
        while j + 4 <= n:
            a, b = block[j, column], block[j + 1, column]
            c, e = block[j + 2, column], block[j + 3, column]
            row_a, row_b = block[j, start : start + _TILE], block[j + 1, start : start + _TILE]
            row_c, row_e = block[j + 2, start : start + _TILE], block[j + 3, start : start + _TILE]
            for i in range(width):
                tile[i] -= (a * row_a[i] + b * row_b[i]) + (c * row_c[i] + e * row_e[i])
            j += 4
        while j < n:
            a = block[j, column]
            row_a = block[j, start : start + _TILE]
            for i in range(width):
                tile[i] -= a * row_a[i]
            j += 1


@compiled()
def _subtract(block: Floats, column: int, new: Floats) -> None:
    """new -= l'V for all rows of a block."""
    _subtract_rows(block, block.shape[0], column, new)


@compiled()
def _append(
    block: Floats,
    n: int,
    prior_row: Floats,
    row: int,
    rows: Rows,
    noise_variance: float,
    earlier: Floats,
    whitened: Floats,
    targets: Floats,
    mean: Floats,
    var: Floats,
    unseen: Bools,
) -> tuple[int, float]:
    """Append the observation of row p to row n of the last block of V; mean, var and unseen change in place.

    If there are earlier blocks, row n holds K[p,U] minus its projection on them, and `earlier` is l in these
    blocks. `whitened` is z, whose earlier rows are filled. Returns the row's column, or -1 if the row is not
    a candidate, and d, or 0 if other rows determine this row.
    """
    column, after = 0, rows.shape[0]
    while column < after:  # numba takes a second to compile np.searchsorted
        middle = (column + after) // 2
        if rows[middle] < row:
            column = middle + 1
        else:
            after = middle
    if column == rows.shape[0] or rows[column] != row:
        return -1, 0.0
    unseen[column] = False
    first = earlier.shape[0]
    new = block[n]
    if first == 0:
        for i in range(new.shape[0]):
            new[i] = prior_row[rows[i]]
    pivot = prior_row[row] + noise_variance
    for projection in earlier:
        pivot -= projection * projection
    for j in range(n):
        pivot -= block[j, column] * block[j, column]
    if pivot <= prior_row[row] * VARIANCE_FLOOR:
        return column, 0.0
    d = np.sqrt(pivot)
    inverse = 1.0 / d
    _subtract_rows(block, n, column, new)
    divide_row(new, d, var)
    for t in range(targets.shape[0]):
        zeta = targets[t]
        for j in range(first):
            zeta -= earlier[j] * whitened[j, t]
        for j in range(n):
            zeta -= block[j, column] * whitened[first + j, t]
        zeta *= inverse
        whitened[first + n, t] = zeta
        shift = mean[t]
        for i in range(shift.shape[0]):
            shift[i] += zeta * new[i]
    return column, float(d)


@compiled()
def _follow(row_sums: Floats, block: Floats, n: int, column: int, d: float) -> None:
    """Update the row sums after row n of the block was appended."""
    share = row_sums[column] / d
    for i in range(row_sums.shape[0]):
        row_sums[i] -= block[n, i] * share


@compiled()
def _kept(block: Floats, n: int, keep: Rows) -> Floats:
    """The block with only the columns `keep`, ascending, in the same memory. The first n rows are filled."""
    width = block.shape[1]
    flat = block.reshape(-1)
    for j in range(n):
        for i in range(keep.shape[0]):
            flat[j * keep.shape[0] + i] = flat[j * width + keep[i]]
    return flat[: block.shape[0] * keep.shape[0]].reshape((block.shape[0], keep.shape[0]))


def conditioned(rows: Floats, covariance: Floats, column: int) -> Floats:
    """Covariance of one candidate with all, given more rows of V."""
    given = covariance.copy()
    add_rows(rows, -rows[:, column], given)
    return given
