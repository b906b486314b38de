"""Thompson sampling: the moments of its draws, and that its steps are draws of the best row."""

from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.gaussian_process import NOISE_SD
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.methods.thompson import MAX_ROWS, ThompsonSampling


def told(seed=0, n_rows=12):
    features = np.random.default_rng(3).uniform(size=(n_rows, 2))
    features[5] = features[4]  # a singular prior
    losses = np.sin(5 * features[:, 0]) + features[:, 1]
    method = ThompsonSampling(Problem(features, 1, n_rows, 3), np.random.default_rng(seed))
    for row in (0, 3, 6):
        method.tell(row, losses[row : row + 1])
    method.tell(1, np.array([np.nan]))
    return method, features, losses


def posterior_of(features, losses, seen):
    prior = matern52(features, features)
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + NOISE_SD**2 * np.eye(len(seen)), prior[seen]).T
    return gain @ standardised(losses[seen]), prior - gain @ prior[seen]


def test_moments_of_the_draws_are_those_of_the_joint_posterior():
    method, features, losses = told()
    mean, covariance = posterior_of(features, losses, [0, 3, 6])
    draws = np.array([method.draw() for _ in range(8_000)])
    sd = np.sqrt(np.maximum(np.diag(covariance), NOISE_SD**2))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 4.5 * sd / 8_000**0.5 + 1e-12)
    error = np.abs(np.cov(draws.T, ddof=0) - covariance)
    np.testing.assert_array_less(error, 6.0 * np.outer(sd, sd) / 8_000**0.5)


def test_rows_are_asked_for_as_often_as_they_are_the_best_of_a_draw():
    counts = np.zeros(12)
    for seed in range(800):
        counts[told(seed)[0].ask()] += 1
    _, features, losses = told()
    mean, covariance = posterior_of(features, losses, [0, 3, 6])
    free = np.setdiff1d(np.arange(12), [0, 1, 3, 6])
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, size=40_000, check_valid="ignore")
    expected = np.bincount(free[draws[:, free].argmin(axis=1)], minlength=12) / 40_000
    error = np.sqrt(expected * (1 - expected) / 800)
    assert (np.abs(counts / 800 - expected) <= 4 * error + 1e-3).all()
    assert (expected > 0.05).sum() > 3


def test_workers_get_a_draw_each():
    method, _, _ = told()
    first = method.suggest({})
    others = {method.suggest(dict.fromkeys(range(6, 6 + n), 1.0)) for n in range(6)}
    assert first not in {method.suggest({first: 1.0})}
    assert len(others) > 1


def test_a_table_that_is_too_large_is_refused():
    with pytest.raises(InputError, match=f"up to {MAX_ROWS:,} rows, not 5,001"):
        ThompsonSampling(Problem(np.zeros((MAX_ROWS + 1, 1)), 1, 9, 3), np.random.default_rng(0))
