"""Copula transfer: the fit of the prior, and steps against naive twins."""

import copy

import numpy as np
import pytest
from scipy.stats import norm
from twins.gaussian import gaussian_process, log_improvement, matern52_matrix

from hpobench_nmt.core.problem import Problem, Source
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.transfer import copula
from hpobench_nmt.methods.transfer.copula import (
    CTS,
    GaussianCopula,
    _misfit,
    fitted,
    polynomials,
    score_prior,
)

N_ROWS = 60


def problem_with(sources, n_initial=0):
    return Problem(np.random.default_rng(0).random((N_ROWS, 2)), 1, N_ROWS, n_initial, sources=tuple(sources))


def source(at, seed, scale=1.0, missing=()):
    features = np.random.default_rng(seed).random((40, 2))
    losses = scale * ((features - at) ** 2).sum(axis=1)[:, None] + 7.0
    losses[list(missing)] = np.nan
    return Source(f"source{seed}", features, losses)


def naive_scores(losses):
    """Normal quantiles of the ranks, counted one by one."""
    ranks = [sum(o < x for o in losses) + (sum(o == x for o in losses) + 1) / 2 for x in losses]
    return norm.ppf((np.array(ranks) - 0.5) / len(losses))


def naive_basis(x):
    columns = [np.ones(len(x)), *x.T]
    columns += [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i, x.shape[1])]
    return np.array(columns).T


def test_the_prior_is_of_largest_penalised_likelihood():
    rng = np.random.default_rng(2)
    x = rng.random((300, 2))
    z = 2 * x[:, 0] - 1 + rng.normal(size=300) * np.exp(0.5 * (3 * x[:, 1] - 3))
    np.testing.assert_allclose(polynomials(x), naive_basis(x))
    log_basis = np.column_stack([np.ones(300), x])
    w, v = fitted(naive_basis(x), log_basis, z)

    def cost(w, v):
        sd = np.exp(0.5 * log_basis @ v)
        return -norm.logpdf(z, naive_basis(x) @ w, sd).sum() + 0.5 * (w @ w + v @ v)

    best = cost(w, v)
    for _ in range(200):
        step = rng.normal(size=len(w) + len(v)) * 10.0 ** rng.uniform(-3, 0)
        assert cost(w + step[: len(w)], v + step[len(w) :]) > best - 1e-6
    np.testing.assert_allclose(v, [-3, 0, 3], atol=0.8)  # shrunk a little


