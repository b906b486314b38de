"""Gaussian processes of other tables, and the rows that their predictions would try first.

symbol   shape      meaning
n, N     scalars    rows of the other table, rows of the problem
y        n x m      losses of the other table, each standardised over its rows
s        scalar     standard deviation of the noise, 0.1, which smooths the other table
L        n x n      Cholesky factor of the covariance of the other table's rows + s^2 I
W        n x N      L^-1 times the covariance of the other table's rows with the problem's
mean     m x N      W' L^-1 y: the other table's prediction for the problem's rows
var      N          1 - column sums of W^2
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Source
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.methods.surrogates.cholesky import add_rows, product, whitened

NOISE_SD = 0.1


class TransferModel:
    """A model of another table's rows with all losses, on the problem's rows. O(n^2 (n + N)) once."""

    def __init__(self, table: Source, features: Floats) -> None:
        known = ~np.isnan(table.losses).any(axis=1)
        losses, at = table.losses[known], np.ascontiguousarray(table.features[known])
        y = standardised(losses)
        columns = np.hstack([y, matern52(at, features)])
        both = whitened(matern52(at, at) + NOISE_SD**2 * np.eye(len(at)), columns)
        z, self._whitened = (np.ascontiguousarray(part) for part in np.split(both, [y.shape[1]], axis=1))
        self._features = features
        self.mean: Floats = product(z, self._whitened)
        self.var: Floats = np.maximum(1.0 - (self._whitened**2).sum(axis=0), 0.0)

    def covariance(self, row: int, others: NDArray[np.int64]) -> Floats:
        """Posterior covariance of a row of the problem with k rows, shape (k,)."""
        prior = matern52(self._features[row : row + 1], self._features[others])[0]
        add_rows(np.ascontiguousarray(self._whitened[:, others]), -self._whitened[:, row], prior)
        return np.asarray(prior)


@lru_cache(maxsize=8)
def transfer_models(problem: Problem) -> tuple[TransferModel, ...]:
    """A model of each transfer table that has a row with all losses; shared by the problem's trials."""
    features = np.ascontiguousarray(problem.features)
    usable = [table for table in problem.sources if not np.isnan(table.losses).any(axis=1).all()]
    return tuple(TransferModel(table, features) for table in usable)


@lru_cache(maxsize=8)
def portfolio(problem: Problem, size: int) -> tuple[int, ...]:
    """Up to `size` rows that complement each other on the transfer tables, chosen greedily by rank.

    A row's rank on a table is the number of rows that the table expects to be better. With several losses, it
    is the number of rows that dominate it. The next row minimises the sum over the tables of the smallest
    rank so far (Feurer et al. 2015, "Initializing Bayesian Hyperparameter Optimization via Meta-Learning",
    and Wistuba et al. 2015, "Sequential Model-free Hyperparameter Tuning", choose similarly). The portfolio
    ends when no row lowers this sum.
    """
    models = transfer_models(problem)
    if not models:
        return ()
    ranks = np.array([dominated_by(model.mean) for model in models])
    best = np.full(len(models), np.inf)
    chosen: list[int] = []
    while len(chosen) < size:
        sums = np.minimum(ranks, best[:, None]).sum(axis=0)
        row = int(sums.argmin())
        if sums[row] >= best.sum():
            break
        chosen.append(row)
        best = np.minimum(best, ranks[:, row])
    return tuple(chosen)


def dominated_by(losses: Floats) -> NDArray[np.int64]:
    """How many points dominate each of N points, losses of shape (m, N). O(m N^2); one loss: O(N log N)."""
    if len(losses) == 1:
        return np.asarray(np.searchsorted(np.sort(losses[0]), losses[0]))
    counts = np.empty(losses.shape[1], dtype=np.int64)
    for i, point in enumerate(losses.T):
        no_worse = (losses <= point[:, None]).all(axis=0)
        counts[i] = (no_worse & (losses < point[:, None]).any(axis=0)).sum()
    return counts
