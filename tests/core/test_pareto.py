from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError


def naive_front(losses):
    rows = [(i, row) for i, row in enumerate(losses.tolist()) if not any(math.isnan(x) for x in row)]

    def dominates(a, b):
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    return [i for i, row in rows if not any(dominates(other, row) for _, other in rows)]


def tables(cells):
    shapes = st.tuples(st.integers(0, 25), st.integers(1, 4))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=cells))


@settings(max_examples=300, deadline=None)
@given(tables(st.sampled_from([math.nan, -2.0, -0.0, 0.0, 1.0, 2.0, 3.0])))
def test_front_with_ties_and_missing_values(losses):
    assert pareto_front(losses).tolist() == naive_front(losses)


@settings(max_examples=100, deadline=None)
@given(tables(st.floats(-1e6, 1e6)))
def test_front_of_any_finite_losses(losses):
    assert pareto_front(losses).tolist() == naive_front(losses)


@settings(max_examples=100, deadline=None)
@given(tables(st.sampled_from([-math.inf, 0.0, 1.0, math.inf])))
def test_front_with_infinite_losses(losses):
    assert pareto_front(losses).tolist() == naive_front(losses)


@pytest.mark.parametrize("n_objectives", [2, 3, 4])
def test_front_of_many_rows_agrees_with_pymoo(n_objectives):
    losses = np.random.default_rng(n_objectives).normal(size=(400, n_objectives))
    expected = NonDominatedSorting().do(losses, only_non_dominated_front=True)
    assert pareto_front(losses).tolist() == sorted(expected.tolist())


def dominated(losses):
    """By the definition, row after row."""
    return [
        i for i, row in enumerate(losses) if ((losses <= row).all(axis=1) & (losses < row).any(axis=1)).any()
    ]


@pytest.mark.parametrize("n_objectives", [2, 3, 4, 5])
@pytest.mark.parametrize("values", [3, 30, 10**9])
def test_front_of_many_rows_with_ties_and_missing_values(n_objectives, values):
    rng = np.random.default_rng(values + n_objectives)
    losses = rng.integers(values, size=(1500, n_objectives)).astype(float)
    losses[rng.random(losses.shape) < 0.02] = math.nan
    missing = np.isnan(losses).any(axis=1)
    kept = np.flatnonzero(~missing)
    expected = np.delete(kept, dominated(losses[kept]))
    np.testing.assert_array_equal(pareto_front(losses), expected)


@pytest.mark.parametrize("n_objectives", [3, 4])
def test_every_row_on_the_front(n_objectives):
    losses = np.random.default_rng(0).dirichlet(np.ones(n_objectives), size=2000)
    losses[1::2] = losses[::2]  # each is there twice
    assert len(dominated(losses)) == 0
    np.testing.assert_array_equal(pareto_front(losses), np.arange(2000))


@pytest.mark.parametrize("n_objectives", [1, 2, 3])
def test_no_complete_row_no_front(n_objectives):
    for n_rows in (0, 3):
        front = pareto_front(np.full((n_rows, n_objectives), np.nan))
        assert front.shape == (0,)
        assert front.dtype == np.int64


def test_losses_may_be_a_list_and_must_be_a_table():
    assert pareto_front([[1, 2], [2, 1], [2, 2]]).tolist() == [0, 1]
    with pytest.raises(InputError, match=r"losses must have shape \(rows, losses per row\), not \(2,\)"):
        pareto_front([1.0, 2.0])


def test_rows_with_equal_losses_are_on_the_front_together():
    losses = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [1.0, 3.0], [np.nan, 0.0]])
    assert pareto_front(losses).tolist() == [0, 1, 2]
