"""The bank against dense solves, scipy's Student distribution, and posteriors that were made anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_t

from hpobench_nmt.methods.surrogates import kernel_bank
from hpobench_nmt.methods.surrogates.kernel_bank import Bank, BankPosterior, points_of


def field(posterior, member, weights, running=()):
    """What one member says."""
    mean, var = posterior.fields([member], weights, running)
    return mean[0], var[0]


def matern52(a, b):
    r = np.sqrt(5.0) * cdist(a, b)
    return (1.0 + r + r**2 / 3.0) * np.exp(-r)


def a_bank(seed=0, size=7, n_features=3):
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.2, 2.0, size=(size, n_features))
    noise = 10.0 ** rng.uniform(-4, -1, size=size)
    return Bank(lengths**-2.0, noise, np.log(rng.dirichlet(np.ones(size))), additive=0.3)


COLUMNS = (1, 3, 2)  # of a number and two categories


def a_posterior(n=20, n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, sum(COLUMNS)))
    features[:, 1:] = features[rng.integers(5, size=n_rows), 1:]  # values that recur
    posterior = BankPosterior(a_bank(seed), points_of(features, COLUMNS))
    seen = rng.permutation(n_rows)[:n]
    for row in seen:
        posterior.observe(int(row), list)
    return posterior, features, seen, rng.normal(size=n)


def kernel(bank, b, features):
    scaled = features * np.sqrt(np.repeat(bank.inverse_squares[b], COLUMNS))
    parts = np.split(scaled, np.cumsum(COLUMNS)[:-1], axis=1)
    alone = np.mean([matern52(part, part) for part in parts], axis=0)
    return (1 - bank.additive) * matern52(scaled, scaled) + bank.additive * alone


def dense(bank, b, features, seen, y):
    whole = kernel(bank, b, features)
    k = whole[np.ix_(seen, seen)] + bank.noise[b] * np.eye(len(seen))
    cross = whole[seen]
    solved = np.linalg.solve(k, np.column_stack([y, cross]))
    scale = (1.0 + y @ solved[:, 0]) / (len(y) + 1.0)
    return cross.T @ solved[:, 0], scale * (1.0 - (cross * solved[:, 1:]).sum(axis=0)), k


@pytest.mark.parametrize("n", [1, 5, 40])  # more than the arrays hold at first
def test_means_and_variances(n):
    posterior, features, seen, y = a_posterior(n)
    weights = posterior.weigh(y)
    for b in range(len(posterior.bank)):
        mean, var = field(posterior, b, weights)
        expected_mean, expected_var, _ = dense(posterior.bank, b, features, seen, y)
        np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
        np.testing.assert_allclose(var, expected_var, atol=1e-8)


@pytest.mark.parametrize("kept", [0, 40, 60])
def test_renewed_candidates_are_as_if_they_had_been_there_to_the_bit(kept):
    """What is known of the first `kept` candidates stays; that of the others is computed again."""
    posterior, features, seen, y = a_posterior(20)
    members = range(len(posterior.bank))
    for member in members:
        field(posterior, member, posterior.weigh(y))
    rng = np.random.default_rng(7)
    posterior.renew(points_of(np.concatenate([features, rng.random((30, 6))]), COLUMNS), 60)
    field(posterior, 0, posterior.weigh(y))  # the other members are behind by two renewals
    other = np.concatenate([features, rng.random((55, 6))])
    posterior.renew(points_of(other, COLUMNS), kept)
    fresh = BankPosterior(posterior.bank, points_of(other, COLUMNS))
    for row in seen.tolist():
        fresh.observe(row, list)
    for row in (65, 70, 99):
        posterior.observe(row, list)
        fresh.observe(row, list)
    y = np.concatenate([y, [0.1, -0.5, 0.7]])
    for member in members:
        np.testing.assert_array_equal(
            field(posterior, member, posterior.weigh(y)), field(fresh, member, fresh.weigh(y))
        )


@pytest.mark.parametrize("n", [1, 2, 12])
def test_weights_are_the_evidence_of_a_student_distribution(n):
    posterior, features, seen, y = a_posterior(n)
    bank = posterior.bank
    logs = bank.log_prior + [
        multivariate_t(shape=dense(bank, b, features, seen, y)[2], df=1).logpdf(y) for b in range(len(bank))
    ]
    np.testing.assert_allclose(posterior.weigh(y).log_weights, logs - np.logaddexp.reduce(logs), atol=1e-8)
    other = y**3 + 1.0
    others = bank.log_prior + [
        multivariate_t(shape=dense(bank, b, features, seen, y)[2], df=1).logpdf(other)
        for b in range(len(bank))
    ]
    gap = posterior.log_evidence(y) - posterior.log_evidence(other)
    assert gap == pytest.approx(np.logaddexp.reduce(logs) - np.logaddexp.reduce(others), abs=1e-8)


def test_rows_that_all_differ_in_some_hyperparameters_and_are_many():
    """More than are computed at a time. Values that all differ are read in the order of the rows."""
    posterior, features, seen, y = a_posterior(6, n_rows=2500)
    mean, var = field(posterior, 3, posterior.weigh(y))
    expected_mean, expected_var, _ = dense(posterior.bank, 3, features, seen, y)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
    np.testing.assert_allclose(var, expected_var, atol=1e-8)


def test_other_targets_are_as_if_they_had_been_the_first():
    posterior, _, _, y = a_posterior(10)
    field(posterior, 2, posterior.weigh(y))
    other = np.arange(10.0)
    fresh = a_posterior(10)[0]
    for found, expected in zip(
        field(posterior, 2, posterior.weigh(other)), field(fresh, 2, fresh.weigh(other)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_member_that_was_not_used_catches_up_to_the_bit():
    often, _, _, _ = a_posterior(5)
    seldom, _, _, y = a_posterior(5)
    rng = np.random.default_rng(1)
    for row in rng.permutation([row for row in range(60) if row not in often.seen])[:40]:
        for posterior in (often, seldom):
            posterior.observe(int(row), list)
        y = np.append(y, rng.normal())
        field(often, 4, often.weigh(y))
    for found, expected in zip(
        field(seldom, 4, seldom.weigh(y)), field(often, 4, often.weigh(y)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_fields_that_were_dropped_are_made_anew(monkeypatch):
    monkeypatch.setattr(kernel_bank, "_CACHE_BYTES", 0)
    monkeypatch.setattr(kernel_bank, "LEAST_HELD", 2)
    few, _, _, y = a_posterior(8)
    monkeypatch.undo()
    all_held, _, _, _ = a_posterior(8)
    for posterior in (few, all_held):
        weights = posterior.weigh(y)
        fields = [field(posterior, b, weights)[0] for b in (0, 1, 2, 3, 0, 1)]
        if posterior is few:
            kept = fields
    np.testing.assert_array_equal(kept, fields)


@pytest.mark.parametrize("weighed", [True, False])
def test_members_of_least_weight_go_when_memory_ends(weighed, monkeypatch):
    """By all targets of the rows before, whether a step has weighed the members since then or not."""
    monkeypatch.setattr(kernel_bank, "_CACHE_BYTES", 3 * 8 * 16**2)  # three factors of 16 rows
    few, features, seen, y = a_posterior(8)
    second = np.zeros(8)
    weights = [few.weigh(each).log_weights for each in (y, second)]
    heaviest = sorted(np.argsort(-np.maximum(*weights))[:3])
    assert heaviest != sorted(np.argsort(-weights[0])[:3]) and heaviest != [0, 1, 2]
    if not weighed:
        few = a_posterior(8)[0]
    full = few.bank
    rows = [row for row in range(60) if row not in seen][:5]
    for row in rows:
        few.observe(row, lambda: [y, second])
    y = np.append(y, np.linspace(-1, 1, 5))
    kept = Bank(full.inverse_squares[heaviest], full.noise[heaviest], full.log_prior[heaviest], full.additive)
    small = BankPosterior(kept, points_of(features, COLUMNS))
    for row in [*seen, *rows]:
        small.observe(int(row), list)
    np.testing.assert_array_equal(few.weigh(y).log_weights, small.weigh(y).log_weights)
    for b in range(3):
        for found, expected in zip(field(few, b, few.weigh(y)), field(small, b, small.weigh(y)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_running_rows_leave_the_variance_that_they_will_leave():
    posterior, features, seen, y = a_posterior(6)
    running = [row for row in range(60) if row not in seen][:4]
    bank, weights = posterior.bank, posterior.weigh(y)
    for b in range(len(bank)):
        mean, var = field(posterior, b, weights, running)
        np.testing.assert_array_equal(mean, field(posterior, b, weights)[0])
        _, later, _ = dense(bank, b, features, [*seen, *running], np.zeros(10))
        np.testing.assert_allclose(var / weights.amplitude[b], later * 11.0, atol=1e-9)


def test_the_heaviest_members_come_first_and_equals_in_order():
    weights = kernel_bank.Weights(np.log([0.125, 0.375, 0.125, 0.375]), np.empty((4, 0)), np.ones(4))
    assert weights.heaviest(0.8) == [1, 3, 0]
    assert weights.heaviest(1e-9) == [1]
    assert weights.heaviest(1.0) == [1, 3, 0, 2]


def test_equal_rows_do_not_break_a_factor():
    posterior = BankPosterior(a_bank(), points_of(np.zeros((5, 6)), COLUMNS))
    for row in range(4):
        posterior.observe(row, list)
    mean, var = field(posterior, 0, posterior.weigh(np.array([1.0, -1.0, 1.0, -1.0])))
    assert np.isfinite(mean).all() and (var >= 0).all()