@pytest.mark.parametrize("seed", range(4))
def test_each_half_of_the_fit_is_best_given_the_other_and_found_in_few_rounds(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    x = 3 * rng.random((6, 1))
    z = 3 * rng.normal(size=6) + 4 * x[:, 0]
    rounds = []
    ridge = copula._ridge
    monkeypatch.setattr(copula, "_ridge", lambda *a: rounds.append(a) or ridge(*a))
    basis, log_basis = naive_basis(x), np.column_stack([np.ones(6), x])
    w, v = fitted(basis, log_basis, z)
    error = z - basis @ w
    precision = np.exp(-log_basis @ v)
    np.testing.assert_allclose(basis.T @ (precision * error), w, atol=1e-3)
    np.testing.assert_allclose(0.5 * log_basis.T @ (precision * error**2 - 1), v, atol=1e-3)
    assert len(rounds) < 80  # two in each round


def test_what_a_fit_of_the_deviations_costs():
    rng = np.random.default_rng(3)
    log_basis, squares, v = rng.normal(size=(7, 3)), rng.random(7), rng.normal(size=3)
    value = _misfit(v, log_basis, squares)
    sd = np.exp(0.5 * log_basis @ v)
    likelihood = norm.logpdf(np.sqrt(squares), 0, sd).sum() + 3.5 * np.log(2 * np.pi)
    assert value == pytest.approx(-likelihood + 0.5 * (v**2).sum(), rel=1e-12)
    for log, kept in ((60.0, 50.0), (-60.0, -50.0)):  # further out, exp would overflow
        value = _misfit(np.array([log]), np.ones((1, 1)), np.array([1.0]))
        assert value == pytest.approx(0.5 * (kept + np.exp(-kept) + log**2), rel=1e-12)


def test_beyond_40_features_only_squares_are_taken():
    x = np.random.default_rng(0).random((3, 41))
    np.testing.assert_array_equal(polynomials(x), np.hstack([np.ones((3, 1)), x, x**2]))
    np.testing.assert_allclose(polynomials(x[:, 1:]), naive_basis(x[:, 1:]))


def test_scales_of_sources_do_not_matter_and_missing_losses_are_left_out():
    here = [source(0.3, 1), source(0.4, 2, missing=(3, 5))]
    other = [source(0.3, 1, scale=1e6), source(0.4, 2, scale=1e-3, missing=(3, 5))]
    for ours, theirs in zip(score_prior(problem_with(here)), score_prior(problem_with(other)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    nothing = Source("none", np.zeros((2, 2)), np.full((2, 1), np.nan))
    mean, deviation = score_prior(problem_with([nothing]))
    assert not mean.any() and (deviation == 1).all()


@pytest.mark.parametrize("initial", [[], [5, 9, 30]])
def test_gcp_as_its_naive_twin(initial):
    problem = problem_with([source(0.3, 1), source(0.6, 2)], len(initial))
    features = problem.features
    losses = 50 * ((features - 0.45) ** 2).sum(axis=1) + np.random.default_rng(1).random(N_ROWS)
    losses[9] = np.nan
    mu, sigma = score_prior(problem)
    rng = np.random.default_rng(4)
    seen = list(initial) or [int((mu + sigma * copy.deepcopy(rng).standard_normal(N_ROWS)).argmin())]
    while len(seen) < 40:
        known = [row for row in seen if not np.isnan(losses[row])]
        unseen = [row for row in range(N_ROWS) if row not in seen]
        z = naive_scores(losses[known])
        mean, sd = gaussian_process(
            matern52_matrix(features), known, unseen, (z - mu[known]) / sigma[known], 1e-3
        )
        value = log_improvement(z.min(), mu[unseen] + sigma[unseen] * mean, sigma[unseen] * sd)
        seen.append(unseen[int(value.argmax())])
    done = run_trial(problem, Trainings.whole(losses[:, None]), GaussianCopula, rng, initial)
    assert done.rows[:40].tolist() == seen


def test_cts_draws_each_row_as_often_as_the_prior_says():
    problem = problem_with([source(0.3, 1), source(0.4, 2)])
    mu, sigma = score_prior(problem)
    firsts = [CTS(problem, np.random.default_rng(seed)).ask() for seed in range(600)]
    draws = np.random.default_rng(9).normal(mu, sigma, (20000, N_ROWS)).argmin(axis=1)
    np.testing.assert_allclose(
        np.bincount(firsts, minlength=N_ROWS) / 600, np.bincount(draws, minlength=N_ROWS) / 20000, atol=0.06
    )
    assert np.abs(problem.features[firsts] - 0.35).mean() < 0.2


def test_good_sources_help():
    losses = ((problem_with([]).features - 0.35) ** 2).sum(axis=1)[:, None]
    best = int(losses.argmin())

    def needed(make, sources):
        problem = problem_with(sources)
        trials = [
            run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(s)) for s in range(8)
        ]
        return np.mean([trial.rows.tolist().index(best) + 1 for trial in trials])

    good = [source(0.3, 1), source(0.4, 2)]
    assert needed(GaussianCopula, good) < needed(GaussianCopula, [])
    assert needed(CTS, good) < 0.5 * (N_ROWS + 1) / 2 < needed(CTS, [])
    assert needed(GaussianCopula, good) < needed(BUILT_IN["BO_EI_M_std"].load(), [])
