"""The warp of losses: what is good keeps its differences, what diverged is bad and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.methods.surrogates.warping import CAP, warped, warped_violations

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)
# Whole numbers, whose differences are exact in any unit that the tests take.
whole = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=40).map(np.array)


def naive(losses):
    """The formulas of the module, in numbers that neither overflow nor underflow."""
    good = losses[np.isfinite(losses)]
    median = np.median(good)
    low = good[good < median]
    near = np.abs(good - median)
    s = (
        np.sqrt(np.mean((low - median) ** 2))
        if len(low)
        else np.sqrt(np.mean(near[near <= np.median(near)] ** 2))
    )
    u = (losses - median) / (s or np.abs(good - median).max() or 1)
    bent = np.where(u > 0, np.minimum(np.log1p(np.maximum(u, 0)), CAP), u)
    bent[~np.isfinite(losses)] = CAP
    return (bent - bent.mean()) / bent.std() if np.ptp(bent) > 0 else np.zeros(len(losses))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_formula(seed):
    rng = np.random.default_rng(seed)
    losses = rng.normal(3.0, 2.0, size=int(rng.integers(2, 60)))
    losses[rng.random(len(losses)) < 0.1] = rng.choice([50.0, 1e16, np.nan, np.inf])
    if not np.isfinite(losses).any():
        losses[0] = 1.0
    np.testing.assert_allclose(warped(losses), naive(losses), rtol=1e-9, atol=1e-12)


@given(numbers)
def test_better_stays_better(losses):
    order = np.argsort(losses, kind="stable")
    assert (np.diff(warped(losses)[order]) >= -1e-12).all()


@given(whole, st.integers(-9, 9), st.integers(-1000, 1000))
def test_units_do_not_matter(losses, power, shift):
    np.testing.assert_allclose(warped(losses * 2.0**power + shift), warped(losses), atol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-30, 1e150, 1e300])
def test_losses_of_any_size(size):
    losses = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    np.testing.assert_allclose(warped(losses * size), warped(losses), rtol=1e-6)


def test_the_largest_floats_do_not_overflow():
    most = np.finfo(float).max
    assert np.isfinite(warped(np.array([-most, most, 0.0, 1.0]))).all()


def test_the_largest_floats_are_as_far_apart_as_others():
    most = np.finfo(float).max
    shape = np.array([-1.0, 1.0, 0.0, 0.5, -0.25])
    np.testing.assert_allclose(warped(shape * most), warped(shape), rtol=1e-9)


def test_how_bad_does_not_matter():
    good = [1.0, 1.1, 1.3, 1.2, 0.9]
    np.testing.assert_array_equal(warped(np.array([*good, 40.0])), warped(np.array([*good, 1e16])))
    np.testing.assert_array_equal(warped(np.array([*good, np.inf])), warped(np.array([*good, np.nan])))


def test_good_rows_stay_apart_beside_a_diverged_one():
    found = warped(np.array([0.70, 0.71, 0.72, 0.73, 1.3e16]))
    assert np.diff(found)[:3].min() > 0.2


@pytest.mark.parametrize("losses", [[2.0], [2.0, 2.0, 2.0], [np.nan, np.inf], [np.nan]])
def test_nothing_to_tell_apart(losses):
    assert (warped(np.array(losses)) == 0).all()


def test_half_of_the_losses_are_equal():
    found = warped(np.array([1.0, 1.0, 1.0, 1.5, 2.0]))
    assert found[0] == found[1] == found[2] < found[3] < found[4]


def test_violations_keep_their_sign():
    violations = np.array([-1.0, -0.1, 0.0, 0.2, 30.0, np.inf])
    y, bound = warped_violations(violations)
    assert ((y > bound) == (violations > 0)).all()
    assert math.isclose(y[2], bound, abs_tol=1e-12)
    assert np.isfinite(y).all() and (np.diff(y) >= 0).all()


def test_most_violations_are_missing():
    y, bound = warped_violations(np.array([np.inf, np.inf, np.inf, -1.0]))
    assert np.isfinite(y).all() and (y > bound).tolist() == [True, True, True, False]


@pytest.mark.parametrize(("value", "kept"), [(-2.0, True), (0.0, True), (2.0, False)])
def test_equal_violations(value, kept):
    y, bound = warped_violations(np.full(4, value))
    assert (y == 0).all() and (bound >= 0) == kept


@pytest.mark.parametrize("seed", range(5))
def test_violations_are_the_formula(seed):
    rng = np.random.default_rng(seed)
    violations = rng.normal(scale=10.0 ** rng.integers(-3, 4), size=12)
    violations[rng.random(12) < 0.2] = np.inf
    s = np.median(np.abs(violations[np.isfinite(violations)]))
    bent = np.sign(violations) * np.minimum(np.log1p(np.abs(violations) / s), CAP)
    y, bound = warped_violations(violations)
    np.testing.assert_allclose(y, (bent - bent.mean()) / bent.std(), rtol=1e-9, atol=1e-12)
    assert bound == pytest.approx(-bent.mean() / bent.std(), rel=1e-9)
