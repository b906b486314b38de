"""Bayesian optimisation over rows and levels, against a dense twin that makes everything anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.improvement import log_ei_of_contenders
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.methods.level_gaussian_process import LevelBO, normal_scores
from hpobench_nmt.methods.partial_training import training_levels
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.testing import PARALLEL_CHECKS


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance(check):
    check(LevelBO)


def test_normal_scores():
    np.testing.assert_allclose(
        normal_scores(np.array([5.0, -2.0, math.inf, 5.0])),
        norm.ppf([(2.5 - 0.5) / 4, 0.5 / 4, 3.5 / 4, (2.5 - 0.5) / 4]),
    )


def smooth_curves(seed, n_rows=50, longest=27, failing=()):
    """Curves that fall towards a smooth function of the features, some of which rise again or fail."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, 2))
    lengths = rng.integers(longest // 2, longest + 1, n_rows)
    ends = 3.0 * ((features - 0.3) ** 2).sum(axis=1) + 1.0
    parts = [
        ends[row] + rng.uniform(0.5, 2) / np.arange(1, n + 1) ** 0.7 + rng.normal(0, 0.03, n)
        for row, n in enumerate(lengths)
    ]
    for row in failing:
        parts[row][-1] = np.nan
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return features, Trainings(starts, steps, steps.copy(), np.concatenate(parts)[:, None])


class Twin:
    """All pairs of row and level in one dense covariance matrix."""

    def __init__(self, problem, rng):
        self.levels = training_levels(problem, 3)
        self.order = rng.permutation(len(problem.features)).tolist()[::-1]
        self.n, self.last = len(problem.features), len(self.levels) - 1
        rows = matern52(problem.features, problem.features) + 0.5
        steps = np.arange(len(self.levels))
        self.k = np.kron(np.exp(-np.abs(steps[:, None] - steps) / 3), rows)
        self.reached, self.pairs, self.losses = np.zeros(self.n, int), [], []

    def suggest(self, running):
        if len(self.losses) < 3:
            taken = [*running, *np.flatnonzero(self.reached)]
            return next(row for row in self.order if row not in taken), self.levels[0]
        y = normal_scores(np.array(self.losses))
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
        row = log_ei_of_contenders(mean[ends].copy(), np.maximum(var[ends], 0.0), y.min(), free).argmax()
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


@pytest.mark.parametrize("workers", [1, 6])
def test_every_step_is_that_of_a_dense_twin(workers):
    features, given = smooth_curves(workers, failing=(3, 14, 15))
    resources = np.unique(given.resources)
    problem = Problem(
        features, 1, 50, 2, workers=workers, resources=resources, clock="cost", time=400 / workers
    )
    ours, twin = (
        run_trial(problem, given, method, np.random.default_rng(1), [0, 3]) for method in (LevelBO, Twin)
    )
    assert ours.failure == twin.failure == ""
    assert ours.rows.tolist() == twin.rows.tolist()
    assert ours.timeline.resources.tolist() == twin.timeline.resources.tolist()
    assert len(ours.rows) > 25
    assert len(set(ours.rows.tolist())) < len(ours.rows)  # some go on, others do not
    assert ours.timeline.resources.min() == 1.0


def test_good_rows_are_found_sooner_than_by_training_all_to_their_end():
    features, given = smooth_curves(7, n_rows=100)
    problem = Problem(features, 1, 100, 0, workers=4, resources=np.unique(given.resources), clock="cost")
    target = given.final[:, 0].min() + 0.05

    def until(method, seed):
        trial = run_trial(problem, given, method, np.random.default_rng(seed))
        return trial.timeline.finishes[np.flatnonzero(trial.losses[:, 0] <= target)[0]]

    ours, theirs = (np.mean([until(method, seed) for seed in range(6)]) for method in (LevelBO, RandomSearch))
    assert ours < 0.5 * theirs
