from __future__ import annotations

import itertools

import numpy as np
import pytest

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.random_search import random_search_squared_error
from hpobench_nmt.evaluation.surrogate_error import squared_errors
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.acquisitions.acquisition import (
    Belief,
    by_expected_hypervolume,
    by_expected_improvement,
    by_expected_influence,
)
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import DensePrior, matern52, rbf
from hpobench_nmt.methods.model_based import Surrogate, standard_scaling
from hpobench_nmt.methods.surrogates.posterior import Posterior


def dense(surrogate):
    return np.array([surrogate.prior.row(i) for i in range(len(surrogate.prior.diagonal))])


def built_in_surrogate(method, problem):
    return BUILT_IN[method].load().surrogate(problem)


def posterior(surrogate, rows, losses):
    """Mean (m, N) and covariance (N, N), solved anew; losses scaled where the surrogate does."""
    K, S = dense(surrogate), list(rows)
    centre, spread = np.zeros(losses.shape[1]), np.ones(losses.shape[1])
    if surrogate.scaling:
        centre, spread = surrogate.scaling(losses)
        spread = np.where(spread == 0, 1.0, spread)
    A = K[np.ix_(S, S)] + surrogate.noise_sd**2 * np.eye(len(S))
    mean = centre + (K[:, S] @ np.linalg.solve(A, (losses - centre) / spread)) * spread
    return mean.T, K - K[:, S] @ np.linalg.solve(A, K[S])


def error_of(surrogate, rows, truth, lookups=None):
    """One trial's errors, after each look-up where left out."""
    steps = np.arange(1, len(rows) + 1) if lookups is None else lookups
    return squared_errors(surrogate, [Trajectory(rows, truth[rows])], truth, steps)[0]


def naive_error(surrogate, rows, losses, truth):
    errors = np.full((len(rows), truth.shape[1]), np.nan)
    for t in range(1, len(rows) + 1):
        good = [i for i in range(t) if not np.isnan(losses[i]).any()]
        unseen = [row for row in range(len(truth)) if row not in rows[:t]]
        if good:
            mean, _ = posterior(surrogate, rows[good], losses[good])
        elif surrogate.scaling:
            continue
        else:
            mean = np.zeros(truth.T.shape)
        for j in range(truth.shape[1]):
            squares = [(mean[j, row] - truth[row, j]) ** 2 for row in unseen if not np.isnan(truth[row, j])]
            if squares:
                errors[t - 1, j] = np.mean(squares)
    return errors


@pytest.mark.parametrize("method", ["BO_M", "BO_M_std", "BO_R_std", "GB_M", "GB_R", "GB_EIF_M"])
@pytest.mark.parametrize("missing", [False, True])
def test_errors_are_those_of_a_dense_solve(toy, method, missing):
    truth = toy.losses(["bleu", "seconds"]).copy()
    rng = np.random.default_rng(0)
    if missing:
        truth[rng.choice(36, 8, replace=False), 0] = np.nan
        truth[rng.choice(36, 3, replace=False), 1] = np.nan
    rows = rng.permutation(36)
    problem = Problem(toy.features, 2, 36, 3)
    surrogate = built_in_surrogate(method, problem)
    found = error_of(surrogate, rows, truth)
    expected = naive_error(surrogate, rows, truth[rows], truth)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.isnan(found[-1]).all()
    some = np.array([1, 4, 9, 20])
    np.testing.assert_allclose(error_of(surrogate, rows, truth, some), found[some - 1])


