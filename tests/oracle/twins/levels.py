"""BO_levels with all pairs of row and level in one dense covariance matrix."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, rankdata

from twins.gaussian import log_improvement, matern52_matrix
from twins.halving import training_levels


class DenseLevels:
    """All pairs of row and level in one dense covariance matrix."""

    def __init__(self, problem, rng):
        self.levels = training_levels(problem, 3)
        self.order = rng.permutation(len(problem.features)).tolist()[::-1]
        self.n, self.last = len(problem.features), len(self.levels) - 1
        rows = matern52_matrix(problem.features) + 0.5
        steps = np.arange(len(self.levels))
        self.k = np.kron(np.exp(-np.abs(steps[:, None] - steps) / 3), rows)
        self.reached, self.pairs, self.losses = np.zeros(self.n, int), [], []

    def suggest(self, running):
        if len(self.losses) < 3:
            taken = [*running, *np.flatnonzero(self.reached)]
            return next(row for row in self.order if row not in taken), self.levels[0]
        y = norm.ppf((rankdata(self.losses) - 0.5) / len(self.losses))
        pending = [self.reached[row] * self.n + row for row in running]

        def gain(pairs):
            inner = self.k[np.ix_(pairs, pairs)] + 0.01 * np.eye(len(pairs))
            return np.linalg.solve(inner, self.k[pairs]).T

        mean = gain(self.pairs) @ y
        every = self.pairs + pending
        var = np.diag(self.k - gain(every) @ self.k[every])
        free = self.reached <= self.last
        free[list(running)] = False
        if not free.any():
            return None
        ends = slice(self.last * self.n, None)
        gains = log_improvement(y.min(), mean[ends], np.sqrt(np.maximum(var[ends], 0.0)))
        row = np.where(free, gains, -np.inf).argmax()
        return int(row), self.levels[self.reached[row]]

    def observe(self, progress):
        row, losses = progress.row, progress.losses[:, 0]
        while self.reached[row] <= self.last:
            level = self.levels[self.reached[row]]
            if progress.resources[-1] < level and not progress.done:
                break
            until = np.flatnonzero(progress.resources >= level)[:1].tolist() or [len(losses) - 1]
            known = losses[: until[0] + 1]
            self.losses.append(np.inf if np.isnan(known).all() else np.nanmin(known))
            self.pairs.append(self.reached[row] * self.n + row)
            self.reached[row] += 1
