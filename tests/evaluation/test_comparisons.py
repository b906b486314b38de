from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation import intervals
from hpobench_nmt.evaluation.comparisons import (
    compare_pairs,
    holm,
    rank_biserial,
    sign_flips,
    signed_rank,
    tied_ranks,
)
from hpobench_nmt.evaluation.intervals import mean_intervals, wilson_interval


def naive_sign_flip_p(d):
    observed = abs(sum(d))
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True)))
        for signs in itertools.product([1, -1], repeat=len(d))
    ]
    return np.mean([s >= observed - 1e-9 for s in sums])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-1.5, 0.0, 1.0, 2.0, 7.0, np.inf]), min_size=1, max_size=12))
def test_ranks_are_those_of_scipy(values):
    rows = np.array([values, values[::-1]])
    np.testing.assert_array_equal(tied_ranks(rows), stats.rankdata(rows, axis=1))


@settings(max_examples=40, deadline=None)
@given(d=st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=9))
def test_all_sign_flips(d):
    assert sign_flips(np.array([d]))[0] == pytest.approx(naive_sign_flip_p(d))


def test_random_sign_flips_are_those_of_scipy():
    rng = np.random.default_rng(0)
    d = rng.exponential(size=(6, 40)) - np.linspace(0.5, 1.2, 6)[:, None]
    expected = [
        stats.permutation_test(
            (row,), np.mean, permutation_type="samples", n_resamples=9999, vectorized=True, axis=-1, rng=rng
        ).pvalue
        for row in d
    ]
    found = sign_flips(d)
    error = 4 * np.sqrt(2 * found * (1 - found) / 9999) + 2e-4
    assert (np.abs(found - expected) < error).all()


def test_trials_that_do_not_count_change_no_p_value():
    d = np.array([[1.0, 2.0, -0.5, 3.0, 1.5]])
    holes = np.insert(d, [1, 4], np.nan, axis=1)
    assert sign_flips(holes)[0] == sign_flips(d)[0] == naive_sign_flip_p(d[0])
    assert np.isnan(sign_flips(np.full((1, 3), np.nan))[0])
    assert signed_rank(holes)[0] == signed_rank(d)[0]
    assert rank_biserial(holes)[0] == rank_biserial(d)[0]


def naive_rank_sums(gains):
    ranks = [
        sum(abs(h) < abs(g) for h in gains) + (sum(abs(h) == abs(g) for h in gains) + 1) / 2 for g in gains
    ]
    up = sum(r * (1.0 if g > 0 else 0.5 if g == 0 else 0.0) for r, g in zip(ranks, gains, strict=True))
    return up, sum(ranks) - up


@settings(max_examples=40, deadline=None)
@given(gains=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 1.0, 2.0, np.inf, -np.inf]), min_size=1, max_size=8))
def test_rank_biserial_is_the_share_of_ranks(gains):
    up, down = naive_rank_sums(gains)
    assert rank_biserial(np.array([gains]))[0] == pytest.approx((up - down) / (up + down))


@settings(max_examples=30, deadline=None)
@given(gains=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 1.0, 2.0, 5.0]), min_size=2, max_size=7))
def test_few_signed_ranks_are_tested_exactly(gains):
    up, _ = naive_rank_sums(gains)
    flipped = [
        naive_rank_sums([s * g for s, g in zip(signs, gains, strict=True)])[0]
        for signs in itertools.product([1, -1], repeat=len(gains))
    ]
    expected = min(
        1.0, 2 * min(np.mean([f <= up + 1e-9 for f in flipped]), np.mean([f >= up - 1e-9 for f in flipped]))
    )
    assert signed_rank(np.array([gains]))[0] == pytest.approx(expected)


