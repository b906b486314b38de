"""What a short search runs without numba has the bits of the compiled functions."""

import math

import numpy as np
import pytest

from hpobench_nmt.core.system import compiled
from hpobench_nmt.core.system.compiled import starting
from hpobench_nmt.methods.acquisitions.improvement import log_mean_ei_of_contenders
from hpobench_nmt.methods.auto import bank_of_size
from hpobench_nmt.methods.search import best_of
from hpobench_nmt.methods.surrogates.kernel_bank import BankPosterior, points_of


@pytest.fixture
def plainly(monkeypatch):
    """Calls a function whose compiled functions all run in their plain form."""
    monkeypatch.setattr(compiled._Start, "left", math.inf)

    def call(function, *arguments):
        with starting():
            return function(*arguments)

    return call


def a_search(features, seen, y, running):
    """Every number that a step of BO_auto computes."""
    posterior = BankPosterior(bank_of_size(3), points_of(features, (1, 1, 2)))
    for row in seen:
        posterior.observe(int(row), list)
    weights = posterior.weigh(y)
    members = weights.heaviest(0.95)
    mean, var = posterior.fields(members, weights, running)
    offsets = np.zeros(len(features))
    offsets[seen] = -np.inf
    values = log_mean_ei_of_contenders(mean, var, y.min(), weights.log_weights[members], offsets)
    return weights.log_weights, weights.whitened_targets, mean, var, values, best_of(values, offsets == 0)


@pytest.mark.parametrize(("n_rows", "running"), [(40, ()), (40, (3, 7)), (2500, ())])
def test_a_step_has_the_same_bits(n_rows, running, plainly):
    rng = np.random.default_rng(n_rows)
    features = rng.uniform(size=(n_rows, 4))
    features[:, 1:] = np.round(3 * features[:, 1:]) / 3  # values that recur
    seen, y = 10 + rng.permutation(n_rows - 10)[:9], rng.normal(size=9)
    steps = a_search(features, seen, y, running), plainly(a_search, features, seen, y, running)
    for expected, found in zip(*steps, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.isfinite(steps[0][4]).any()


def test_numbers_that_overflow_or_vanish_have_the_same_bits_without_a_warning(plainly):
    var = np.array([[0.0, 1e-320, 1e-8, 1.0, 1e300]] * 2)
    mean = np.array([[1e200, 5.0, -5.0, 40.0, 0.0], [0.0, -1e-9, 30.0, -3.0, 0.0]])
    for best in (-1e3, 0.0, 1e6):
        arguments = mean, var, best, np.log([0.4, 0.6]), np.zeros(5)
        expected = log_mean_ei_of_contenders(*arguments)
        np.testing.assert_array_equal(plainly(log_mean_ei_of_contenders, *arguments), expected)


def test_functions_are_compiled_once_enough_was_computed(monkeypatch):
    def total(x):
        return x.sum()

    summed = compiled.compiled(lambda x: "plain")(total)
    monkeypatch.setattr(compiled._Start, "left", 4000)
    with starting():
        assert [summed(np.ones(2000)) for _ in range(3)] == ["plain", "plain", 2000.0]
    monkeypatch.setattr(compiled._Start, "left", 4000)
    assert summed(np.ones(2000)) == 2000.0
