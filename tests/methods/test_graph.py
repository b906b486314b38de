from __future__ import annotations

import itertools

import numpy as np
import pytest

from hpobench_nmt.methods.graphs import graph as graph_module
from hpobench_nmt.methods.graphs.graph import graph_covariance, graph_laplacian, neighbours_for
from hpobench_nmt.methods.kernels import DensePrior, matern52, rbf
from hpobench_nmt.methods.surrogates.posterior import Posterior

KERNELS = pytest.mark.parametrize("kernel", [matern52, rbf])


def scattered(seed, n_rows=80):
    return np.random.default_rng(seed).uniform(size=(n_rows, 3))


def grid(*sizes):
    return np.array(list(itertools.product(*[np.linspace(0.0, 1.0, n) for n in sizes])))


def naive_laplacian(features, kernel, n_neighbours):
    """Row by row: everything no further away than the last neighbour, in either direction."""
    n_rows = len(features)
    weights = np.zeros((n_rows, n_rows))
    for i in range(n_rows):
        squared = np.round(((features[i] - features) ** 2).sum(axis=1), 9)
        radius = np.sort(np.delete(squared, i))[min(n_neighbours, n_rows - 1) - 1]
        near = (squared <= radius) & (np.arange(n_rows) != i)
        weights[i, near] = weights[near, i] = kernel(features[[i]], features)[0, near]
    return np.diag(weights.sum(axis=1)) - weights


@KERNELS
@pytest.mark.parametrize("n_neighbours", [1, 5, 10, 20, 200])
@pytest.mark.parametrize(
    "features",
    [scattered(0), grid(4, 4, 4), np.repeat(grid(5, 4), 2, axis=0)],
    ids=["scattered", "grid", "twins"],
)
def test_laplacian_is_that_of_the_nearest_neighbour_graph(features, n_neighbours, kernel):
    laplacian = graph_laplacian(features, kernel, n_neighbours)
    np.testing.assert_array_equal(laplacian, laplacian.T)
    np.testing.assert_allclose(laplacian.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(laplacian, naive_laplacian(features, kernel, n_neighbours), atol=1e-12)
    degrees = ((laplacian != 0.0) & ~np.eye(len(features), dtype=bool)).sum(axis=1)
    assert degrees.min() >= min(n_neighbours, len(features) - 1)


@pytest.mark.parametrize("side", [4, 5, 8])
def test_rows_that_tie_with_the_last_neighbour_are_neighbours(side):
    laplacian = graph_laplacian(grid(side, side), rbf, n_neighbours=1)
    steps = np.abs(np.subtract.outer(np.arange(side), np.arange(side)))
    cityblock = steps[:, None, :, None] + steps[None, :, None, :]
    joined = (cityblock == 1).reshape(side**2, side**2)
    np.testing.assert_array_equal(laplacian < 0.0, joined)
    np.testing.assert_allclose(laplacian[joined], -np.exp(-0.5 / (side - 1) ** 2), rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("features", [scattered(1), grid(4, 4, 4)], ids=["scattered", "grid"])
def test_laplacian_does_not_depend_on_the_order_of_rows(features, seed):
    order = np.random.default_rng(seed).permutation(len(features))
    plain = graph_laplacian(features, matern52, 10)
    np.testing.assert_allclose(
        graph_laplacian(features[order], matern52, 10), plain[np.ix_(order, order)], atol=1e-13
    )


def test_default_number_of_neighbours():
    assert [neighbours_for(n) for n in (4, 118, 140, 150, 176, 767)] == [20, 20, 20, 21, 25, 110]
    assert [neighbours_for(n) for n in (16_384, 16_385)] == [2341, 20]
    assert [neighbours_for(n, 2) for n in (4, 176, 16_385)] == [20, 20, 20]


@pytest.mark.parametrize("n_rows", [1, 2])
def test_tiny_tables(n_rows):
    laplacian = graph_laplacian(np.zeros((n_rows, 2)), rbf, 20)
    np.testing.assert_allclose(laplacian, n_rows * np.eye(n_rows) - np.ones((n_rows, n_rows)))
    assert np.isfinite(graph_covariance(laplacian)).all()


def test_too_many_rows_for_a_dense_matrix(monkeypatch):
    with pytest.raises(ValueError, match=r"16,385 rows .*stops at 16,384 rows"):
        graph_laplacian(np.zeros((16_385, 1)), rbf, 20)
    monkeypatch.setattr(graph_module, "MAX_DENSE_ROWS", 30)
    assert graph_laplacian(scattered(0, 30), rbf, 5).shape == (30, 30)


def test_edges_weigh_what_a_kernel_of_ones_own_says():
    features = scattered(4, 30)
    laplacian = graph_laplacian(features, lambda a, b: 1.0 + a @ b.T, 5)
    joined = graph_laplacian(features, rbf, 5) < 0.0
    np.testing.assert_allclose(laplacian[joined], -(1.0 + features @ features.T)[joined])


@pytest.mark.parametrize(("sigma_squared", "beta"), [(1e6, 0.5), (10.0, 0.5), (3.0, 2.0)])
def test_covariance_is_the_inverse_of_the_regularised_laplacian(sigma_squared, beta):
    laplacian = graph_laplacian(scattered(2), matern52, 10)
    covariance = graph_covariance(laplacian, sigma_squared, beta)
    np.testing.assert_array_equal(covariance, covariance.T)
    precision = 2.0 * beta * (laplacian + np.eye(len(laplacian)) / sigma_squared)
    np.testing.assert_allclose(covariance @ precision, np.eye(len(laplacian)), atol=1e-6)


@KERNELS
@pytest.mark.parametrize("beta", [0.5, 3.0])
@pytest.mark.parametrize("features", [scattered(3), grid(5, 5, 3)], ids=["scattered", "grid"])
def test_posterior_is_the_harmonic_labelling(features, beta, kernel):
    n_rows = len(features)
    laplacian = graph_laplacian(features, kernel, 10)
    covariance = graph_covariance(laplacian, beta=beta)
    rng = np.random.default_rng(0)
    order, labels = rng.permutation(n_rows), rng.uniform(size=(n_rows, 1))
    posterior = Posterior(DensePrior(covariance), row_sums=covariance.sum(axis=1))
    for step, row in enumerate(order[:-1], start=1):
        posterior.observe(int(row), labels[row])
        if step % 5 not in (1, 2):
            continue
        seen, unseen = order[:step], np.sort(order[step:])
        green = np.linalg.inv(laplacian[np.ix_(unseen, unseen)])
        harmonic = -green @ laplacian[np.ix_(unseen, seen)] @ labels[seen, 0]
        candidates = posterior.unseen
        np.testing.assert_array_equal(posterior.rows[candidates], unseen)
        # The prior's I / sigma^2 of 1e-6 draws labels a little towards 0.
        np.testing.assert_allclose(posterior.mean[0, candidates], harmonic, rtol=1e-4)
        np.testing.assert_allclose(posterior.var[candidates], np.diag(green) / (2 * beta), rtol=1e-4)
        np.testing.assert_allclose(posterior.row_sums[candidates], green.sum(axis=1) / (2 * beta), rtol=1e-4)
