from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from hpobench_nmt.evaluation.fewer_trainings import signed_rank_direction, signed_rank_exact, times_fewer

BUDGETS = [10.0, 20.0, 8.0]
RANDOM = [8.0, 15.0, 6.0]
FAMILIES = ["a", "b", "a"]


def figures(runtimes, budgets=BUDGETS, random_search=RANDOM, families=FAMILIES, copies=None, **more):
    k = len(runtimes[0])
    copies = np.zeros((len(runtimes), k), bool) if copies is None else copies
    return times_fewer(runtimes, budgets, random_search, families, copies, **{"resamples": 999, **more})


def test_the_figure_by_hand():
    runtimes = [
        np.array([[3.0, 5.0], [np.inf, 10.0]]),
        np.array([[5.0, np.inf], [15.0, 15.0]]),
        np.array([[3.0, 3.0], [6.0, np.inf]]),
    ]
    found = figures(runtimes)
    first = [8 / 4, 15 / 12.5, 6 / 3]
    second = [8 / 10, 15 / 15, 6 / 7]
    np.testing.assert_allclose(found.ratios, np.transpose([first, second]))
    np.testing.assert_allclose(found.capped, [[0, 0.5], [0.5, 0], [0, 0.5]])
    for at, (r1, r2, r3) in enumerate([first, second]):
        family_a, family_b = math.sqrt(r1 * r3), r2
        assert found.figure[at] == pytest.approx(math.sqrt(family_a * family_b))
        assert found.by_tables[at] == pytest.approx((r1 * r2 * r3) ** (1 / 3))
    assert np.isnan(found.families_low).all()
    assert np.isnan(found.families_high).all()


def test_a_method_without_a_value_on_a_table_has_no_figure():
    runtimes = [np.array([[3.0, np.nan], [4.0, 5.0]])] * 3
    found = figures(runtimes)
    assert np.isnan(found.figure[0])
    assert np.isnan([found.low[0], found.by_tables[0]]).all()
    assert found.figure[1] > 1
    assert found.low[1] <= found.figure[1] <= found.high[1]


def test_copies_of_one_run_have_no_interval():
    runtimes = [np.array([[3.0] * 12, np.arange(1.0, 13)])] * 3
    found = figures(runtimes, copies=np.array([[False, False], [True, False], [False, False]]))
    assert np.isnan(found.low[0])
    assert np.isnan(found.high[0])
    assert found.figure[0] > 0
    assert found.low[1] < found.figure[1] < found.high[1]


def test_one_trial_has_no_interval():
    found = figures([np.array([[3.0], [5.0]])] * 3)
    assert np.isfinite(found.figure).all() and np.isnan([*found.low, *found.high]).all()


def test_the_interval_covers_the_true_figure():
    """Trials are drawn from a known distribution: 95% intervals cover its figure in about as many runs."""
    rng, covered, truth = np.random.default_rng(1), 0, None
    values = np.arange(1.0, 21)
    true_means = [np.minimum(values, tau).mean() for tau in BUDGETS]
    logs = np.log(np.array(RANDOM) / true_means)
    truth = math.exp(((logs[0] + logs[2]) / 2 + logs[1]) / 2)
    runs = 200
    for _ in range(runs):
        drawn = [np.where(x > tau, np.inf, x) for tau in BUDGETS for x in [rng.choice(values, (1, 50))]]
        found = figures(drawn, resamples=499)
        covered += bool(found.low[0] <= truth <= found.high[0])
    assert 0.88 <= covered / runs <= 0.99


def test_all_methods_share_the_draws_of_trials():
    line = np.random.default_rng(0).integers(1, 12, (1, 30)).astype(float)
    found = figures([np.vstack([line, 2 * line])] * 3, budgets=[99.0] * 3)
    np.testing.assert_allclose(found.low[0], 2 * found.low[1])
    np.testing.assert_allclose(found.high[0], 2 * found.high[1])


def test_families_are_resampled_from_six_on():
    rng = np.random.default_rng(2)
    ratio = np.exp(rng.normal(0.5, 0.4, 12))
    families = [str(i // 2) for i in range(12)]
    # Every trial alike, so that only tables and families vary.
    runtimes = [np.full((1, 4), 10.0)] * 12
    found = figures(runtimes, [50.0] * 12, list(10 * ratio), families, resamples=4_000)
    logs = np.log(ratio).reshape(6, 2)
    naive = []
    for _ in range(4_000):
        chosen = [logs[f][rng.integers(0, 2, 2)].mean() for f in rng.integers(0, 6, 6)]
        naive.append(math.exp(np.mean(chosen)))
    low, high = np.quantile(naive, [0.025, 0.975])
    assert found.families_low[0] == pytest.approx(low, rel=0.03)
    assert found.families_high[0] == pytest.approx(high, rel=0.03)
    few = figures(runtimes[:10], [50.0] * 10, list(10 * ratio)[:10], families[:10])
    assert np.isnan(few.families_low[0])


def by_all_signs(d):
    """The test over every choice of signs, one after the other."""
    ranks = rankdata(np.abs(d))[d != 0]
    observed = abs(sum(r if x > 0 else -r for r, x in zip(ranks, d[d != 0], strict=True)))
    sums = [abs(np.dot(signs, ranks)) for signs in itertools.product([1, -1], repeat=len(ranks))]
    return np.mean([s >= observed - 1e-9 for s in sums])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=9))
def test_signed_rank_over_all_signs(values):
    d = np.array(values)
    assert signed_rank_exact(d) == pytest.approx(by_all_signs(d))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=9))
def test_the_direction_is_that_of_the_sum_of_signed_ranks(values):
    d = np.array(values)
    ranks = rankdata(np.abs(d))
    assert signed_rank_direction(d) == np.sign(sum(r * np.sign(x) for r, x in zip(ranks, d, strict=True)))


def test_six_differences_among_many_zeros_have_a_direction():
    d = np.array([0.5] * 6 + [0.0] * 15)
    assert signed_rank_exact(d) == pytest.approx(2 / 64)
    assert (signed_rank_direction(d), signed_rank_direction(-d), signed_rank_direction(0 * d)) == (1, -1, 0)


def test_signed_rank_is_scipys_without_zeros_and_ties():
    d = np.random.default_rng(0).normal(0.3, 1.0, 24)
    assert signed_rank_exact(d) == pytest.approx(wilcoxon(d, method="exact").pvalue)


def test_the_least_p_of_six_and_of_nothing():
    assert signed_rank_exact(np.arange(1.0, 7)) == pytest.approx(2 / 64)
    assert signed_rank_exact(np.zeros(5)) == 1.0
    assert np.isnan(signed_rank_exact(np.array([])))


def test_what_differs_by_rounding_is_a_tie():
    d = np.array([0.3, -(0.1 + 0.2), 0.5, 1e-17])
    assert signed_rank_exact(d) == pytest.approx(by_all_signs(np.array([0.3, -0.3, 0.5, 0.0])))


def test_tables_have_draws_of_their_own():
    """Four tables with the same runtimes: the interval is half as wide as that of one."""
    line = np.random.default_rng(4).integers(1, 12, (1, 40)).astype(float)

    def width(n):
        found = figures([line] * n, [99.0] * n, [8.0] * n, [str(i) for i in range(n)], resamples=4_000)
        return math.log(found.high[0] / found.low[0])

    assert width(4) == pytest.approx(width(1) / 2, rel=0.1)