def test_a_pair_is_tested_the_same_alone_and_among_others():
    rng = np.random.default_rng(1)
    gains = rng.normal(0.3, 1, (3, 30))
    gains[1] = np.round(gains[1])  # ties and zeros
    together = signed_rank(gains)
    alone = [signed_rank(row[None])[0] for row in gains]
    np.testing.assert_array_equal(together, alone)
    expected = stats.wilcoxon(gains[0], method="asymptotic", zero_method="zsplit").pvalue
    assert together[0] == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p):
    expected = [
        max(
            min(1.0, len(subset) * min(p[j] for j in subset))
            for size in range(1, len(p) + 1)
            for subset in itertools.combinations(range(len(p)), size)
            if i in subset
        )
        for i in range(len(p))
    ]
    np.testing.assert_allclose(holm(np.array(p)), expected, rtol=1e-12)


def test_holm_leaves_out_what_was_not_tested():
    np.testing.assert_allclose(holm(np.array([0.01, np.nan, 0.04])), [0.02, np.nan, 0.04])


def test_holm_is_that_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).random(30) ** 2
    np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1])


def test_differences_intervals_and_wins_are_those_of_the_pair():
    rng = np.random.default_rng(0)
    values = np.round(rng.exponential(20, (3, 60)))
    for pair in compare_pairs(values):
        d = values[pair.a] - values[pair.b]
        assert pair.trials == 60
        assert pair.difference == pytest.approx(d.mean())
        assert pair.low < pair.difference < pair.high
        wins = (values[pair.a] < values[pair.b]).mean() + 0.5 * (values[pair.a] == values[pair.b]).mean()
        assert pair.p_a_better == pytest.approx(wins)
        assert pair.p_low < wins < pair.p_high
        assert pair.test == "permutation"
    assert [(p.a, p.b) for p in compare_pairs(values)] == [(0, 1), (0, 2), (1, 2)]


def test_nothing_is_better_that_the_interval_does_not_support():
    rng = np.random.default_rng(3)
    called = 0
    for shift in np.linspace(0, 12, 40):
        values = rng.exponential(20, (4, 25))
        values[0] += shift
        for pair in compare_pairs(values):
            if pair.better:
                called += 1
                assert pair.p_holm < 0.05
                assert pair.high < 0 if pair.better == "a" else pair.low > 0
    assert called > 5


def test_equal_methods_are_seldom_told_apart():
    # At most 5% of families of six pairs, give or take three standard errors.
    rng = np.random.default_rng(5)
    families = 150
    wrong = sum(
        any(pair.better for pair in compare_pairs(rng.exponential(20, (4, 30)))) for _ in range(families)
    )
    assert wrong / families < 0.05 + 3 * np.sqrt(0.05 * 0.95 / families)


def test_a_clear_difference_is_found_in_either_direction():
    rng = np.random.default_rng(0)
    values = rng.normal([[0.0], [2.0]], 1, (2, 40))
    (pair,) = compare_pairs(values)
    assert pair.better == "a"
    assert compare_pairs(values, lower_is_better=False)[0].better == "b"
    (swapped,) = compare_pairs(values[::-1])
    assert swapped.better == "b"
    assert swapped.difference == pytest.approx(-pair.difference)
    assert swapped.rank_biserial == pytest.approx(-pair.rank_biserial)
    assert swapped.p_a_better == pytest.approx(1 - pair.p_a_better)
    assert swapped.p == pytest.approx(pair.p)


def test_the_common_start_is_used():
    # A small gain in every trial shows, although trials differ far more from one another.
    start = np.random.default_rng(0).exponential(50, 30)
    values = np.array([start, start + 1 + 0.1 * np.arange(30) % 3])
    assert compare_pairs(values)[0].better == "a"


def test_failed_trials_do_not_count_on_either_side():
    values = np.array([[1.0, np.nan, 3.0, 4.0, 9.0], [2.0, 1.0, np.nan, 5.0, 1.0]])
    (pair,) = compare_pairs(values)
    assert pair.trials == 3
    assert pair.difference == pytest.approx((-1 - 1 + 8) / 3)
    assert pair.p_a_better == pytest.approx(2 / 3)


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_without_an_answer_only_order_counts(lower_is_better):
    answered = np.arange(30.0) + 3
    never = np.full(30, np.inf)
    (pair,) = compare_pairs(np.array([answered, never]), lower_is_better)
    assert np.isnan([pair.difference, pair.low, pair.high]).all()
    assert (pair.test, pair.better, pair.p_a_better, pair.rank_biserial) == ("signed-rank", "a", 1.0, 1.0)
    (tie,) = compare_pairs(np.array([never, never]), lower_is_better)
    assert (tie.better, tie.p_a_better, tie.p) == ("", 0.5, 1.0)


