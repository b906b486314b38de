"""Copula transfer: a prior for the ranks of losses from other tables, for one loss (Salinas et al. 2020, "A
Quantile-based Approach for Hyperparameter Transfer Learning").

    symbol       shape    meaning
    z            scalar   normal score of a loss: the normal quantile of its rank within its own table
    P(x)         p        1, the features, and the products of two of them
    mu(x)        scalar   P(x)'w: the score that other tables predict
    sigma^2(x)   scalar   exp((1, x)'v): its variance between and within these tables
    r            n        (z - mu) / sigma of the observed rows, with z from their ranks among themselves

Scores make tables comparable, whatever the scales of their metrics. The prior N(mu, sigma^2) is fitted to the
rows of all sources together, by their likelihood and a penalty of (w'w + v'v) / 2. In the paper, mu and sigma
are a neural network with two heads. Here they are quadratic and log-linear, so the fit is fast and does not
need a seed. With more than 40 features, only squares are used. mu is limited to 3 in absolute value, and
sigma to the range from 0.1 to 2, because rows may lie outside the region that the sources cover.

`CTS` is Thompson sampling from the prior: each row gets a draw from N(mu, sigma^2), and the free row with the
smallest draw is next. It does not learn from the rows that it looks up. `GCP_M` models r by the Gaussian
process of `BO_EI_M_std`, and maximises the expected improvement of z = mu + sigma r. Its first row is chosen
as in CTS. Without sources, CTS is random search, and GCP_M is Bayesian optimisation on normal scores.

The prior takes O(n p^2) for n rows of sources, once for each table. A step takes O(N) in CTS, and O(n N) in
GCP_M.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_all
from hpobench_nmt.methods.sampler import SampledSearch, free_rows
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.cholesky import inverse, product
from hpobench_nmt.methods.surrogates.pending import Given
from hpobench_nmt.methods.surrogates.warping import normal_scores

MOST_WITH_PRODUCTS = 40
LARGEST_MEAN = 3.0
DEVIATIONS = (0.1, 2.0)
_ROUNDS = 50
_SETTLED = 1e-10


class CTS(SampledSearch):
    """Thompson sampling from the prior that other tables define."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng, PriorDraws(problem, rng))


class PriorDraws:
    """Chooses the free row with the smallest draw."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._mean, self._deviation = score_prior(problem)
        self._rng = rng

    def choose(self, free: Bools, level: int) -> int:
        """The row; the level does not matter."""
        draws = self._mean + self._deviation * self._rng.standard_normal(len(free))
        return int(np.where(free, draws, np.inf).argmin())

    def learn(self, row: int, level: int, loss: float) -> None:
        """The prior does not learn from rows."""


class GaussianCopula(AnyTargetsSearch):
    """Expected improvement, with a Gaussian process of the scores that other tables do not explain."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self._mean, self._deviation = score_prior(problem)
        self._draws = PriorDraws(problem, rng)

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The row with the largest expected improvement; before the first observation, a draw."""
        free = free_rows(self.posterior.unseen, running)
        if self.count or not free.any():
            return super().suggest(running)
        return self._draws.choose(free, 0)

    def scores(self, given: Given) -> Floats:
        """log EI of the normal scores."""
        mean, deviation, seen = self._mean, self._deviation, self.posterior.seen
        z = normal_scores(self.posterior.observed[:, 0])
        residual = self.posterior.mean((z - mean[seen]) / deviation[seen])
        return log_ei_of_all(mean + deviation * residual, deviation**2 * given.var, float(z.min()))


@lru_cache(maxsize=8)
def score_prior(problem: Problem) -> tuple[Floats, Floats]:
    """mu and sigma of the problem's rows, shape (N,) each; 0 and 1 without sources."""
    parts = []
    for source in problem.sources:
        known = ~np.isnan(source.losses[:, 0])
        if known.any():
            parts.append((source.features[known], normal_scores(source.losses[known, 0])))
    if not parts:
        return np.zeros(len(problem.features)), np.ones(len(problem.features))
    x, z = (np.concatenate(part) for part in zip(*parts, strict=True))
    w, v = fitted(polynomials(x), _with_one(x), z)
    low, high = DEVIATIONS
    mean = np.clip(_weighed(polynomials(problem.features), w), -LARGEST_MEAN, LARGEST_MEAN)
    logs = np.clip(_weighed(_with_one(problem.features), v), 2.0 * np.log(low), 2.0 * np.log(high))
    return mean, np.exp(0.5 * logs)


def _with_one(x: Floats) -> Floats:
    return np.column_stack([np.ones(len(x)), x])


def polynomials(x: Floats) -> Floats:
    """P of n places, given their features of shape (n, F): shape (n, p)."""
    count = x.shape[1]
    first, second = np.triu_indices(count) if count <= MOST_WITH_PRODUCTS else (np.arange(count),) * 2
    return np.hstack([_with_one(x), x[:, first] * x[:, second]])


def fitted(basis: Floats, log_basis: Floats, z: Floats) -> tuple[Floats, Floats]:
    """w and v of largest penalised likelihood. They are optimised in turn, v by Fisher's scoring.

    Shapes: basis (n, p), log_basis (n, q), z (n,).
    """
    v: Floats = np.zeros(log_basis.shape[1])
    least = np.inf
    for _ in range(_ROUNDS):
        logs = _weighed(log_basis, v)
        w = _ridge(basis, np.exp(-logs), z)
        squares = (z - _weighed(basis, w)) ** 2
        value = _misfit(v, log_basis, squares)
        total = value + 0.5 * float((w**2).sum())
        if least - total < _SETTLED * (1.0 + abs(total)):
            break
        least = total
        step = _ridge(log_basis, np.full(len(z), 0.5), logs + squares * np.exp(-logs) - 1.0) - v
        while _misfit(v + step, log_basis, squares) > value:
            step /= 2.0
        v = v + step
    return w, v


def _misfit(v: Floats, log_basis: Floats, squares: Floats) -> float:
    """The negative log-likelihood of v with its penalty; convex in v."""
    logs = np.clip(_weighed(log_basis, v), -50.0, 50.0)
    return float(0.5 * (logs + squares * np.exp(-logs)).sum() + 0.5 * (v**2).sum())


def _ridge(x: Floats, weights: Floats, y: Floats) -> Floats:
    """The coefficients b, shape (p,), that minimise sum weights (y - x b)^2 + b'b for x of shape (n, p)."""
    x = np.ascontiguousarray(x)  # one layout, so that `product` is compiled once
    moments = product(x * weights[:, None], np.column_stack([x, y]))
    return _weighed(inverse(moments[:, :-1] + np.eye(x.shape[1])), moments[:, -1])


def _weighed(x: Floats, weights: Floats) -> Floats:
    """x b of shape (n,), added up in the same order on every processor, unlike by `@`."""
    return np.asarray((x * weights).sum(axis=1))
