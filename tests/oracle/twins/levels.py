"""BO_levels with all pairs of row and level in dense covariance matrices, one for each kernel of the bank."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, rankdata

from hpobench_nmt.methods.auto import bank_of
from twins.gaussian import log_improvement, matern52_matrix
from twins.halving import training_levels


class DenseLevels:
    """All pairs of row and level; each feature is a hyperparameter of its own."""

    def __init__(self, problem, rng):
        self.levels = training_levels(problem, 2)
        self.order = rng.permutation(len(problem.features)).tolist()[::-1]
        self.n, self.last = len(problem.features), len(self.levels) - 1
        bank, steps = bank_of(problem), np.arange(len(self.levels))
        self.noises = bank.noise
        kernels = []
        for inverse_squares in bank.inverse_squares:
            scaled = problem.features * np.sqrt(inverse_squares)
            alone = np.mean([matern52_matrix(column[:, None]) for column in scaled.T], axis=0)
            rows = (1 - bank.additive) * matern52_matrix(scaled) + bank.additive * alone + 0.5
            kernels.append(np.kron(np.exp(-np.abs(steps[:, None] - steps) / 3), rows))
        self.kernels = np.array(kernels)
        self.reached, self.pairs, self.losses = np.zeros(self.n, int), [], []

    def suggest(self, running):
        if len(self.losses) < 3:
            taken = [*running, *np.flatnonzero(self.reached)]
            return next(row for row in self.order if row not in taken), self.levels[0]
        free = self.reached <= self.last
        free[list(running)] = False
        if not free.any():
            return None
        y = norm.ppf((rankdata(self.losses) - 0.5) / len(self.losses))
        pending = [self.reached[row] * self.n + row for row in running]
        evidence = self.evidence(y)
        weights = np.exp(evidence - logsumexp(evidence))
        order = np.argsort(-weights, kind="stable")
        heaviest = order[: 1 + np.searchsorted(np.cumsum(weights[order]), 0.95)]
        gains = [np.log(weights[b]) + self.log_gain(b, y, pending) for b in heaviest]
        row = np.where(free, logsumexp(gains, axis=0), -np.inf).argmax()
        return int(row), self.levels[self.reached[row]]

    def evidence(self, y):
        """Of every kernel, shape (B,)."""
        inner = self.kernels[:, self.pairs][:, :, self.pairs] + self.noises[:, None, None] * np.eye(len(y))
        fits = np.linalg.solve(inner, np.tile(y[:, None], (len(inner), 1, 1)))[:, :, 0] @ y
        return -(len(y) + 1) / 2 * np.log1p(fits) - np.linalg.slogdet(inner)[1] / 2

    def log_gain(self, b, y, pending):
        k, noise, ends = self.kernels[b], self.noises[b], slice(self.last * self.n, None)

        def gain(pairs):
            inner = k[np.ix_(pairs, pairs)] + noise * np.eye(len(pairs))
            return np.linalg.solve(inner, k[pairs, ends]).T

        every = self.pairs + pending
        mean = gain(self.pairs) @ y
        var = np.diag(k)[ends] - (gain(every) * k[every, ends].T).sum(axis=1)
        inner = k[np.ix_(self.pairs, self.pairs)] + noise * np.eye(len(y))
        scale = (1 + y @ np.linalg.solve(inner, y)) / (len(y) + 1)
        return log_improvement(y.min(), mean, np.sqrt(np.maximum(var, 0.0) * scale))

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
