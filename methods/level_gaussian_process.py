"""Bayesian optimisation over pairs (row, level): which row to start, or to train up to its next level.

symbol   shape          meaning
N, I                    numbers of rows and of levels of training (partial_training.py)
X_b      N x N          covariance of the rows by kernel b of the bank of BO_auto (kernel_bank.py)
T        I x I          covariance of the levels, T[i,j] = exp(-|i - j| / 3)
K_b      N I x N I      of row p at level i with row q at level j: T[i,j] (X_b[p,q] + 1/2)
y        n              normal scores of the ranks of the losses observed at n pairs of row and level

A row's loss at a level is the loss of its best checkpoint up to there. Every step chooses the row with the
largest expected improvement at the last level over the best loss observed at any level. A new row is trained
up to the first level, and a row that was started before up to its next level. So the model decides which
trainings continue, as in freeze-thaw Bayesian optimisation (Swersky et al. 2014). The kernel is MOBSTER's
(Klein et al. 2020, "Model-based Asynchronous Hyperparameter and Neural Architecture Search"), plus a term
that all rows have in common. Expected improvement is averaged over the bank as in auto.py. Levels in training
count as pending (pending.py).

The model uses the ranks of the losses (Salinas et al. 2020, "A Quantile-based Approach for Hyperparameter
Transfer Learning", section 4.1), because perplexities differ by orders of magnitude between levels. The warp
of `BO_auto` is worse here, because most losses at early levels lie above its bound. A missing loss ranks
last.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.methods.auto import bank_of, log_mean_ei
from hpobench_nmt.methods.early.partial_training import Field, losses_at
from hpobench_nmt.methods.search import best_of
from hpobench_nmt.methods.surrogates.columns import feature_counts
from hpobench_nmt.methods.surrogates.kernel_bank import BankPosterior, Points, points_of
from hpobench_nmt.methods.surrogates.warping import normal_scores

ETA = 2
LEVEL_SCALE = 3.0
COMMON = 0.5
# Rows are drawn at random until this many losses are observed.
STARTUP = 3


class LevelBO:
    """The method. For n observed losses, a step takes O(n N) for each member of the bank that is averaged."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        self._field = Field(problem, rng, eta)
        self._n_rows = len(problem.features)
        self._last = len(self._field.levels) - 1
        self._posterior = BankPosterior(bank_of(problem), _points_of(problem, len(self._field.levels)))
        self._losses: list[float] = []
        self._reached = np.zeros(self._n_rows, dtype=np.int64)  # number of levels, by row

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """The row with the largest expected improvement at the last level, up to its next level."""
        field = self._field
        if len(self._losses) < STARTUP:
            return field.begin(running)
        free = self._reached <= self._last
        free[list(running)] = False
        if not field.may_begin(running):
            free &= self._reached > 0
        if not free.any():
            return None
        (y,) = self._targets()
        pending = [int(self._reached[row]) * self._n_rows + row for row in running]
        offsets = np.where(free, 0.0, -np.inf)
        values = log_mean_ei(self._posterior, y, float(y.min()), pending, offsets)
        row = best_of(values, free)
        return Request(row, field.levels[self._reached[row]])

    def observe(self, progress: Progress) -> None:
        """Learn the losses at the levels that the row has newly reached."""
        row, field = progress.row, self._field
        field.note(progress)
        before = int(self._reached[row])
        losses = losses_at(progress, field.levels[before : field.at[row]])
        for level, loss in enumerate(losses, before):
            self._posterior.observe(level * self._n_rows + row, self._targets)
            self._losses.append(loss)
        self._reached[row] = field.at[row]

    def _targets(self) -> list[Floats]:
        """y, shape (n,), the only target that the bank is weighted by."""
        return [normal_scores(np.array(self._losses))]


@lru_cache(maxsize=8)
def _points_of(problem: Problem, n_levels: int) -> Points:
    """Rows and levels, shared by the problem's trials."""
    places = np.arange(n_levels)
    covariance = np.exp(-np.abs(places[:, None] - places) / LEVEL_SCALE)
    return points_of(problem.features, feature_counts(problem), covariance, COMMON)