def test_a_few_unanswered_trials_make_no_difference_by_themselves():
    rng = np.random.default_rng(0)
    values = rng.exponential(20, (2, 60))
    values[0, :3] = np.inf
    assert compare_pairs(values)[0].better == ""


def test_nothing_to_compare():
    assert compare_pairs(np.ones((1, 5))) == []
    (pair,) = compare_pairs(np.full((2, 4), np.nan))
    assert (pair.trials, pair.better) == (0, "")
    assert np.isnan([pair.p, pair.p_holm, pair.p_a_better]).all()
    (same,) = compare_pairs(np.full((2, 20), 7.0))
    assert (same.difference, same.low, same.high, same.p, same.better) == (0.0, 0.0, 0.0, 1.0, "")
    with pytest.raises(InputError, match="shape"):
        compare_pairs(np.ones(5))


def test_rounding_does_not_change_a_p_value():
    # In floating point 0.1 + 0.2 is above 0.3: a flip that reaches the observed sum must count.
    tenths = np.array([[1.0, 2.0, -3.0, 4.0], [1.0, 2.0, 3.0, 6.0], [7.0, 1.0, -2.0, 4.0]])
    np.testing.assert_array_equal(sign_flips(tenths / 10), sign_flips(tenths))
    np.testing.assert_array_equal(sign_flips(tenths / 10), [naive_sign_flip_p(d) for d in tenths])


def test_a_p_value_does_not_depend_on_the_unit():
    d = np.random.default_rng(0).normal(0.3, 1.0, (4, 9))
    np.testing.assert_array_equal(sign_flips(1e-12 * d), sign_flips(d))
    np.testing.assert_array_equal(sign_flips(1e12 * d), sign_flips(d))


def test_a_p_value_just_at_the_level_shows_nothing():
    """Two trials that agree have p = 2 / 4."""
    values = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert [compare_pairs(values, confidence=c)[0].better for c in (0.5, 0.499)] == ["", "a"]


def test_further_flips_are_others():
    d = np.random.default_rng(0).normal(0.3, 1.0, 40)
    first, both = (sign_flips(np.tile(d, (pairs, 1)))[0] for pairs in (1, 150))
    as_far = round(first * 10_000 - 1), round(both * 19_999 - 1)
    assert as_far[0] > 100 and as_far[1] != 2 * as_far[0]


def test_all_flips_up_to_13_trials_and_random_ones_beyond():
    d = np.random.default_rng(0).normal(0.3, 1.0, (2, 14))
    exact = sign_flips(d[:, :13]) * 2**13
    np.testing.assert_array_equal(exact, np.round(exact))
    assert exact[0] == naive_sign_flip_p(d[0, :13]) * 2**13
    drawn = sign_flips(d) * 10_000
    np.testing.assert_allclose(drawn, np.round(drawn), atol=1e-9)
    assert not np.array_equal(sign_flips(d), sign_flips(d, seed=1))


@pytest.mark.parametrize(("pairs", "flips"), [(1, 9_999), (99, 9_999), (100, 19_998), (250, 29_997)])
def test_many_pairs_get_more_flips(pairs, flips):
    # No random flip reaches a sum to which all of 40 trials contribute, so that p is the least there is.
    np.testing.assert_allclose(sign_flips(np.ones((pairs, 40))), 1 / (flips + 1), rtol=1e-12)


