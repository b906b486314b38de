"""Solutions by compiled loops against LAPACK's."""

import numpy as np
import pytest

from hpobench_nmt.methods.surrogates.cholesky import inverse, product, whitened


@pytest.mark.parametrize("n", [1, 5, 32, 33, 100, 1100])  # around the sizes of panels and tiles
def test_whole_matrices_as_by_lapack(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    matrix, columns = root @ root.T + n * np.eye(n), rng.normal(size=(n, 7))
    expected = np.linalg.solve(np.linalg.cholesky(matrix), columns)
    np.testing.assert_allclose(whitened(matrix, columns), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(product(columns, root), columns.T @ root, rtol=1e-9, atol=1e-9)
    found = inverse(matrix)
    np.testing.assert_allclose(found, np.linalg.inv(matrix), rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)
