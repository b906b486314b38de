"""What all methods that search a posterior have in common, on one whose scores are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.methods.any_targets import AnyTargetsPosterior
from hpobench_nmt.methods.kernels import DensePrior
from hpobench_nmt.methods.search import PosteriorSearch, best_of
from hpobench_nmt.methods.surrogates.posterior import Posterior


class Fixed(PosteriorSearch):
    """Scores that are known beforehand; it keeps what it is given."""

    def __init__(self, posterior, values, seed=0):
        super().__init__(posterior, np.random.default_rng(seed))
        self.values, self.given = np.array(values), []

    def scores(self, given):
        self.given.append(given)
        return self.values[self.posterior.rows]


@pytest.fixture(params=[Posterior, AnyTargetsPosterior])
def posterior(request):
    """Six rows, each correlated with all others, without noise."""
    return request.param(DensePrior(0.5 * np.eye(6) + 0.5), noise_sd=0.0)


def told(posterior, *rows, values=(5, 1, 3, 3, 0, 2)):
    method = Fixed(posterior, values)
    for row in rows:
        method.tell(row, np.zeros(1))
    return method


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([-np.inf, -1.0, 0.0, -0.0, 2.0, np.inf, np.nan]), st.booleans()), min_size=1
    ).filter(lambda candidates: any(free and score == score for score, free in candidates))
)
def test_the_best_candidate_is_numpys(candidates):
    scores, free = np.array([c[0] for c in candidates]), np.array([c[1] for c in candidates])
    where = np.flatnonzero(free)
    assert best_of(scores, free) == where[scores[where].argmax()]


def test_nan_for_every_candidate_is_an_error():
    free = np.array([True, False, True])
    with pytest.raises(ValueError, match="NaN for every candidate"):
        best_of(np.array([np.nan, 1.0, np.nan]), free)
    assert best_of(np.array([1.0, 5.0, np.nan]), free) == 2
    assert best_of(np.full(3, -np.inf), free) == 0


def test_the_free_row_of_largest_score_is_next_and_the_first_among_equals(posterior):
    method, rows = told(posterior, 0), []
    while len(rows) < 5:
        rows.append(method.ask())
        method.tell(rows[-1], np.ones(1))
    assert rows == [2, 3, 5, 1, 4]


def test_while_nothing_is_known_rows_are_drawn_from_those_that_are_free(posterior):
    method, drawn = Fixed(posterior, range(6)), np.random.default_rng(0)
    for row in (0, 2):
        method.tell(row, np.array([np.nan]))
    assert method.ask() == drawn.choice([1, 3, 4, 5])
    assert method.suggest({3: 1.0, 5: 1.0}) == drawn.choice([1, 4])
    assert method.suggest({1: 1.0, 3: 1.0, 4: 1.0, 5: 1.0}) is None
    method.tell(4, np.array([np.nan]))
    assert method.ask() == drawn.choice([1, 3, 5])
    method.tell(1, np.zeros(1))
    assert method.ask() == 5
    assert method.count == 1


def test_rows_that_run_are_not_free_and_make_the_variance_smaller(posterior):
    method = told(posterior, 0)
    assert method.suggest({2: 1.0, 5: 1.0}) == 3
    [given] = method.given
    assert given.free.tolist() == [False, True, False, True, True, False]
    # One of n correlated rows explains 1/2 of each other, two 2/3 and three 3/4 of half of the variance.
    np.testing.assert_allclose(given.var[[1, 3, 4]], 1.0 - 0.5 * 0.75, rtol=1e-12)
    assert method.ask() == 2
    np.testing.assert_allclose(method.given[-1].var[1:], 1.0 - 0.5 * 0.5, rtol=1e-12)
    assert method.suggest(dict.fromkeys(range(1, 6), 1.0)) is None


def test_a_row_that_lacks_one_of_its_targets_only_leaves():
    posterior = Posterior(DensePrior(0.5 * np.eye(4) + 0.5), 2)
    method = Fixed(posterior, [4, 3, 2, 1])
    assert method.learn(3, np.array([1.0, 2.0]))
    mean, var = posterior.mean.copy(), posterior.var.copy()
    assert method.suggest({0: 1.0}) == 1
    assert not method.learn(0, np.array([-5.0, np.nan]))
    assert (posterior.mean == mean).all() and (posterior.var == var).all()
    assert method.ask() == 1


def test_a_row_that_others_determine_leaves_too(posterior):
    twins = type(posterior)(DensePrior(np.ones((3, 3))), noise_sd=0.0)
    method = Fixed(twins, [1, 2, 3])
    assert method.learn(0, np.zeros(1))
    assert not method.learn(2, np.zeros(1))
    assert method.ask() == 1