@pytest.mark.parametrize("scaling", [None, standard_scaling])
def test_rows_that_others_determine_teach_nothing_as_in_the_method(scaling):
    """Without noise: rows alike in all features, and a smooth function on a fine grid."""
    rng = np.random.default_rng(0)
    features = rng.random((12, 2)).repeat(2, axis=0)
    surrogate = Surrogate(DensePrior(matern52(features, features)), scaling=scaling)
    truth, rows = rng.random((24, 1)), rng.permutation(24)
    entered = [all(row // 2 != other // 2 for other in rows[:i]) for i, row in enumerate(rows)]
    for t, error in enumerate(error_of(surrogate, rows, truth)[:23], start=1):
        own = Posterior(surrogate.prior, 2)
        for row in rows[:t]:
            own.observe(row, np.array([truth[row, 0], 1.0]))
        assert sum(entered[:t]) == own._n_seen
        centre = truth[rows[:t]].mean() if scaling else 0.0
        mean = dict(zip(own.rows.tolist(), own.mean[0] + centre * (1.0 - own.mean[1]), strict=True))
        squares = [(mean[row] - truth[row, 0]) ** 2 for row in rows[t:]]
        assert error[0] == pytest.approx(np.mean(squares), rel=1e-6)
    fine = np.linspace(0, 1, 60)[:, None]
    errors = error_of(Surrogate(DensePrior(rbf(fine, fine))), rng.permutation(60), np.sin(3 * fine))
    assert (errors[20:59] < 1e-8).all()


def test_a_trial_that_saw_only_failed_trainings_still_predicts_the_prior():
    truth = np.array([[1.0], [2.0], [np.nan], [np.nan], [5.0]])
    rows = np.array([2, 3])
    prior = DensePrior(np.eye(5))
    np.testing.assert_allclose(error_of(Surrogate(prior), rows, truth), [[10.0], [10.0]])
    assert np.isnan(error_of(Surrogate(prior, scaling=standard_scaling), rows, truth)).all()
    assert error_of(Surrogate(prior), rows[:0], truth).shape == (0, 1)


def test_trials_of_different_lengths_do_not_disturb_one_another(toy):
    truth = toy.losses(["bleu"])
    surrogate = built_in_surrogate("BO_EI_M", Problem(toy.features, 1, 36, 3))
    rng = np.random.default_rng(0)
    trials = [Trajectory(r, truth[r]) for r in (rng.permutation(36)[:n] for n in (30, 4, 36, 0, 17))]
    steps = np.array([1, 5, 17, 30])
    together = squared_errors(surrogate, trials, truth, steps)
    assert together.shape == (5, 4, 1)
    for trial, found in zip(trials, together, strict=True):
        made = steps[steps <= len(trial.rows)]
        np.testing.assert_array_equal(found[: len(made)], error_of(surrogate, trial.rows, truth, made))
        assert np.isnan(found[len(made) :]).all()


@pytest.mark.parametrize("method", [m for m, entry in BUILT_IN.items() if hasattr(entry.load(), "surrogate")])
def test_the_surrogate_is_the_methods_own(toy, method):
    """Its beliefs, with the method's acquisition, lead to the rows that the method asks for."""
    n_losses = BUILT_IN[method].objectives[0]
    losses = toy.losses(["bleu", "seconds"])[:, :n_losses]
    problem = Problem(toy.features, n_losses, 36, 3)
    surrogate = built_in_surrogate(method, problem)
    asked = BUILT_IN[method].load()(problem, np.random.default_rng(0))
    acquire = by_expected_improvement if n_losses == 1 else by_expected_hypervolume
    rows = [5, 17, 30]
    for row in rows:
        asked.tell(row, losses[row])
    for _ in range(15):
        seen = losses[rows]
        mean, covariance = posterior(surrogate, rows, seen)
        unseen = np.setdiff1d(np.arange(36), rows)
        if surrogate.scaling:
            centre, spread = surrogate.scaling(seen)
            mean, seen = ((mean.T - centre) / spread).T, (seen - centre) / spread
        front = seen[pareto_front(seen)]
        belief = Belief(
            np.ascontiguousarray(mean[:, unseen]),
            np.maximum(covariance[unseen, unseen], 0.0),
            np.ones(len(unseen), dtype=bool),
            front[np.argsort(front[:, 0])],
            seen.min(axis=0),
            seen.max(axis=0),
            covariance[np.ix_(unseen, unseen)].sum(axis=1),
        )
        values = (by_expected_influence if "EIF" in method else acquire)(belief)
        row = asked.ask()
        assert values[np.searchsorted(unseen, row)] == pytest.approx(values.max(), rel=1e-5)
        asked.tell(row, losses[row])
        rows.append(row)


def test_losses_scaled_in_a_way_of_ones_own(toy):
    def about_the_median(seen):
        return np.median(seen, axis=0), np.ptp(seen, axis=0)

    truth = toy.losses(["bleu", "seconds"])
    prior = built_in_surrogate("BO_M", Problem(toy.features, 2, 36, 3)).prior
    surrogate = Surrogate(prior, 0.1, about_the_median)
    rows = np.random.default_rng(1).permutation(36)
    expected = naive_error(surrogate, rows, truth[rows], truth)
    np.testing.assert_allclose(error_of(surrogate, rows, truth), expected, rtol=1e-5, atol=1e-6)


def test_a_perfect_surrogate_errs_nowhere():
    K = np.ones((6, 6)) + 1e-9 * np.eye(6)  # all rows alike
    truth = np.full((6, 1), 3.0)
    rows = np.array([4, 0, 2])
    np.testing.assert_allclose(error_of(Surrogate(DensePrior(K)), rows, truth), 0.0, atol=1e-12)


def test_the_prior_is_shared_by_trials(toy):
    problem = Problem(toy.features, 1, 36, 3)
    first, second = bayesian_optimisation(matern52), bayesian_optimisation(matern52, standardise=True)
    assert first.surrogate(problem).prior is second.surrogate(problem).prior
    assert first.surrogate(Problem(toy.features, 1, 36, 3)).prior is not first.surrogate(problem).prior


@pytest.mark.parametrize("truth", [[1.0, 4.0, 4.0, 9.0, 2.5], [1.0, np.nan, 4.0, 9.0, np.nan], [3.0, np.nan]])
def test_random_search_predicts_with_the_mean_it_has_seen(truth):
    truth = np.array(truth)
    n = len(truth)
    expected = []
    for t in range(1, n + 1):
        squares, weights = [], []
        for drawn in itertools.combinations(range(n), t):
            seen = truth[list(drawn)]
            unseen = np.delete(truth, drawn)
            seen, unseen = seen[~np.isnan(seen)], unseen[~np.isnan(unseen)]
            if len(seen) and len(unseen):
                squares.append(((unseen - seen.mean()) ** 2).mean())
                weights.append(1)
        expected.append(np.mean(squares) if squares else np.nan)
    np.testing.assert_allclose(random_search_squared_error(truth, np.arange(1, n + 1)), expected)
