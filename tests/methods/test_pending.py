"""Methods with evaluations pending: variances against a dense posterior, trials against naive twins."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_contenders
from hpobench_nmt.methods.any_targets import AnyTargetsPosterior
from hpobench_nmt.methods.kernels import DensePrior, matern52
from hpobench_nmt.methods.surrogates.pending import Pending
from hpobench_nmt.methods.surrogates.posterior import Posterior
from hpobench_nmt.testing import PARALLEL_CHECKS

N_ROWS = 90


def dense(covariance, noise_sd, seen):
    """Posterior covariance of all rows, given observations of some."""
    inner = covariance[np.ix_(seen, seen)] + noise_sd**2 * np.eye(len(seen))
    return covariance - covariance[:, seen] @ np.linalg.solve(inner, covariance[seen])


def random_covariance(seed):
    factor = np.random.default_rng(seed).normal(size=(N_ROWS, N_ROWS))
    return factor @ factor.T / N_ROWS + 0.1 * np.eye(N_ROWS)


@pytest.mark.parametrize("noise_sd", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["fixed", "any"])
def test_variance_and_row_sums_are_those_of_a_dense_posterior(kind, noise_sd):
    covariance, rng = random_covariance(1), np.random.default_rng(2)
    prior = DensePrior(covariance)
    if kind == "fixed":
        posterior = Posterior(prior, 1, noise_sd, covariance.sum(axis=1) if noise_sd == 0 else None)
    else:
        posterior = AnyTargetsPosterior(prior, noise_sd)
    pending, running, seen, gone = Pending(posterior), [], [], []
    while len(seen) + len(gone) + len(running) < N_ROWS - 5:
        left = np.setdiff1d(np.arange(N_ROWS), seen + gone + running)
        action = rng.integers(5)
        if action < 2 and len(running) < 7:
            running.append(int(rng.choice(left)))
        elif action == 2 and running:  # something that was pending is given up
            running.pop(rng.integers(len(running)))
        else:
            own = bool(running) and rng.random() < 0.8  # else a row that was not pending
            row = running.pop(rng.integers(len(running))) if own else int(rng.choice(left))
            if rng.random() < 0.1:
                pending.discard(row)
                gone.append(row)
            else:
                pending.observe(row, np.zeros(1))
                seen.append(row)
        before = posterior.var.copy()
        var, free, row_sums = pending.given(dict.fromkeys(running, 1.0))
        expected = dense(covariance, noise_sd, seen + running)
        rows = posterior.rows[free]
        assert rows.tolist() == np.setdiff1d(np.arange(N_ROWS), seen + gone + running).tolist()
        np.testing.assert_allclose(var[free], expected[rows, rows], rtol=1e-9, atol=1e-11)
        if row_sums is not None:
            unseen = np.setdiff1d(np.arange(N_ROWS), gone)
            np.testing.assert_allclose(
                row_sums[free], expected[np.ix_(rows, unseen)].sum(axis=1), rtol=1e-8, atol=1e-9
            )
        np.testing.assert_array_equal(posterior.var, before)
    assert len(seen) > 40


def test_pending_rows_that_determine_each_other_leave_no_rounding_errors():
    features = np.zeros((6, 1))
    features[3:] = 1.0
    posterior = Posterior(DensePrior(matern52(features, features)))
    pending = Pending(posterior)
    var, free, _ = pending.given({0: 1.0, 1: 1.0, 3: 1.0})
    assert free.tolist() == [False, False, True, False, True, True]
    np.testing.assert_allclose(var, 0.0, atol=1e-12)
    assert (var >= 0).all()
    # Row 1 is determined once row 0 is observed, and then tells nothing of the others.
    for row in (0, 1):
        pending.observe(row, np.zeros(1))
    var, free, _ = pending.given({3: 1.0})
    assert posterior.rows[free].tolist() == [2, 4, 5]
    np.testing.assert_allclose(var[free], 0.0, atol=1e-12)
    var, _, _ = pending.given({})
    np.testing.assert_allclose(
        var[np.isin(posterior.rows, [3, 4, 5])], 1 - matern52(features, features)[0, 3] ** 2
    )


def test_what_was_pending_is_forgotten_when_another_row_is_observed():
    covariance = random_covariance(3)
    posterior = Posterior(DensePrior(covariance), 1, 0.1)
    pending = Pending(posterior)
    pending.given({4: 1.0, 5: 1.0})
    pending.observe(9, np.zeros(1))
    pending.discard(30)  # was not pending
    var, free, _ = pending.given({5: 1.0})
    np.testing.assert_allclose(
        var[free], np.diag(dense(covariance, 0.1, [9, 5]))[posterior.rows[free]], rtol=1e-9
    )


def curves_of(losses, seed):
    return Trainings.whole(losses, np.random.default_rng(seed).uniform(1.0, 3.0, len(losses)))


class NaiveBatchedBO:
    """Expected improvement with the mean of what is known and the variance of what will be."""

    def __init__(self, problem, rng):
        self.covariance = matern52(problem.features, problem.features)
        self.rng, self.seen, self.losses, self.failed = rng, [], [], []

    def suggest(self, running):
        rows = np.arange(len(self.covariance))
        free = ~np.isin(rows, self.seen + self.failed + list(running))
        if not self.seen:
            return int(self.rng.choice(rows[free]))
        cross = self.covariance[:, self.seen]
        inner = self.covariance[np.ix_(self.seen, self.seen)] + 1e-6 * np.eye(len(self.seen))
        y = (np.array(self.losses) - np.mean(self.losses)) / (np.std(self.losses) or 1.0)
        mean = cross @ np.linalg.solve(inner, y)
        var = np.maximum(np.diag(dense(self.covariance, 1e-3, self.seen + list(running))), 0.0)
        value = log_ei_of_contenders(mean, var, y.min(), free)
        return int(rows[free][value[free].argmax()])

    def tell(self, row, losses):
        if np.isnan(losses[0]):
            self.failed.append(row)
        else:
            self.seen.append(row)
            self.losses.append(losses[0])


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_batched_bo_as_its_naive_twin(workers):
    rng = np.random.default_rng(workers)
    features = rng.uniform(size=(60, 3))
    losses = np.sin(3 * features @ rng.normal(size=3))[:, None] + rng.normal(scale=0.1, size=(60, 1))
    losses[[9, 30]] = np.nan
    problem = Problem(features, 1, 60, 3, workers=workers, clock="cost", time=2.0 * 42 / workers)
    given = curves_of(losses, 4)
    ours, naive = (
        run_trial(problem, given, method, np.random.default_rng(0), [0, 20, 40])
        for method in (BUILT_IN["BO_EI_M_std"].load(), NaiveBatchedBO)
    )
    assert ours.failure == naive.failure == ""
    assert len(ours.rows) > 30
    assert ours.rows.tolist() == naive.rows.tolist()


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("name", "n_objectives"),
    [("BO_EI_M_std", 1), ("GB_EIF_M", 1), ("BO_M", 2), ("GB_M", 3), ("ParEGO_M", 2), ("NSGA2", 2)],
)
def test_conformance(name, n_objectives, check):
    check(BUILT_IN[name].load(), n_objectives)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_takes_workers(name):
    n_objectives = BUILT_IN[name].objectives[0]
    rng = np.random.default_rng(3)
    features, losses = rng.uniform(size=(30, 2)), rng.uniform(size=(30, n_objectives))
    problem = Problem(features, n_objectives, 30, 3, workers=4, clock="cost")
    method = BUILT_IN[name].load()
    if name in ("CQR", "CQR_ASHA"):  # quick to fit with one tree for each quantile
        method = functools.partial(method, trees=1)
    done = run_trial(problem, curves_of(losses, 1), method, rng, [0, 1, 2])
    assert done.failure == ""
    assert sorted(done.rows.tolist()) == list(range(30))
    assert len(set(done.timeline.workers.tolist())) == 4
