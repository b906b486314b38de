"""A Gaussian posterior over a finite set, with targets that may change at every step.

symbol   shape    meaning
K        N x N    prior covariance of the candidates
s        scalar   standard deviation of the observation noise
L        n x n    Cholesky factor of K[S,S] + s^2 I, for the n rows S that were observed
V        n x N    L^-1 K[S,:]
var      N        diag K - column sums of V^2
mean     N        V' L^-1 y, for any targets y of shape (n,)

L, V and var depend on which rows were observed, not on y. They grow by one row with each observation, in O(n
N). The mean for new targets takes O(n N + n^2). `posterior.py` is faster if the targets stay the same, or
change only by shift and scale.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.surrogates.cholesky import add_rows, solve
from hpobench_nmt.methods.surrogates.posterior import VARIANCE_FLOOR, FinitePosterior, Prior, conditioned

_BLOCK_ROWS = 64


class AnyTargetsPosterior(FinitePosterior):
    """See the top of this file. All N rows stay candidates; `seen` lists the n rows learned, in order."""

    def __init__(self, prior: Prior, noise_sd: float, n_targets: int = 1) -> None:
        super().__init__(prior, noise_sd)
        self.seen: list[int] = []
        self._observed = np.empty((_BLOCK_ROWS, n_targets))
        self._whitened_rows = np.empty((_BLOCK_ROWS, len(self.rows)))
        self._factor = np.zeros((_BLOCK_ROWS, _BLOCK_ROWS))

    @property
    def observed(self) -> Floats:
        """The observed targets of the rows in `seen`, shape (n, m)."""
        return self._observed[: len(self.seen)]

    def observe(self, row: int, targets: Floats) -> bool:
        """Condition on a row, whatever its targets. A row that others determine is left out. O(n N)."""
        self.unseen[row] = False
        n = len(self.seen)
        if n == len(self._whitened_rows):
            self._grow()
        covariance = self._prior.row(row)
        if not _append(self._factor, self._whitened_rows, self.var, n, covariance, row, self.noise_variance):
            return False
        self._observed[n] = targets
        self.seen.append(row)
        return True

    def discard(self, row: int) -> None:
        """Take a row out of the candidates. O(1)."""
        self.unseen[row] = False

    def mean(self, targets: Floats) -> Floats:
        """The posterior mean of every row, for targets of the rows in `seen`, shape (n,)."""
        n = len(targets)
        z, mean = np.empty(n), np.zeros(len(self.rows))
        solve(self._factor, np.ascontiguousarray(targets, dtype=np.float64), z)
        add_rows(self._whitened_rows[:n], z, mean)
        return mean

    def left_out(self, targets: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of n targets, each given the others (Rasmussen & Williams 2006, 5.12). O(n^3)."""
        n = len(self.seen)
        columns, z = np.empty((n, n)), np.empty(n)  # of L^-1, and L^-1 y
        for i, unit in enumerate(np.eye(n)):
            solve(self._factor, unit, columns[i])
        solve(self._factor, np.ascontiguousarray(targets), z)
        var = 1.0 / (columns**2).sum(axis=1)
        return targets - (columns * z).sum(axis=1) * var, var

    def covariance(self, row: int) -> Floats:
        """Posterior covariance of a row with all rows, shape (N,). O(n N)."""
        return conditioned(self._whitened_rows[: len(self.seen)], self._prior.row(row), row)

    def _grow(self) -> None:
        n = len(self._whitened_rows)
        self._whitened_rows = np.concatenate([self._whitened_rows, np.empty_like(self._whitened_rows)])
        self._observed = np.concatenate([self._observed, np.empty_like(self._observed)])
        factor = np.zeros((2 * n, 2 * n))
        factor[:n, :n] = self._factor
        self._factor = factor


def standardised(values: Floats) -> Floats:
    """The values minus their mean, divided by their standard deviation; for a matrix, by column.

    Zeros where all values are equal: their computed deviation is only nearly 0.
    """
    spread = np.where(np.ptp(values, axis=0) > 0, values.std(axis=0), 0.0)
    centred = values - values.mean(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))


@compiled()
def _append(
    factor: Floats, whitened_rows: Floats, var: Floats, n: int, row: Floats, index: int, noise: float
) -> bool:
    """Condition on row `index` as the n-th; False if the rows before determine it."""
    pivot = row[index] + noise
    for j in range(n):
        factor[n, j] = whitened_rows[j, index]
        pivot -= factor[n, j] * factor[n, j]
    if pivot <= row[index] * VARIANCE_FLOOR:
        return False
    d = np.sqrt(pivot)
    factor[n, n] = d
    new = whitened_rows[n]
    new[:] = row
    add_rows(whitened_rows[:n], -factor[n, :n], new)
    for i in range(new.shape[0]):
        new[i] /= d
        var[i] = max(var[i] - new[i] * new[i], 0.0)
    return True
