"""The Gaussian posterior over a finite candidate set, updated one observation at a time.

Every surrogate here is a Gaussian prior over the N candidates, given by its covariance K, and
conditioned on the n rows seen so far (Zhang & Duh 2020, sections 5.1.1 and 5.3). The equations are those
of Rasmussen & Williams 2006, algorithm 2.1, with the Cholesky factor grown by one row at a time.

    symbol   shape    meaning
    K        N x N    prior covariance, read one row at a time
    s        scalar   standard deviation of the observation noise
    L        n x n    Cholesky factor of K[S,S] + s^2 I
    V        n x M    L^-1 K[S,U]: what the seen rows S say of the M candidates kept
    z        n x m    L^-1 y_S, for m targets
    mean     m x M    V' z
    var      M        diag K[U,U] - column sums of V^2

Observing row p appends one row to V:

    l = V[:,p];  d = sqrt(K[p,p] + s^2 - l.l);  v = (K[p,U] - l'V) / d;  zeta = (y - l.z) / d
    mean += zeta v;  var -= v^2

A step costs O(n M). Seen rows are of no further interest, so their columns are dropped from time to
time, which makes a whole trial over the table three times cheaper than keeping all N columns.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.compiled import compiled

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Columns of seen rows are dropped when they are more than this share of the columns kept.
_STALE_SHARE = 0.15
# A conditional variance below this share of the prior's is rounding error: the row is determined by
# those already seen, and dividing by it would only spread noise.
_VARIANCE_FLOOR = 1e-12


class Prior(Protocol):
    """Covariance of the finite set: its diagonal at once, its rows as they are needed."""

    @property
    def diagonal(self) -> Floats:
        """K[i,i] for every row, shape (N,)."""

    def row(self, i: int) -> Floats:
        """K[i], shape (N,). Must not be written to."""


class Posterior:
    """Mean and variance of every unseen candidate, given the rows observed.

    Args:
        prior: covariance over the N rows.
        n_targets: number m of targets that share the covariance.
        noise_sd: standard deviation of the observation noise.
        row_sums: K @ 1, shape (N,), to follow the sums of the posterior covariance's rows over the
            unseen set (for expected influence); exact only with noise_sd = 0.

    Attributes (views that later observations overwrite; all over the M columns kept):
        rows: the candidates' row numbers, ascending, shape (M,).
        unseen: False where the row was observed since its column was last dropped, shape (M,).
        mean: shape (m, M).
        var: shape (M,), never negative.
        row_sums: sum over unseen j of Cov[i, j], shape (M,), where asked for.
    """

    def __init__(
        self,
        prior: Prior,
        n_targets: int = 1,
        noise_sd: float = 0.0,
        row_sums: Floats | None = None,
    ) -> None:
        n_rows = len(prior.diagonal)
        self._prior = prior
        self._noise_variance = noise_sd * noise_sd
        self._n_seen = 0
        self._n_stale = 0
        self._factor = np.empty((min(64, n_rows), n_rows))
        self._whitened = np.zeros((min(64, n_rows), n_targets))
        self.rows: Rows = np.arange(n_rows, dtype=np.int64)
        self.unseen: NDArray[np.bool_] = np.ones(n_rows, dtype=bool)
        self.mean: Floats = np.zeros((n_targets, n_rows))
        self.var: Floats = prior.diagonal.copy()
        self.row_sums: Floats | None = None if row_sums is None else row_sums.copy()

    def observe(self, row: int, targets: Floats) -> None:
        """Condition on targets (shape (m,)) observed at row. O(n M)."""
        column = int(self.rows.searchsorted(row))
        if self._n_seen == len(self._factor):
            self._grow()
        prior_row = self._prior.row(row)
        if len(self.rows) < len(prior_row):
            prior_row = prior_row[self.rows]
        conditional = _append(
            self._factor,
            self._whitened,
            self._n_seen,
            prior_row,
            column,
            self._noise_variance,
            self._prior.diagonal[row] * _VARIANCE_FLOOR,
            np.asarray(targets, dtype=np.float64),
            self.mean,
            self.var,
        )
        if conditional > 0.0:
            if self.row_sums is not None:
                new = self._factor[self._n_seen]
                self.row_sums -= new * (self.row_sums[column] / conditional)
            self._n_seen += 1
        self._drop(column)

    def discard(self, row: int) -> None:
        """Take row out of the candidates without learning from it (its training failed). O(n M)."""
        column = int(self.rows.searchsorted(row))
        if self.row_sums is not None:
            prior_row = self._prior.row(row)[self.rows]
            self.row_sums -= _covariance(self._factor, self._n_seen, prior_row, column)
        self._drop(column)

    def _drop(self, column: int) -> None:
        self.unseen[column] = False
        self._n_stale += 1
        if self._n_stale > _STALE_SHARE * len(self.rows) + 8:
            keep = np.flatnonzero(self.unseen)
            factor = np.empty((len(self._factor), len(keep)))
            # mode="clip" spares numpy a second copy; the indices are in range.
            np.take(self._factor[: self._n_seen], keep, axis=1, out=factor[: self._n_seen], mode="clip")
            self._factor = factor
            self.rows = self.rows[keep]
            self.mean = np.ascontiguousarray(self.mean[:, keep])
            self.var = self.var[keep]
            self.unseen = np.ones(len(keep), dtype=bool)
            if self.row_sums is not None:
                self.row_sums = self.row_sums[keep]
            self._n_stale = 0

    def _grow(self) -> None:
        capacity = 2 * len(self._factor)
        factor = np.empty((capacity, self._factor.shape[1]))
        factor[: self._n_seen] = self._factor[: self._n_seen]
        whitened = np.zeros((capacity, self._whitened.shape[1]))
        whitened[: self._n_seen] = self._whitened[: self._n_seen]
        self._factor, self._whitened = factor, whitened


@compiled()
def _append(
    factor: Floats,
    whitened: Floats,
    n: int,
    prior_row: Floats,
    column: int,
    noise_variance: float,
    floor: float,
    targets: Floats,
    mean: Floats,
    var: Floats,
) -> float:
    """Append one observation to row n of factor; returns d, or 0 where the row was determined already.

    Sums run in one fixed order (no BLAS, no fused or reordered arithmetic), so that the bits depend
    neither on a thread count nor on the machine's vector width.
    """
    width = prior_row.shape[0]
    pivot = prior_row[column] + noise_variance
    for j in range(n):
        pivot -= factor[j, column] * factor[j, column]
    if pivot <= floor:
        return 0.0
    d = np.sqrt(pivot)
    inverse = 1.0 / d
    new = factor[n]
    for i in range(width):
        new[i] = prior_row[i]
    # new -= l'V, four rows of V at a time: one pass over `new` for four over V.
    j = 0
    while j + 4 <= n:
        a, b = factor[j, column], factor[j + 1, column]
        c, e = factor[j + 2, column], factor[j + 3, column]
        row_a, row_b, row_c, row_e = factor[j], factor[j + 1], factor[j + 2], factor[j + 3]
        for i in range(width):
            new[i] -= (a * row_a[i] + b * row_b[i]) + (c * row_c[i] + e * row_e[i])
        j += 4
    while j < n:
        a = factor[j, column]
        row_a = factor[j]
        for i in range(width):
            new[i] -= a * row_a[i]
        j += 1
    for i in range(width):
        new[i] *= inverse
        var[i] = max(var[i] - new[i] * new[i], 0.0)
    for t in range(targets.shape[0]):
        zeta = targets[t]
        for j in range(n):
            zeta -= factor[j, column] * whitened[j, t]
        zeta *= inverse
        whitened[n, t] = zeta
        row = mean[t]
        for i in range(width):
            row[i] += zeta * new[i]
    return float(d)


@compiled()
def _covariance(factor: Floats, n: int, prior_row: Floats, column: int) -> Floats:
    """Posterior covariance of one candidate with all, in the same fixed order of sums."""
    covariance = prior_row.copy()
    for j in range(n):
        for i in range(covariance.shape[0]):
            covariance[i] -= factor[j, column] * factor[j, i]
    return covariance
