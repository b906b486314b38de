from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.kernels import DensePrior
from hpobench_nmt.methods.model_based import (
    ModelBased,
    Surrogate,
    _extended,
    _note,
    _scaled,
    range_scaling,
    standard_scaling,
)


@pytest.mark.parametrize("n_objectives", [1, 2, 3])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), levels=st.integers(1, 12))
def test_the_front_grows_by_one_point_at_a_time(n_objectives, seed, levels):
    losses = np.random.default_rng(seed).integers(levels, size=(30, n_objectives)).astype(float)
    front = np.empty((0, n_objectives))
    best, worst = np.full(n_objectives, np.inf), np.full(n_objectives, -np.inf)
    for n, new in enumerate(losses, start=1):
        seen, targets = np.full(n_objectives, -1.0), np.full(n_objectives + 1, -1.0)
        given = front.copy()
        on_the_front = _note(new, front, best, worst, seen, targets)
        extended = _extended(front, new) if on_the_front else front
        assert front.tolist() == given.tolist()
        front = extended
        assert seen.tolist() == new.tolist()
        assert targets.tolist() == [*new, -1.0]
        # Equals are in it once, and those with the same first loss in the order in which they came.
        expected = losses[:n][pareto_front(losses[:n])]
        expected = expected[np.sort(np.unique(expected, axis=0, return_index=True)[1])]
        assert front.tolist() == expected[np.argsort(expected[:, 0], kind="stable")].tolist()
        assert best.tolist() == losses[:n].min(axis=0).tolist()
        assert worst.tolist() == losses[:n].max(axis=0).tolist()


def test_losses_of_which_one_is_missing_are_noted_as_targets_alone():
    arrays = [np.full(shape, 0.5) for shape in ((1, 2), 2, 2, 2, 3)]
    assert not _note(np.array([0.0, np.nan]), *arrays)
    assert all((array == 0.5).all() for array in arrays[:-1])
    assert np.isnan(arrays[-1]).tolist() == [False, True, False]


def test_scaling_leaves_equal_losses_at_zero():
    rng = np.random.default_rng(0)
    mean, front = rng.normal(size=(3, 7)), np.array([[0.0, 5.0]])
    best, worst = np.array([0.0, 5.0]), np.array([2.0, 5.0])
    centre, spread = np.array([1.0, 5.1]), np.array([4.0, 1e-17])
    scaled = _scaled(mean, front, best, worst, centre, spread)
    expected = [(mean[0] - mean[2]) / 4.0, mean[1] - 5.0 * mean[2]]
    np.testing.assert_allclose(scaled[0], expected, rtol=1e-15)
    for found, of_first in zip(scaled[1:], (-0.25, -0.25, 0.25), strict=True):
        np.testing.assert_array_equal(found.ravel(), [of_first, 0.0])
    assert centre.tolist() == [1.0, 5.1]


def method(acquisition, n_rows=6):
    features = np.linspace(0.0, 1.0, n_rows)[:, None]
    problem = Problem(features, 1, n_rows, 1)
    return ModelBased(problem, np.random.default_rng(0), Surrogate(DensePrior(np.eye(n_rows))), acquisition)


@pytest.mark.parametrize(
    "values",
    [
        np.array([9, 1, 3, 3, 0, 2]),
        np.array([9, 1, 3, 3, 0, 2], dtype=np.float32),
        np.array([[9.0, 0.0], [1.0, 0.0], [3.0, 0.0], [3.0, 0.0], [0.0, 0.0], [2.0, 0.0]])[:, 0],
    ],
    ids=["integers", "single precision", "strided"],
)
def test_an_acquisition_may_give_any_numbers(values):
    bo = method(lambda belief: values)
    bo.tell(0, np.array([1.0]))
    assert bo.ask() == 2


@pytest.mark.parametrize("values", [np.zeros(5), np.zeros((6, 1)), 1.0])
def test_an_acquisition_must_give_one_value_per_candidate(values):
    bo = method(lambda belief: values)
    bo.tell(0, np.array([1.0]))
    with pytest.raises(ValueError, match=r"the acquisition gave values of shape .*, not \(6,\)"):
        bo.ask()


def test_a_row_that_lacks_one_of_two_losses_teaches_nothing():
    n_rows = 4
    problem = Problem(np.linspace(0.0, 1.0, n_rows)[:, None], 2, n_rows, 1)
    beliefs = []
    bo = ModelBased(
        problem,
        np.random.default_rng(0),
        Surrogate(DensePrior(np.eye(n_rows))),
        lambda belief: beliefs.append(belief) or belief.mean[0],
    )
    bo.tell(0, np.array([1.0, 2.0]))
    bo.tell(1, np.array([-5.0, np.nan]))
    assert bo.ask() == 2
    assert beliefs[0].front.tolist() == [[1.0, 2.0]]
    assert not beliefs[0].unseen[:2].any()


@pytest.mark.parametrize("losses", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, [np.nan], []])
def test_losses_of_a_wrong_shape_are_refused(losses):
    problem = Problem(np.linspace(0.0, 1.0, 4)[:, None], 2, 4, 1)
    bo = ModelBased(problem, np.random.default_rng(0), Surrogate(DensePrior(np.eye(4))), None)
    with pytest.raises(ValueError, match=r"received losses of shape \(.*\), not \(2,\)"):
        bo.tell(0, np.array(losses))


@pytest.mark.parametrize("lookups", [0, 2, 3])
def test_scaling_is_given_all_losses_seen_and_the_acquisition_what_comes_of_it(lookups):
    """Also of more rows than the problem's look-ups, which a loop of one's own may tell."""
    seen, beliefs = [], []

    def scaling(losses):
        seen.append(losses.tolist())
        return np.array([1.0, 10.0]), np.array([2.0, 5.0])

    def acquisition(belief):
        beliefs.append(belief)
        return np.zeros(5)

    covariance = 0.5 * np.eye(5) + 0.5
    problem = Problem(np.linspace(0.0, 1.0, 5)[:, None], 2, lookups, 1)
    surrogate = Surrogate(DensePrior(covariance), 0.0, scaling, row_sums=covariance.sum(axis=1))
    bo = ModelBased(problem, np.random.default_rng(0), surrogate, acquisition)
    told = [[1.0, 20.0], [np.nan, 0.0], [3.0, 10.0], [5.0, 30.0]]
    for row, losses in enumerate(told):
        bo.tell(row, np.array(losses))
    assert bo.ask() == 4
    complete = [told[0], told[2], told[3]]
    assert seen == [complete]
    belief = beliefs[0]
    assert belief.front.tolist() == [[0.0, 2.0], [1.0, 0.0]]
    assert (belief.best.tolist(), belief.worst.tolist()) == ([0.0, 0.0], [2.0, 4.0])
    rows = [0, 2, 3]
    weights = np.linalg.solve(covariance[np.ix_(rows, rows)], covariance[rows, 4])
    expected = weights @ ((np.array(complete) - [1.0, 10.0]) / [2.0, 5.0])
    np.testing.assert_allclose(belief.mean[:, 4], expected, rtol=1e-12)
    variance = covariance[4, 4] - weights @ covariance[rows, 4]
    np.testing.assert_allclose([belief.var[4], belief.row_sums[4]], variance, rtol=1e-12)


def test_scalings_by_hand():
    seen = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]])
    for scaling, centre, spread in (
        (standard_scaling, [3.0, 20.0], [np.sqrt(8 / 3), np.sqrt(200.0)]),
        (range_scaling, [5.0, 40.0], [4.0, 30.0]),
    ):
        np.testing.assert_allclose(scaling(seen), [centre, spread], rtol=1e-15)
