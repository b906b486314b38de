"""Bayesian optimisation over (row, level): which row to begin, or to train on to its next level.

symbol   shape          meaning
N, L                    numbers of rows and of levels of training (partial_training.py)
X        N x N          covariance of the rows by their features, Matern-5/2
T        L x L          covariance of the levels, T[i,j] = exp(-|i - j| / 3)
K        N L x N L      of row p at level i with row q at level j: T[i,j] (X[p,q] + 1/2)
y        n              normal scores of the ranks of the losses observed at n pairs of row and level

A row's loss at a level is that of its best checkpoint up to there. Every step goes to the row of largest
expected improvement at the last level over the best loss seen at any: if it is new it begins, otherwise it
goes on to its next level. So the model decides what to stop and what to go on with, as in freeze-thaw
Bayesian optimisation (Swersky et al. 2014); its kernel is that of MOBSTER (Klein et al. 2020, "Model-based
Asynchronous Hyperparameter and Neural Architecture Search") with a term for what all rows have in common.
Levels that are running count as pending (pending.py). Losses enter by their ranks (Salinas et al. 2020, "A
Quantile-based Approach for Hyperparameter Transfer Learning", section 4.1), because perplexities differ by
orders of magnitude; a loss that is missing ranks last.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.methods.any_targets import AnyTargetsPosterior
from hpobench_nmt.methods.gaussian_process import kernel_prior
from hpobench_nmt.methods.improvement import log_ei_of_contenders
from hpobench_nmt.methods.kernels import KernelPrior, matern52
from hpobench_nmt.methods.partial_training import Field, losses_at
from hpobench_nmt.methods.pending import Pending
from hpobench_nmt.methods.search import best_of
from hpobench_nmt.methods.warping import normal_scores

ETA = 3
LEVEL_SCALE = 3.0
COMMON = 0.5
NOISE_SD = 0.1
# Before so many losses were observed, rows are drawn at random.
STARTUP = 3


class LevelPrior:
    """K, one row at a time; row p at level i has number i N + p."""

    def __init__(self, rows: KernelPrior, n_levels: int) -> None:
        self._rows = rows
        self._n_rows = len(rows.diagonal)
        places = np.arange(n_levels)
        self._levels = np.exp(-np.abs(places[:, None] - places) / LEVEL_SCALE)
        self.diagonal: Floats = np.tile(rows.diagonal + COMMON, n_levels)

    def row(self, i: int) -> Floats:
        """K[i], shape (N L,)."""
        level, row = divmod(i, self._n_rows)
        return np.outer(self._levels[level], self._rows.row(row) + COMMON).ravel()


class LevelBO:
    """The method. A step takes O(n N L) for n losses observed."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        self._field = Field(problem, rng, eta)
        self._n_rows = len(problem.features)
        self._last = len(self._field.levels) - 1
        self._posterior = AnyTargetsPosterior(level_prior(problem, len(self._field.levels)), NOISE_SD)
        self._pending = Pending(self._posterior)
        self._reached = np.zeros(self._n_rows, dtype=np.int64)  # how many levels, by row

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """The row of largest expected improvement at the last level, up to its next level."""
        field = self._field
        if len(self._posterior.seen) < STARTUP:
            return field.begin(running)
        free = self._reached <= self._last
        free[list(running)] = False
        if not field.may_begin(running):
            free &= self._reached > 0
        if not free.any():
            return None
        y = normal_scores(self._posterior.observed[:, 0])
        ends = slice(self._last * self._n_rows, None)
        mean, var = self._posterior.mean(y)[ends], self._variance(running)[ends]
        row = best_of(log_ei_of_contenders(mean, var, float(y.min()), free), free)
        return Request(row, field.levels[self._reached[row]])

    def _variance(self, running: Mapping[int, float]) -> Floats:
        rows = np.array(list(running), dtype=np.int64)
        return self._pending.given((self._reached[rows] * self._n_rows + rows).tolist()).var

    def observe(self, progress: Progress) -> None:
        """Learn the losses at the levels that the row has come to."""
        row, field = progress.row, self._field
        field.note(progress)
        before = int(self._reached[row])
        losses = losses_at(progress, field.levels[before : field.at[row]])
        for level, loss in enumerate(losses, before):
            self._pending.observe(level * self._n_rows + row, np.array([loss]))
        self._reached[row] = field.at[row]


@lru_cache(maxsize=8)
def level_prior(problem: Problem, n_levels: int) -> LevelPrior:
    """The prior over rows and levels, shared by the problem's trials."""
    return LevelPrior(kernel_prior(problem, matern52), n_levels)
