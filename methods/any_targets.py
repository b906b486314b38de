"""A Gaussian posterior over a finite set whose targets may be others at every step.

symbol   shape    meaning
K        N x N    prior covariance of the candidates
s        scalar   standard deviation of the observation noise
L        n x n    Cholesky factor of K[S,S] + s^2 I, for the n rows S that were observed
V        n x N    L^-1 K[S,:]
var      N        diag K - column sums of V^2
mean     N        V' L^-1 y, for any targets y of shape (n,)

L, V and var depend on which rows were observed, not on y. They grow by a row with each observation, in O(n
N). The mean of new targets takes O(n N + n^2). `posterior.py` is faster where the targets stay, or change
only by shift and scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.compiled import compiled
from hpobench_nmt.methods.pending import Pending
from hpobench_nmt.methods.posterior import VARIANCE_FLOOR, Prior

_BLOCK_ROWS = 64


class AnyTargetsPosterior:
    """See the top of this file.

    Args:
        prior: covariance over the N rows.
        noise_sd: standard deviation of the observation noise.

    Attributes:
        rows: all N rows, so that this can be used like the posterior of posterior.py.
        unseen: False where the row was observed or discarded, shape (N,).
        var: posterior variance, never negative, shape (N,).
        count: the number of rows n that entered.
        noise_variance: s^2.
    """

    row_sums: Floats | None = None

    def __init__(self, prior: Prior, noise_sd: float) -> None:
        n_rows = len(prior.diagonal)
        self._prior = prior
        self.noise_variance = noise_sd * noise_sd
        self.rows: Rows = np.arange(n_rows, dtype=np.int64)
        self.unseen: NDArray[np.bool_] = np.ones(n_rows, dtype=bool)
        self.var: Floats = prior.diagonal.copy()
        self.count = 0
        self._whitened_rows = np.empty((_BLOCK_ROWS, n_rows))
        self._factor = np.zeros((_BLOCK_ROWS, _BLOCK_ROWS))

    def observe(self, row: int) -> bool:
        """Condition on a row, whatever its target. O(n N).

        Returns:
            False where it was determined by those before, so that its target must be left out.
        """
        self.unseen[row] = False
        if self.count == len(self._whitened_rows):
            self._grow()
        covariance = self._prior.row(row)
        entered: bool = _append(
            self._factor, self._whitened_rows, self.var, self.count, covariance, row, self.noise_variance
        )
        self.count += entered
        return entered

    def discard(self, row: int) -> None:
        """Take a row out of the candidates without learning from it."""
        self.unseen[row] = False

    def mean(self, targets: Floats) -> Floats:
        """The posterior mean of every row for these targets, shape (n,), of the rows that entered."""
        found: Floats = _mean(self._factor, self._whitened_rows, targets)
        return found

    def left_out(self, targets: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each target given all others, shapes (n,), noise included. O(n^3).

        Rasmussen & Williams 2006, equation 5.12.
        """
        n = self.count
        root = solve_triangular(self._factor[:n, :n], np.eye(n), lower=True)
        var = 1.0 / (root**2).sum(axis=0)
        return targets - (root.T @ (root @ targets)) * var, var

    def covariance(self, row: int) -> Floats:
        """Posterior covariance of a row with all, shape (N,). O(n N)."""
        found: Floats = _covariance(self._whitened_rows[: self.count], self._prior.row(row), row)
        return found

    def prior_variance(self, row: int) -> float:
        """K[i,i] of a row."""
        return float(self._prior.diagonal[row])

    def _grow(self) -> None:
        n = len(self._whitened_rows)
        self._whitened_rows = np.concatenate([self._whitened_rows, np.empty_like(self._whitened_rows)])
        factor = np.zeros((2 * n, 2 * n))
        factor[:n, :n] = self._factor
        self._factor = factor


class AnyTargetsSearch(ABC):
    """A method that gives the rows seen other targets at every step.

    Attributes:
        posterior: of the rows seen.
        losses: of the rows that entered it, in their order.
        rng: the method's generator.
    """

    def __init__(self, prior: Prior, noise_sd: float, rng: np.random.Generator) -> None:
        self.rng = rng
        self.posterior = AnyTargetsPosterior(prior, noise_sd)
        self.losses: list[Floats] = []
        self._pending = Pending(self.posterior)
        self._next: tuple[frozenset[int], int | None] | None = None

    @abstractmethod
    def scores(self, var: Floats, free: NDArray[np.bool_]) -> Floats:
        """The value of each row, shape (N,); the largest among those that are free wins.

        Args:
            var: posterior variance, given what is pending, too, shape (N,).
            free: False for rows that were seen or are pending, shape (N,).
        """

    def ask(self) -> int:
        """The best row that was not seen; a random one while nothing is known."""
        row = self.suggest({})
        assert row is not None
        return row

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The best row that was not seen and is not running."""
        pending = frozenset(running)
        if self._next is None or self._next[0] != pending:
            self._next = pending, self.choose(running)
        return self._next[1]

    def choose(self, running: Mapping[int, float]) -> int | None:
        """The best row that was not seen and is not running, anew."""
        var, free = self.posterior.var, self.posterior.unseen
        if running:
            var, _, free = self._pending.given(running)
        candidates = np.flatnonzero(free)
        if not len(candidates):
            return None
        if not self.losses:
            return int(self.rng.choice(candidates))
        return int(candidates[self.scores(var, free)[candidates].argmax()])

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the losses of a row; a row that lacks one only leaves the candidates."""
        self._next = None
        if np.isnan(losses).any():
            self._pending.discarded(index)
            self.posterior.discard(index)
            return
        self._pending.observed(index)
        if self.posterior.observe(index):
            self.losses.append(losses.copy())


def standardised(values: Floats) -> Floats:
    """The values less their mean, over their standard deviation, of each column if there are columns.

    Zeros where all values are equal: their computed deviation is only nearly 0.
    """
    spread = np.where(np.ptp(values, axis=0) > 0, values.std(axis=0), 0.0)
    centred = values - values.mean(axis=0)
    found: Floats = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return found


@compiled()
def _append(
    factor: Floats, whitened_rows: Floats, var: Floats, n: int, row: Floats, index: int, noise: float
) -> bool:
    """Condition on row `index` as the n-th; False where it was determined by those before."""
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
    for j in range(n):
        share, earlier = factor[n, j], whitened_rows[j]
        for i in range(new.shape[0]):
            new[i] -= share * earlier[i]
    for i in range(new.shape[0]):
        new[i] /= d
        var[i] = max(var[i] - new[i] * new[i], 0.0)
    return True


@compiled()
def _mean(factor: Floats, whitened_rows: Floats, targets: Floats) -> Floats:
    n = targets.shape[0]
    z = np.empty(n)
    mean = np.zeros(whitened_rows.shape[1])
    for k in range(n):
        value = targets[k]
        for j in range(k):
            value -= factor[k, j] * z[j]
        z[k] = value / factor[k, k]
        row = whitened_rows[k]
        for i in range(mean.shape[0]):
            mean[i] += z[k] * row[i]
    return mean


@compiled()
def _covariance(whitened_rows: Floats, row: Floats, index: int) -> Floats:
    found = row.copy()
    for j in range(whitened_rows.shape[0]):
        share, earlier = whitened_rows[j, index], whitened_rows[j]
        for i in range(found.shape[0]):
            found[i] -= share * earlier[i]
    return found
