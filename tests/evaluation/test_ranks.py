from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.ranks import _groups, rank_test, rounded


def scores(n_tables, k, seed=0, ties=False):
    values = np.random.default_rng(seed).normal(size=(n_tables, k)) + np.linspace(0, 2, k)
    return np.round(values) if ties else values


@pytest.mark.parametrize(("n_tables", "k"), [(6, 7), (6, 5), (12, 4), (2, 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_friedman_by_hand(n_tables, k, ties):
    values = scores(n_tables, k, ties=ties)
    test = rank_test(values)
    ranks = np.array(
        [[sum(w < v for w in row) + (sum(w == v for w in row) + 1) / 2 for v in row] for row in values]
    )
    np.testing.assert_allclose(test.mean_ranks, ranks.mean(axis=0))
    # Conover's form of the statistic, which holds with ties.
    between = n_tables * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    within = ((ranks - (k + 1) / 2) ** 2).sum() / (n_tables * (k - 1))
    assert test.statistic == pytest.approx(between / within)
    assert test.p == pytest.approx(stats.chi2.sf(between / within, k - 1))
    assert test.n_tables == n_tables


@pytest.mark.parametrize(("n_tables", "k"), [(6, 7), (6, 5), (10, 12)])
def test_nemenyi_is_that_of_scikit_posthocs(n_tables, k):
    posthocs = pytest.importorskip("scikit_posthocs")
    values = scores(n_tables, k, seed=k)
    expected = posthocs.posthoc_nemenyi_friedman(pd.DataFrame(values)).to_numpy()
    np.testing.assert_allclose(rank_test(values).pairwise_p, expected, atol=1e-6)


# Demsar (2006), Table 5a: q for 0.05, to be multiplied by sqrt(k (k + 1) / (6 N)).
@pytest.mark.parametrize(
    ("k", "q"),
    [(3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_critical_differences_are_those_in_demsars_table(k, q):
    test = rank_test(scores(6, k))
    assert test.critical_difference == pytest.approx(q * np.sqrt(k * (k + 1) / 36), rel=3e-4)


@pytest.mark.parametrize("seed", range(8))
def test_a_pair_differs_where_its_p_says_so_and_no_group_joins_it(seed):
    values = scores(8, 6, seed) + np.linspace(0, 4, 6)
    test = rank_test(values)
    apart = np.abs(test.mean_ranks[:, None] - test.mean_ranks) > test.critical_difference
    np.testing.assert_array_equal(apart, test.pairwise_p < 0.05)
    joined = {frozenset(pair) for group in test.groups for pair in itertools.combinations(group, 2)}
    for a, b in itertools.combinations(range(6), 2):
        assert (frozenset((a, b)) in joined) == (not apart[a, b])
    for one, other in itertools.permutations(test.groups, 2):
        assert not set(one) <= set(other)
    for group in test.groups:
        assert (np.diff(test.mean_ranks[list(group)]) >= 0).all()


@pytest.mark.parametrize("k", range(3, 17))
def test_two_tables_can_show_nothing_and_six_can(k):
    ideal = np.arange(k, dtype=float)
    assert not rank_test(np.tile(ideal, (2, 1))).can_show
    test = rank_test(np.tile(ideal, (6, 1)))
    assert test.can_show and test.mean_ranks[-1] - test.mean_ranks[0] > test.critical_difference


def test_all_are_one_group_where_friedmans_test_finds_nothing():
    values = np.random.default_rng(15).normal(size=(6, 7)) + np.linspace(0, 1.1, 7)
    test = rank_test(values)
    assert test.p > 0.05
    assert np.ptp(test.mean_ranks) > test.critical_difference  # Nemenyi's alone would tell two apart
    assert [sorted(group) for group in test.groups] == [list(range(7))]


def test_direction():
    values = scores(6, 5)
    np.testing.assert_array_equal(
        rank_test(values, lower_is_better=False).mean_ranks, rank_test(-values).mean_ranks
    )


def test_equal_methods_are_one_group():
    test = rank_test(np.ones((6, 4)))
    assert (test.statistic, test.p) == (0.0, 1.0)
    assert test.groups == ((0, 1, 2, 3),)
    assert (test.pairwise_p > 0.99).all()
    assert (test.pairwise_p <= 1.0).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((6, 2)), r"three or more methods, not 2\. Compare the two in pairs\.$"),
        (np.ones((6, 1)), r"three or more methods, not 1\.$"),
        (np.ones((1, 5)), "two or more tables, not 1"),
        (np.array([[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]]), "every method on every table"),
        (np.array([[1.0, 2.0, np.inf], [1.0, 2.0, 3.0]]), "every method on every table"),
    ],
)
def test_what_cannot_be_ranked_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        rank_test(values)


def test_scores_may_be_unsigned_integers():
    values = np.array([[1, 2, 3], [0, 5, 4], [2, 1, 3]], dtype=np.uint8)
    test = rank_test(values, lower_is_better=False)
    np.testing.assert_array_equal(test.mean_ranks, [8 / 3, 2.0, 4 / 3])


def test_methods_far_apart_have_a_probability_of_nothing_else():
    test = rank_test(np.tile(np.arange(30.0), (40, 1)))
    assert ((test.pairwise_p >= 0.0) & (test.pairwise_p <= 1.0)).all()
    np.testing.assert_array_equal(test.pairwise_p, test.pairwise_p.T)
    np.testing.assert_array_equal(np.diag(test.pairwise_p), 1.0)


@pytest.mark.parametrize(
    ("mean_ranks", "critical", "groups"),
    [
        ([1.0, 2.0, 3.0], 1.0, ((0, 1), (1, 2))),  # exactly as far apart as the critical difference
        ([3.0, 1.0, 2.0], 0.5, ()),  # one method is no group
        ([4.0, 1.0, 1.5, 3.75], 0.5, ((1, 2), (3, 0))),
        ([1.0, 1.25, 1.5, 5.0], 2.0, ((0, 1, 2),)),  # its parts are not listed again
        ([1.0, 2.0], 1.0, ((0, 1),)),
        ([1.0, 5.0, 5.5], 1.0, ((1, 2),)),
        ([1.0, 2.0] * 20, 0.0, (tuple(range(0, 40, 2)), tuple(range(1, 40, 2)))),  # ties in their order
    ],
)
def test_groups_by_hand(mean_ranks, critical, groups):
    assert _groups(np.array(mean_ranks), critical) == groups


def test_values_that_differ_by_rounding_errors_tie():
    ragged = np.array([[0.1 + 0.2, 0.3, 0.5], [0.3, 0.1 + 0.2, 0.1], [1e9, 1e9 + 1e-6, 3.0]])
    exact = np.array([[0.3, 0.3, 0.5], [0.3, 0.3, 0.1], [1e9, 1e9, 3.0]])
    for lower in (True, False):
        found, expected = rank_test(ragged, lower), rank_test(exact, lower)
        np.testing.assert_array_equal(found.mean_ranks, expected.mean_ranks)
        assert found.p == expected.p
    near = np.array([1.0, 1.0 + 1e-11, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(rounded(near), near)
