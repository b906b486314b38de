"""Gaussian processes of other tables, and the rows that these would try first.

symbol   shape      meaning
n, N     scalars    rows of the source, rows of the problem
y        n x m      losses of the source, each standardised over its rows
s        scalar     standard deviation of the noise, 0.1: a source is to be smoothed, not to be met exactly
L        n x n      Cholesky factor of the covariance of the source's rows + s^2 I
W        n x N      L^-1 times the covariance of the source's rows with the problem's
mean     m x N      W' L^-1 y: what the source expects of the problem's rows
var      N          1 - column sums of W^2
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Source
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.kernels import matern52

SOURCE_NOISE_SD = 0.1


class SourceModel:
    """What one source expects of the problem's rows. The symbols are explained at the top of this file.

    Rows of the source that lack a loss are left out. O(n^2 (n + N)) once.
    """

    def __init__(self, source: Source, features: Floats) -> None:
        known = ~np.isnan(source.losses).any(axis=1)
        losses, at = source.losses[known], np.ascontiguousarray(source.features[known])
        y = standardised(losses)
        factor = cholesky(matern52(at, at) + SOURCE_NOISE_SD**2 * np.eye(len(at)), lower=True)
        self._whitened = solve_triangular(factor, matern52(at, features), lower=True)
        self._features = features
        self.mean: Floats = solve_triangular(factor, y, lower=True).T @ self._whitened
        self.var: Floats = np.maximum(1.0 - (self._whitened**2).sum(axis=0), 0.0)

    def covariance(self, row: int, others: NDArray[np.int64]) -> Floats:
        """Posterior covariance of a row of the problem with k others, shape (k,)."""
        prior = matern52(self._features[row : row + 1], self._features[others])[0]
        return np.asarray(prior - self._whitened[:, row] @ self._whitened[:, others])


@lru_cache(maxsize=8)
def source_models(problem: Problem) -> tuple[SourceModel, ...]:
    """A model of each of the problem's sources that has a row with all losses; shared by its trials."""
    features = np.ascontiguousarray(problem.features)
    usable = [source for source in problem.sources if not np.isnan(source.losses).any(axis=1).all()]
    return tuple(SourceModel(source, features) for source in usable)


@lru_cache(maxsize=8)
def portfolio(problem: Problem, size: int) -> tuple[int, ...]:
    """Up to `size` rows that complement each other on the sources, chosen greedily by rank.

    A row's rank on a source is the number of rows that the source expects to be better: to dominate it, where
    there are several losses. The next row is the one for which the ranks of the best row so far, summed over
    the sources, are least (Feurer et al. 2015, "Initializing Bayesian Hyperparameter Optimization via
    Meta-Learning", and Wistuba et al. 2015, "Sequential Model-free Hyperparameter Tuning", choose alike).
    The portfolio ends where no row improves that sum.
    """
    models = source_models(problem)
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
    """How many of N points dominate each, for losses of shape (m, N), shape (N,).

    O(m N^2); O(N log N) for one loss.
    """
    if len(losses) == 1:
        return np.asarray(np.searchsorted(np.sort(losses[0]), losses[0]))
    counts = np.empty(losses.shape[1], dtype=np.int64)
    for i, point in enumerate(losses.T):
        no_worse = (losses <= point[:, None]).all(axis=0)
        counts[i] = (no_worse & (losses < point[:, None]).any(axis=0)).sum()
    return counts
