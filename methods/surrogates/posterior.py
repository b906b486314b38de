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
This makes a trial over the whole table three times faster than with all N columns. The memory of V is
enlarged when it is needed, in place where the system can do so.
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
# V has room for this many rows more at a time. At first it has room for more if these bytes allow it: a table
# of up to about 1,000 rows never needs more.
_MORE_ROWS = 64
_FIRST_BYTES = 8 * 2**20
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
        self._memory: Floats = np.empty(n_rows * max(_MORE_ROWS, min(n_rows, _FIRST_BYTES // (8 * n_rows))))
        self._whitened = np.zeros((n_rows, n_targets))
        self.mean: Floats = np.zeros((n_targets, n_rows))
        self.row_sums = None if row_sums is None else row_sums.copy()

    def observe(self, row: int, targets: Floats) -> bool:
        """Condition on a row for the first time. O(n M)."""
        n, width = self._n_seen, len(self.rows)
        if (n + 1) * width > self._memory.size:
            # The system moves the pages, if it can, and copies nothing. No array of another object is a view.
            self._memory.resize(self._memory.size + _MORE_ROWS * width, refcheck=False)
        row_sums = _NOTHING if self.row_sums is None else self.row_sums
        d = _append(
            self._memory, n, self._prior.row(row), row, self.rows, self.noise_variance, self._whitened,
            targets, self.mean, self.var, row_sums, self.unseen,
        )  # fmt: skip
        if d < 0.0:
            raise _gone(row)
        self._n_seen += d > 0.0
        self._forget_seen()
        return d > 0.0

    def discard(self, row: int) -> None:
        """Remove a row from the candidates. O(n M)."""
        column = self._column(row)
        if self.row_sums is not None:
            self.row_sums -= conditioned(self._v[: self._n_seen], self._prior.row(row)[self.rows], column)
        self.unseen[column] = False
        self._forget_seen()

    def covariance(self, row: int) -> Floats:
        """Computed with four rows of V at a time."""
        column = self._column(row)
        found: Floats = self._prior.row(row)[self.rows]
        _subtract_rows(self._v, self._n_seen, column, found)
        return found

    @property
    def _v(self) -> Floats:
        """V, with room for more rows, shape (n + k, M)."""
        return _matrix(self._memory, max(len(self.rows), 1))

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
            _keep(self._v, self._n_seen, keep)
            self.rows = self.rows[keep]
            self.mean = np.ascontiguousarray(self.mean[:, keep])
            self.var = self.var[keep]
            self.unseen = np.ones(len(keep), dtype=bool)
            if self.row_sums is not None:
                self.row_sums = self.row_sums[keep]
            self._n_stale = 0


def _gone(row: int) -> ValueError:
    return ValueError(f"row {row} is not a candidate any more: it was observed or discarded before.")


_NOTHING = np.empty(0)


@compiled()
def _matrix(memory: Floats, width: int) -> Floats:
    """The memory as rows of this width."""
    count = memory.shape[0] // width
    return memory[: count * width].reshape((count, width))


@compiled(inline="always")
def _subtract_rows(v: Floats, n: int, column: int, new: Floats) -> None:
    """new -= l'V for the first n rows of V, four rows of V in each pass over `new`, in a fixed order.

    `add_rows` of cholesky.py adds the four rows one by one, so its last bits may differ.
    """
    for start in range(0, new.shape[0], _TILE):
        tile = new[start : start + _TILE]
        width = tile.shape[0]
        j = 0
        while j + 4 <= n:
            a, b = v[j, column], v[j + 1, column]
            c, e = v[j + 2, column], v[j + 3, column]
            row_a, row_b = v[j, start : start + _TILE], v[j + 1, start : start + _TILE]
            row_c, row_e = v[j + 2, start : start + _TILE], v[j + 3, start : start + _TILE]
            for i in range(width):
                tile[i] -= (a * row_a[i] + b * row_b[i]) + (c * row_c[i] + e * row_e[i])
            j += 4
        while j < n:
            a = v[j, column]
            row_a = v[j, start : start + _TILE]
            for i in range(width):
                tile[i] -= a * row_a[i]
            j += 1


@compiled()
def _append(
    memory: Floats, n: int, prior_row: Floats, row: int, rows: Rows, noise_variance: float, whitened: Floats,
    targets: Floats, mean: Floats, var: Floats, row_sums: Floats, unseen: Bools,
) -> float:  # fmt: skip
    """Append the observation of row p to row n of V; the arrays after the targets change in place.

    `whitened` is z, whose earlier rows are filled, and the row sums may be empty. Returns d, 0 if other rows
    determine this row, or -1 if the row is not a candidate.
    """
    column, after = 0, rows.shape[0]
    while column < after:  # numba takes a second to compile np.searchsorted
        middle = (column + after) // 2
        if rows[middle] < row:
            column = middle + 1
        else:
            after = middle
    if column == rows.shape[0] or rows[column] != row:
        return -1.0
    unseen[column] = False
    v = _matrix(memory, rows.shape[0])
    new = v[n]
    for i in range(new.shape[0]):
        new[i] = prior_row[rows[i]]
    pivot = prior_row[row] + noise_variance
    for j in range(n):
        pivot -= v[j, column] * v[j, column]
    if pivot <= prior_row[row] * VARIANCE_FLOOR:
        return 0.0
    d = np.sqrt(pivot)
    inverse = 1.0 / d
    _subtract_rows(v, n, column, new)
    divide_row(new, d, var)
    for t in range(targets.shape[0]):
        zeta = targets[t]
        for j in range(n):
            zeta -= v[j, column] * whitened[j, t]
        zeta *= inverse
        whitened[n, t] = zeta
        shift = mean[t]
        for i in range(shift.shape[0]):
            shift[i] += zeta * new[i]
    if row_sums.shape[0] > 0:
        share = row_sums[column] / d
        for i in range(new.shape[0]):
            row_sums[i] -= new[i] * share
    return float(d)


@compiled()
def _keep(v: Floats, n: int, keep: Rows) -> None:
    """Move the columns `keep`, ascending, of the first n rows together, so that they fill V's memory."""
    width = v.shape[1]
    flat = v.reshape(-1)
    for j in range(n):
        for i in range(keep.shape[0]):
            flat[j * keep.shape[0] + i] = flat[j * width + keep[i]]


def conditioned(rows: Floats, covariance: Floats, column: int) -> Floats:
    """Covariance of one candidate with all, given more rows of V."""
    given = covariance.copy()
    add_rows(rows, -rows[:, column], given)
    return given
