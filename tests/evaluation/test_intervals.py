from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation import intervals
from hpobench_nmt.evaluation.intervals import _draw_counts, in_parts, mean_intervals, wilson_interval


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


@pytest.mark.parametrize("scale", [2.0**400, 2.0**-400])
def test_values_of_any_size_have_the_limits_of_their_unit(scale):
    values = np.random.default_rng(3).gamma(1.0, size=(12, 4))
    for limits, scaled in zip(mean_intervals(values), mean_intervals(values * scale), strict=True):
        np.testing.assert_array_equal(scaled, limits * scale)


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
    low, high = wilson_interval(np.array([np.nan, 0.5, 0.0, 0.5]), np.array([0, 0, 0, 4]))
    assert np.isnan([low[:3], high[:3]]).all()
    assert 0 < low[3] < 0.5 < high[3] < 1


def test_a_share_is_never_above_one_nor_below_zero():
    n = np.arange(1, 400)
    low, high = wilson_interval(np.ones(399), n)
    assert (high <= 1.0).all() and (low > 0.0).all()
    low, high = wilson_interval(np.zeros(399), n)
    assert (low >= 0.0).all() and (high < 1.0).all()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, -0.1])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_intervals(np.ones((3, 1)), confidence)
    with pytest.raises(InputError, match="between 0 and 1"):
        wilson_interval(np.ones(1), np.ones(1, dtype=int), confidence)


def bca_by_hand(x, confidence, counts):
    """Efron & Tibshirani 1993, 14.3, for one cell, one number at a time."""
    n, resamples = len(x), len(counts)
    mean = sum(x) / n
    means = sorted(sum(c * v for c, v in zip(line, x, strict=True)) / n for line in counts)
    below = sum(1.0 if m < mean - 1e-9 else 0.5 if m < mean + 1e-9 else 0.0 for m in means) / resamples
    # All resamples on one side would put the limit at infinity.
    below = min(max(below, 1 / (resamples + 1)), 1 - 1 / (resamples + 1))
    z0 = stats.norm.ppf(below)
    acceleration = sum((v - mean) ** 3 for v in x) / (6 * sum((v - mean) ** 2 for v in x) ** 1.5)
    limits = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = z0 + stats.norm.ppf(tail)
        level = stats.norm.cdf(z0 + z / (1 - acceleration * z))
        limits.append(np.quantile(means, level))
    return limits


@pytest.mark.parametrize("resamples", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("seed", range(6))
def test_few_resamples_against_the_formulas_one_number_at_a_time(resamples, seed):
    x = simulated("exponential", 5, 1, seed)
    low, high = mean_intervals(x, confidence=0.8, resamples=resamples, seed=seed)
    expected = bca_by_hand(x[:, 0], 0.8, next(in_parts(_draw_counts, 5, resamples, seed)))
    assert [low[0], high[0]] == pytest.approx(expected, rel=1e-9)


def test_cells_do_not_touch_one_another():
    samples = simulated("few values", 9, 3) + 0.1
    samples[:, 1] = 0.1
    samples[:, 2] *= 1e15
    together = np.array(mean_intervals(samples, resamples=99))
    alone = [mean_intervals(samples[:, [j]], resamples=99) for j in range(3)]
    np.testing.assert_array_equal(together, np.array(alone)[:, :, 0].T)
    assert together[0, 1] == together[1, 1]


def test_the_counts_of_resamples_are_shared_and_therefore_read_only():
    (counts,) = in_parts(_draw_counts, 4, 7, 0)
    assert counts.sum(axis=1).tolist() == [4.0] * 7
    with pytest.raises(ValueError, match="read-only"):
        counts[0, 0] = 9.0


def test_whole_numbers_are_trials_too():
    low, high = mean_intervals(np.array([[1], [2], [4]]))
    assert (low, high) == mean_intervals(np.array([[1.0], [2.0], [4.0]]))


@pytest.mark.parametrize("lines", [1, 777, 9_998, 9_999])
def test_resamples_of_many_trials_are_drawn_in_parts_and_are_the_same(monkeypatch, lines):
    samples = simulated("exponential", 40, 3)
    whole = mean_intervals(samples)
    monkeypatch.setattr(intervals, "MAX_PART", 40 * lines)
    np.testing.assert_allclose(mean_intervals(samples), whole, rtol=1e-12)
