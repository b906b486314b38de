from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hpobench_nmt.evaluation.figure import times_fewer
from hpobench_nmt.evaluation.verdicts import benjamini_hochberg, on_other_families, on_these_tables

LOGS = np.array([0.31, 0.9, -0.12, 0.55, 0.02, 0.4])


def test_other_families_by_scipy():
    found = on_other_families(LOGS)
    test = stats.ttest_1samp(LOGS, 0.0)
    interval = test.confidence_interval(0.95)
    assert found.p == pytest.approx(test.pvalue, rel=1e-12)
    assert found.ratio == pytest.approx(stats.gmean(np.exp(LOGS)))
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert on_other_families(-LOGS).p == pytest.approx(found.p)


def test_trials_on_one_table_by_scipy():
    rng = np.random.default_rng(0)
    t, g = rng.permutation(np.arange(3.0, 23.0)), rng.permutation(np.arange(3.0, 23.0))
    same = on_these_tables(times_fewer([t[None]], [g], ["one"]), 0)
    assert (same.ratio, same.p) == pytest.approx((1.0, 1.0))
    figure = times_fewer([t[None]], [g + 2.0], ["one"])
    found = on_these_tables(figure, 0)
    assert found.p == pytest.approx(2 * stats.t.sf(figure.log[0] / figure.se[0], 19), rel=1e-10)
    assert (found.low, found.high) == pytest.approx([limit[0] for limit in figure.interval])


def test_the_smallest_ratio_is_shown_in_four_of_five_repetitions():
    """If the deviation between families is what it was estimated to be."""
    found, sd = on_other_families(LOGS), LOGS.std(ddof=1)
    rng = np.random.default_rng(1)
    repeated = rng.normal(math.log(found.smallest), sd, (100_000, len(LOGS)))
    shown = stats.ttest_1samp(repeated, 0.0, axis=1).pvalue < 0.05
    assert shown.mean() == pytest.approx(0.8, abs=0.03)


def test_the_range_of_the_smallest_ratio_covers_the_true_one():
    rng = np.random.default_rng(2)
    found = [on_other_families(logs) for logs in rng.normal(0.5, 0.3, (4000, 8))]
    true = (stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)) * 0.3 / 8**0.5
    below = np.mean([v.smallest_high < math.exp(true) for v in found])
    above = np.mean([v.smallest_low > math.exp(true) for v in found])
    assert (below, above) == pytest.approx((0.05, 0.05), abs=0.012)
    assert all(v.smallest_low < v.smallest < v.smallest_high for v in found)


def test_without_a_test():
    for few in (LOGS[:4], np.full(6, 0.25), np.array([*LOGS, np.nan])):
        found = on_other_families(few)
        assert found.ratio == pytest.approx(math.exp(few.mean()), nan_ok=True)
        assert np.isnan([found.p, found.low, found.smallest, found.smallest_high]).all()
        assert found.could_be_shown
    assert math.isfinite(on_other_families(LOGS[:5]).p)
    assert math.isnan(on_other_families(LOGS[:0]).ratio)


def test_a_ratio_beyond_the_best_possible_cannot_be_shown():
    smallest = on_other_families(LOGS).smallest
    assert not on_other_families(LOGS, smallest - 0.01).could_be_shown
    assert on_other_families(LOGS, smallest + 0.01).could_be_shown
    assert on_other_families(LOGS).could_be_shown


def test_false_discoveries_by_scipy():
    rng = np.random.default_rng(3)
    for count in range(1, 12):
        p = np.round(rng.uniform(size=count) ** 3, 2)  # with ties
        np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), rtol=1e-12)
        with_gap = np.insert(p, count // 2, np.nan)
        expected = np.insert(stats.false_discovery_control(p), count // 2, np.nan)
        np.testing.assert_allclose(benjamini_hochberg(with_gap), expected, rtol=1e-12)
    assert benjamini_hochberg(np.array([])).shape == (0,)
