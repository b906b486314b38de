"""ParEGO against a dense posterior, and its scalarisation by hand."""

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_contenders
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.gaussian_process import NOISE_SD
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.methods.parego import RHO, ParEGO, random_weights, scalarised


def test_scalarised_by_hand():
    losses = np.array([[1.0, 30.0, 7.0], [3.0, 10.0, 7.0], [2.0, 20.0, 7.0]])
    np.testing.assert_allclose(
        scalarised(losses, np.array([0.5, 0.3, 0.2])),
        [0.3 + RHO * 0.3, 0.5 + RHO * 0.5, 0.25 + RHO * 0.4],
    )


@pytest.mark.parametrize("m", [2, 3, 6])
def test_weights_are_uniform_on_the_simplex(m):
    rng = np.random.default_rng(0)
    weights = np.array([random_weights(m, rng) for _ in range(20_000)])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights >= 0).all()
    # Each weight is Beta(1, m - 1): mean 1 / m, variance (m - 1) / (m^2 (m + 1)).
    variance = (m - 1) / (m * m * (m + 1))
    np.testing.assert_allclose(weights.mean(axis=0), 1 / m, atol=4 * np.sqrt(variance / 20_000))
    np.testing.assert_allclose(weights.var(axis=0), variance, rtol=0.06)


@pytest.mark.parametrize("m", [2, 3])
def test_every_step_is_the_one_of_a_dense_posterior(m):
    rng = np.random.default_rng(1)
    features = rng.random((150, 3))
    losses = np.column_stack([np.sin((3 + j) * features[:, j % 3]) + features[:, 0] for j in range(m)])
    losses[7] = np.nan
    problem = Problem(features, m, 150, 3)
    method, twin = ParEGO(problem, np.random.default_rng(5)), np.random.default_rng(5)
    seen = [3, 7, 11]
    for row in seen:
        method.tell(row, losses[row])
    prior = matern52(features, features)
    for _ in range(90):  # beyond the first blocks
        row = method.ask()
        good = [r for r in seen if not np.isnan(losses[r]).any()]
        y = standardised(scalarised(losses[good], random_weights(m, twin)))
        inside = prior[np.ix_(good, good)] + NOISE_SD**2 * np.eye(len(good))
        weights = np.linalg.solve(inside, prior[good])
        mean, var = weights.T @ y, 1.0 - (prior[good] * weights).sum(axis=0)
        unseen = ~np.isin(np.arange(150), seen)
        value = log_ei_of_contenders(mean, np.maximum(var, 0.0), y.min(), unseen)
        assert unseen[row] and value[row] >= value[unseen].max() - 1e-4 * abs(value[unseen].max())
        method.tell(row, losses[row])
        seen.append(row)
    assert len(set(seen)) == len(seen)


def test_equal_rows_and_equal_losses_stop_nothing():
    features = np.zeros((80, 2))
    features[40:] = 1.0
    method = ParEGO(Problem(features, 3, 80, 3), np.random.default_rng(0))
    seen = []
    for _ in range(80):
        seen.append(method.ask())
        method.tell(seen[-1], np.ones(3))
    assert sorted(seen) == list(range(80))