def test_signed_ranks_are_exact_up_to_ten_trials():
    gains = np.random.default_rng(2).normal(0.4, 1.0, (1, 11))
    assert signed_rank(gains[:, :10])[0] == pytest.approx(
        stats.wilcoxon(gains[0, :10], method="exact").pvalue
    )
    assert signed_rank(gains)[0] == pytest.approx(stats.wilcoxon(gains[0], method="asymptotic").pvalue)
    assert signed_rank(gains[:, :1])[0] == 1.0


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_each_pair_is_what_its_parts_say(lower_is_better):
    rng = np.random.default_rng(7)
    values = rng.exponential(10, (4, 24)) + np.array([[0.0], [1.0], [6.0], [0.0]])
    values[1, 3] = np.nan
    values[3, :4] = np.inf
    found = compare_pairs(values, lower_is_better, confidence=0.9)
    for pair, expected in zip(found, holm(np.array([p.p for p in found])), strict=True):
        a, b = values[pair.a], values[pair.b]
        ran = ~np.isnan(a) & ~np.isnan(b)
        a, b = a[ran], b[ran]
        # Where nobody failed the score decides; a failure is always worse.
        sign = np.where(np.isinf(a) | np.isinf(b) | lower_is_better, 1.0, -1.0)
        gains = (sign * (b - a))[None]
        assert pair.trials == len(a)
        assert pair.rank_biserial == rank_biserial(gains)[0]
        assert pair.p_a_better == (gains > 0).mean()
        assert pair.p_holm == expected
        share = [np.array([x]) for x in (pair.p_a_better, pair.trials)]
        assert (pair.p_low, pair.p_high) == tuple(float(x[0]) for x in wilson_interval(*share, 0.9))
        better = ""
        if np.isinf(gains).any():
            assert pair.test == "signed-rank"
            assert pair.p == signed_rank(gains)[0]
            assert np.isnan([pair.difference, pair.low, pair.high]).all()
            low, high = pair.p_low - 0.5, pair.p_high - 0.5
        else:
            assert pair.test == "permutation"
            assert pair.difference == pytest.approx((a - b).mean(), rel=1e-12)
            limits = mean_intervals((a - b)[:, None], 0.9)
            assert [pair.low, pair.high] == pytest.approx([limit[0] for limit in limits], rel=1e-12)
            low, high = (-pair.high, -pair.low) if lower_is_better else (pair.low, pair.high)
        if expected < 0.1:
            better = "a" if low > 0 else "b" if high < 0 else ""
        assert pair.better == better
    assert {p.better for p in found} >= {"", "a" if lower_is_better else "b"}


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_a_method_that_never_gets_there_is_worse_in_either_order(lower_is_better):
    never, answered = np.full(20, np.inf), np.arange(20.0)
    (pair,) = compare_pairs(np.array([never, answered]), lower_is_better)
    assert (pair.better, pair.p_a_better, pair.rank_biserial) == ("b", 0.0, -1.0)
    both = np.where(np.arange(20) < 10, np.inf, answered)
    (pair,) = compare_pairs(np.array([both, answered]), lower_is_better)
    assert (pair.p_a_better, pair.trials) == (0.25, 20)  # ten trials lost, ten tied


@pytest.mark.parametrize("lines", [1, 777, 9_998, 9_999])
def test_flips_of_many_trials_are_drawn_in_parts_and_are_the_same(monkeypatch, lines):
    differences = np.random.default_rng(3).normal(0.2, size=(3, 40))
    whole = sign_flips(differences)
    monkeypatch.setattr(intervals, "MAX_PART", 40 * lines)
    np.testing.assert_array_equal(sign_flips(differences), whole)


def test_values_that_differ_by_rounding_errors_tie():
    first, second = [0.1 + 0.2, 0.3, np.inf, 0.7], [0.3, 0.1 + 0.2, np.inf, 0.8 - 0.1]
    (ragged,) = compare_pairs(np.array([first, second]))
    (exact,) = compare_pairs(np.array([[0.3, 0.3, np.inf, 0.7], [0.3, 0.3, np.inf, 0.7]]))
    assert (ragged.p_a_better, ragged.rank_biserial, ragged.p) == (0.5, 0.0, 1.0)
    assert repr(ragged) == repr(exact)  # NaN differs from itself
    (finite,) = compare_pairs(np.array([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]]))
    assert (finite.difference, finite.p_a_better, finite.better) == (0.0, 0.5, "")
