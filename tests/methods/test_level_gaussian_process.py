"""Bayesian optimisation over rows and levels, against a dense twin that makes everything anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from twins.levels import DenseLevels
from twins.made import smooth_curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.methods.level_gaussian_process import LevelBO, normal_scores
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


@pytest.mark.parametrize("workers", [1, 6])
def test_every_step_is_that_of_a_dense_twin(workers):
    features, given = smooth_curves(workers, failing=(3, 14, 15))
    resources = np.unique(given.resources)
    problem = Problem(
        features, 1, 50, 2, workers=workers, resources=resources, clock="cost", time=400 / workers
    )
    ours, twin = (
        run_trial(problem, given, method, np.random.default_rng(1), [0, 3])
        for method in (LevelBO, DenseLevels)
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
    goal = make_goal("ftc", given, tolerance=0.05)

    def until(method, seed):
        trial = run_trial(problem, given, method, np.random.default_rng(seed), (), [goal])
        return trial.timeline.finishes[np.flatnonzero(trial.losses[:, 0] <= target)[0]]

    ours, theirs = (np.mean([until(method, seed) for seed in range(6)]) for method in (LevelBO, RandomSearch))
    assert ours < 0.5 * theirs
