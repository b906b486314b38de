from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.evaluation.intervals import mean_intervals, wilson_interval


def simulated(kind, n, cells, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "normal": lambda: rng.normal(5.0, 2.0, (n, cells)),
        "exponential": lambda: rng.exponential(2.0, (n, cells)),
        "runtimes": lambda: np.maximum(3.0, rng.geometric(0.05, (n, cells))),
        "few values": lambda: rng.integers(0, 3, (n, cells)).astype(float),
    }[kind]()


@pytest.mark.parametrize("kind", ["normal", "exponential", "runtimes", "few values"])
@pytest.mark.parametrize("n", [2, 8, 100])
def test_the_limits_are_scipys(kind, n):
    # Whole 64ths: sums are exact, so that scipy, too, sees which resamples meet the mean.
    samples = np.round(64 * simulated(kind, n, 6, seed=n)) / 64
    samples[0] += 0.25  # scipy gives up on cells without spread
    low, high = mean_intervals(samples, confidence=0.9, resamples=999, seed=4)
    expected = stats.bootstrap(
        (samples,),
        np.mean,
        axis=0,
        vectorized=True,
        method="BCa",
        confidence_level=0.9,
        n_resamples=999,
        rng=np.random.default_rng(4),
    ).confidence_interval
    np.testing.assert_allclose(low, expected.low, rtol=1e-9)
    np.testing.assert_allclose(high, expected.high, rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "mean", "least"), [("normal", 5.0, 0.93), ("exponential", 2.0, 0.91), ("few values", 1.0, 0.92)]
)
def test_intervals_cover_the_mean_as_often_as_they_say(kind, mean, least):
    low, high = mean_intervals(simulated(kind, 50, 1500), resamples=1999)
    coverage = ((low <= mean) & (mean <= high)).mean()
    assert least < coverage < 0.97  # 95% give or take 2 standard errors of 0.6%, and what 50 trials cost


def test_trials_that_do_not_count_are_left_out():
    samples = simulated("exponential", 40, 3)
    holes = np.vstack([samples, np.full((5, 3), np.nan)])
    holes = holes[np.random.default_rng(0).permutation(45)]
    packed = np.column_stack([column[~np.isnan(column)] for column in holes.T])
    np.testing.assert_array_equal(mean_intervals(holes), mean_intervals(packed))


def test_cells_without_a_mean_or_without_spread():
    samples = np.array([[1.0, np.inf, 5.0, np.nan], [2.0, 3.0, 5.0, np.nan], [4.0, 1.0, 5.0, 7.0]])
    low, high = mean_intervals(samples)
    assert low[0] < 7 / 3 < high[0]
    assert np.isnan([low[1], high[1], low[3], high[3]]).all()
    assert (low[2], high[2]) == (5.0, 5.0)


def test_equal_values_that_rounding_tells_apart_have_no_spread():
    samples = np.full((7, 1), 0.1)
    assert [float(limit[0]) for limit in mean_intervals(samples)] == pytest.approx([0.1, 0.1], abs=1e-15)


def test_the_same_seed_gives_the_same_limits_and_another_nearly():
    samples = simulated("exponential", 30, 2)
    np.testing.assert_array_equal(mean_intervals(samples), mean_intervals(samples.copy()))
    other = mean_intervals(samples, seed=1)
    assert not np.array_equal(mean_intervals(samples), other)
    np.testing.assert_allclose(mean_intervals(samples), other, rtol=0.05)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 200), data=st.data(), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_shares_have_wilsons_interval(n, data, confidence):
    wins = data.draw(st.integers(0, n))
    expected = stats.binomtest(wins, n).proportion_ci(confidence, method="wilson")
    low, high = wilson_interval(np.array([wins / n]), np.array([n]), confidence)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_share_of_no_trials_has_no_interval():
    low, high = wilson_interval(np.array([np.nan, 0.5]), np.array([0, 4]))
    assert np.isnan([low[0], high[0]]).all()
    assert 0 < low[1] < 0.5 < high[1] < 1


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, -0.1])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_intervals(np.ones((3, 1)), confidence)
    with pytest.raises(InputError, match="between 0 and 1"):
        wilson_interval(np.ones(1), np.ones(1, dtype=int), confidence)
