"""The graph of rows that are few grid steps apart, against pairs found one by one."""

import dataclasses
import itertools

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods import graph_based
from hpobench_nmt.methods.graph_based import GB_EIF_M, GB_M, graph_prior
from hpobench_nmt.methods.graphs.graph import pairs_within
from hpobench_nmt.methods.kernels import matern52

SPACE = Space(
    (
        Hyperparameter("rate", (0.001, 0.1, 1.0, 3.0), "log"),
        Hyperparameter("size", ("s", "m", "l"), kind="ordinal"),
        Hyperparameter("cell", ("lstm", "gru", "rhn"), kind="categorical"),
    )
)


def problem_of(n_rows=30):
    rng = np.random.default_rng(0)
    every = [[r, s, c] for r in (0.001, 0.1, 1.0, 3.0) for s in range(3) for c in range(3)]
    codes = np.array(every, dtype=float)[rng.permutation(len(every))[:n_rows]]
    return Problem(SPACE.features(codes), 1, n_rows, 3, SPACE, codes)


def steps_between(a, b):
    rates = [0.001, 0.1, 1.0, 3.0]
    return abs(rates.index(a[0]) - rates.index(b[0])) + abs(a[1] - b[1]) + (a[2] != b[2])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_pairs_are_those_found_one_by_one(steps):
    problem = problem_of()
    rows = itertools.combinations(range(30), 2)
    expected = [[i, j] for i, j in rows if steps_between(problem.configs[i], problem.configs[j]) <= steps]
    assert pairs_within(problem, steps).tolist() == expected


def test_no_row_may_have_a_neighbour():
    features = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    assert pairs_within(Problem(features, 1, 3, 1), 1).tolist() == []


def naive_covariance(problem, steps):
    n = len(problem.features)
    weights = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        if steps_between(problem.configs[i], problem.configs[j]) <= steps:
            weights[i, j] = matern52(problem.features[[i]], problem.features[[j]])[0, 0]
    return np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + np.eye(n) / 1e6)


def centred(values):
    """What is left of a row of K without its mean, which is near sigma^2 / N for every graph."""
    return values - values.mean()


def test_the_prior_as_its_naive_twin_dense_and_sparse(monkeypatch):
    problem = problem_of()
    expected = centred(naive_covariance(problem, 2)[4])
    dense = graph_prior(problem, matern52, 20, 1.0, 2)
    np.testing.assert_allclose(centred(dense.row(4)), expected, atol=1e-5)
    assert np.abs(expected).max() > 0.1
    assert not np.allclose(centred(graph_prior(problem, matern52, 20).row(4)), expected, atol=1e-2)
    monkeypatch.setattr(graph_based, "MAX_DENSE_ROWS", 10)
    graph_prior.cache_clear()
    sparse = graph_prior(problem, matern52, 20, 1.0, 2)
    graph_prior.cache_clear()
    np.testing.assert_allclose(centred(sparse.row(4)), expected, atol=1e-5)


def test_settings():
    assert dataclasses.replace(GB_EIF_M, steps=2, name="").name.endswith("steps2")
    problem = problem_of()
    surrogate = dataclasses.replace(GB_M, steps=2).surrogate(problem)
    np.testing.assert_array_equal(surrogate.prior.row(3), graph_prior(problem, matern52, 20, 1.0, 2).row(3))
    with pytest.raises(InputError, match="steps must be 0 or more"):
        dataclasses.replace(GB_M, steps=-1)
    with pytest.raises(InputError, match="set neighbours or steps"):
        dataclasses.replace(GB_M, steps=2, neighbours=5)
