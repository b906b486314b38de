from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from hpobench_nmt.methods import kernels as kernels_module
from hpobench_nmt.methods.kernels import DensePrior, KernelPrior, matern52, rbf


def matern52_in_closed_form(distance):
    return (1.0 + np.sqrt(5.0) * distance + 5.0 / 3.0 * distance**2) * np.exp(-np.sqrt(5.0) * distance)


def rbf_in_closed_form(distance):
    return np.exp(-0.5 * distance**2)


KERNELS = pytest.mark.parametrize(
    ("kernel", "closed_form"), [(matern52, matern52_in_closed_form), (rbf, rbf_in_closed_form)]
)


def distances(a, b):
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))


@KERNELS
@pytest.mark.parametrize("n_features", [1, 2, 6])
def test_kernel_is_the_closed_form(kernel, closed_form, n_features):
    rng = np.random.default_rng(n_features)
    a, b = rng.uniform(size=(7, n_features)), rng.uniform(size=(11, n_features))
    assert kernel(a, b).shape == (7, 11)
    np.testing.assert_allclose(kernel(a, b), closed_form(distances(a, b)), rtol=1e-12)


@KERNELS
def test_prior_rows_are_those_of_the_covariance_matrix(kernel, closed_form):
    features = np.random.default_rng(0).uniform(size=(50, 3))
    prior = KernelPrior(kernel, features)
    expected = closed_form(distances(features, features))
    np.testing.assert_allclose(prior.diagonal, np.ones(50), rtol=1e-14)
    for _ in range(2):  # computed, then remembered
        for i in range(50):
            np.testing.assert_allclose(prior.row(i), expected[i], rtol=1e-12)


def test_prior_of_a_kernel_of_ones_own():
    """One whose variance differs from row to row, in more rows than a block holds."""
    features = np.random.default_rng(3).uniform(size=(70, 2))
    prior = KernelPrior(lambda a, b: a @ b.T, features)
    np.testing.assert_allclose(prior.diagonal, (features**2).sum(axis=1))
    np.testing.assert_allclose(prior.row(69), features @ features[69])


@pytest.mark.parametrize("kernel", [matern52, rbf])
def test_kernels_of_our_own_are_georges_to_the_last_bit(kernel, monkeypatch):
    pytest.importorskip("george", reason="it has no wheel for this Python")
    rng = np.random.default_rng(4)
    pairs = []
    for n_features in range(1, 25):
        for scale in (1e-3, 0.1, 1.0, 30.0, 1e3):
            a, b = rng.uniform(size=(20, n_features)), rng.uniform(size=(200, n_features))
            b[:20] = a
            pairs.append((scale * a, scale * np.asfortranarray(b)))
    expected = [kernel(a, b) for a, b in pairs]
    monkeypatch.setattr(kernels_module, "_george", lambda: None)
    for (a, b), values in zip(pairs, expected, strict=True):
        np.testing.assert_array_equal(kernel(a, b), values)


@KERNELS
def test_kernels_of_our_own_are_the_closed_forms(kernel, closed_form, monkeypatch):
    monkeypatch.setattr(kernels_module, "_george", lambda: None)
    features = np.random.default_rng(5).uniform(size=(30, 4))
    expected = closed_form(distances(features, features))
    np.testing.assert_allclose(kernel(features, features), expected, rtol=1e-12)


def test_features_in_any_memory_order_will_do():
    features = np.random.default_rng(1).uniform(size=(3, 20)).T
    assert not features.flags.c_contiguous
    expected = matern52_in_closed_form(distances(features, features))
    np.testing.assert_allclose(KernelPrior(matern52, features).row(4), expected[4], rtol=1e-12)


def test_prior_over_a_huge_table_keeps_a_bounded_number_of_rows():
    n_rows = 100_000
    features = np.random.default_rng(2).uniform(size=(n_rows, 3))
    prior = KernelPrior(rbf, features)
    tracemalloc.start()
    try:
        for i in range(200):
            row = prior.row(i)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 200 rows are 160 MB, and the whole of K 80 GB.
    assert peak < 100e6
    for i in (0, 199):
        expected = rbf_in_closed_form(distances(features[i : i + 1], features))[0]
        np.testing.assert_allclose(prior.row(i), expected, rtol=1e-12)
    assert row.shape == (n_rows,)


def test_rows_are_computed_once_until_no_more_fit(monkeypatch):
    computed = []

    def counted(a, b):
        computed.append(len(a))
        return rbf(a, b)

    # Three rows of 10 doubles fit, and a quarter of a fourth.
    monkeypatch.setattr(kernels_module, "_ROW_CACHE_BYTES", 3 * 80 + 20)
    prior = KernelPrior(counted, np.linspace(0.0, 1.0, 10)[:, None])
    assert computed == [10]  # the diagonal
    first = [prior.row(i) for i in range(5)]
    again = [prior.row(i) for i in range(5)]
    assert computed[1:] == [1] * (5 + 2)
    np.testing.assert_array_equal(first, again)


def test_dense_prior_gives_its_matrix():
    covariance = np.array([[2.0, 0.5], [0.5, 3.0]])
    prior = DensePrior(covariance)
    np.testing.assert_array_equal(prior.diagonal, [2.0, 3.0])
    np.testing.assert_array_equal(prior.row(1), [0.5, 3.0])
