"""Covariance functions over scaled features, and the priors that they define over a table's rows.

Both covariance functions are george's. Without george, which lacks wheels for some platforms, loops in this
module compute the same values to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.core.system.errors import InputError

Kernel = Callable[[Floats, Floats], Floats]

# The standard deviation of the observation noise of Gaussian processes.
NOISE_SD = 1e-3
# The most memory, in bytes, for rows of K that a prior keeps. It is enough for all rows of a table of up to
# about 2,800 rows.
_ROW_CACHE_BYTES = 64 * 2**20
_BLOCK = 32


@cache
def _george() -> Any:
    """George's kernels, None without george. It imports much of SciPy, so it is imported when it is used."""
    try:
        from george import kernels
    except ImportError:
        return None
    return kernels


def matern52(a: Floats, b: Floats) -> Floats:
    """Matern-5/2 covariance with amplitude and length scale 1, shapes (n, H), (N, H) -> (n, N)."""
    if _george() is None:
        return _matern52(*_rows(a, b))
    return np.asarray(_george().Matern52Kernel(1.0, ndim=a.shape[1]).get_value(a, b))


def rbf(a: Floats, b: Floats) -> Floats:
    """Squared-exponential covariance with amplitude and length scale 1, shapes (n, H), (N, H) -> (n, N)."""
    if _george() is None:
        return _rbf(*_rows(a, b))
    return np.asarray(_george().ExpSquaredKernel(1.0, ndim=a.shape[1]).get_value(a, b))


def _rows(*arrays: Floats) -> list[Floats]:
    """The arrays in one memory order and type, so that the loops are compiled only once."""
    return [np.ascontiguousarray(each, dtype=np.float64) for each in arrays]


@compiled()
def _squared_distance(a: Floats, b: Floats) -> float:
    total = 0.0
    for i in range(len(a)):
        difference = a[i] - b[i]
        total += difference * difference
    return total


@compiled()
def _matern52(a: Floats, b: Floats) -> Floats:
    values = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            squared = _squared_distance(a[i], b[j])
            r = math.sqrt(5.0 * squared)
            values[i, j] = (1.0 + r + 5.0 * squared / 3.0) * math.exp(-r)
    return values


@compiled()
def _rbf(a: Floats, b: Floats) -> Floats:
    values = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            values[i, j] = math.exp(-0.5 * _squared_distance(a[i], b[j]))
    return values


def check_length_scale(value: float) -> None:
    """Refuse a length scale that features cannot be divided by."""
    if not 1e-6 <= value <= 1e6:
        raise InputError(f"length_scale must be from 1e-6 to 1e6, not {value:g}.")


class KernelPrior:
    """A kernel's covariance over N rows of features, one row of K at a time; K is never stored whole."""

    def __init__(self, kernel: Kernel, features: Floats) -> None:
        self._kernel = kernel
        self._features = np.ascontiguousarray(features)
        self._rows: dict[int, Floats] = {}
        self._max_rows = _ROW_CACHE_BYTES // (8 * len(features))
        self.diagonal: Floats = np.ones(len(features))
        if kernel not in (matern52, rbf):
            # In small blocks, so that few unneeded elements off the diagonal are computed.
            for i in range(0, len(features), _BLOCK):
                block = self._features[i : i + _BLOCK]
                self.diagonal[i : i + _BLOCK] = kernel(block, block).diagonal()

    def row(self, i: int) -> Floats:
        """K[i], shape (N,)."""
        found = self._rows.get(i)
        if found is None:
            found = self._kernel(self._features[i : i + 1], self._features)[0]
            if len(self._rows) < self._max_rows:
                self._rows[i] = found
        return found


@lru_cache(maxsize=8)
def kernel_prior(problem: Problem, kernel: Kernel, length_scale: float = 1.0) -> KernelPrior:
    """The kernel's prior over the problem's rows, shared by its trials."""
    return KernelPrior(kernel, problem.features / length_scale)


class DensePrior:
    """A covariance matrix that is stored whole, shape (N, N)."""

    def __init__(self, covariance: Floats) -> None:
        self._covariance = covariance
        self.diagonal: Floats = covariance.diagonal().copy()

    def row(self, i: int) -> Floats:
        """K[i], shape (N,)."""
        return np.asarray(self._covariance[i])
