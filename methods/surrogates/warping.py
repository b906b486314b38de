"""Losses warped so that a Gaussian process can model them: diverged trainings are all equally bad.

symbol   meaning
m        median of the losses
s        root mean square of the distances below m, over the losses below m
u        (y - m) / s
w(u)     u below 0; log(1 + u) above, but at most CAP; CAP for a missing loss

If no loss lies below the median, s is computed from the losses that are at most the median distance away from
it, or is 1. The warp increases with the loss and keeps the differences between good rows. It is bounded,
because with a logarithm alone, a loss of 1e16 among losses near 1 would still be 38 standard deviations away,
and all other losses would look equal.

Compiled functions are written as loops here, because numba takes ten times as long to compile array
expressions.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled

CAP = math.log1p(3.0)


@compiled(error_model="numpy")
def warped(losses: Floats, cap: float = CAP) -> Floats:
    """The losses after the warp, with mean 0 and standard deviation 1 (zeros if all are equal), shape (n,).

    Losses of any size are allowed. NaN and infinite losses count as the worst.
    """
    return warped_and_unit(losses, cap)[0]


@compiled(error_model="numpy")
def warped_and_unit(losses: Floats, cap: float = CAP) -> tuple[Floats, float]:
    """The losses after the warp, and the size, in units of the loss, of one warped unit below the median.

    That size is NaN if all losses are equal.
    """
    n = losses.shape[0]
    quarters, count = np.empty(n), 0  # quarters, so that no difference overflows
    for i in range(n):
        if math.isfinite(losses[i]):
            quarters[count] = losses[i] / 4.0
            count += 1
    middle = _median(quarters, count)
    largest = 0.0
    for i in range(count):
        quarters[i] -= middle
        largest = max(largest, abs(quarters[i]))
    unit, s = np.nan, 1.0
    if largest > 0.0:
        power = 2.0 ** math.frexp(largest)[1]
        for i in range(count):
            quarters[i] /= power  # so that no square overflows or underflows; exact
        s = _scale(quarters, count)
        unit = 4.0 * power * s
    found, place = np.empty(n), 0
    for i in range(n):
        found[i] = cap
        if math.isfinite(losses[i]):
            u = quarters[place] / s
            place += 1
            found[i] = min(math.log1p(u), cap) if u > 0.0 else u
    return _standardised(found), unit * _moments(found)[1]


@compiled(error_model="numpy")
def warped_violations(violations: Floats) -> tuple[Floats, float]:
    """Violations of a constraint, warped and standardised, shape (n,), and the bound 0 after the same steps.

    The warp is sign(v) log(1 + |v| / s), at most CAP away from 0, with s the median of the finite |v|.
    """
    n = violations.shape[0]
    sizes, count = np.empty(n), 0
    for i in range(n):
        if math.isfinite(violations[i]):
            sizes[count] = abs(violations[i])
            count += 1
    size = _median(sizes, count)
    s = size if size > 0.0 else 1.0
    found = np.empty(n)
    for i in range(n):
        found[i] = math.copysign(min(math.log1p(abs(violations[i]) / s), CAP), violations[i])
    centre, spread, equal = _moments(found)
    return _standardised(found), -centre if equal else -centre / spread


@compiled(error_model="numpy")
def _scale(u: Floats, count: int) -> float:
    """s, from the first `count` values of u, which are losses minus their median and not all 0."""
    squares, below = 0.0, 0
    for i in range(count):
        if u[i] < 0.0:
            squares += u[i] * u[i]
            below += 1
    if below == 0:
        distances = np.abs(u)
        most = _median(distances, count)
        for i in range(count):
            if distances[i] <= most:
                squares += distances[i] * distances[i]
                below += 1
    s = math.sqrt(squares / below)
    return s if s > 0.0 else 1.0


@compiled(error_model="numpy")
def _median(values: Floats, count: int) -> float:
    """The median of the first `count` values, 0 for none; a copy is sorted by Shell's method."""
    if count == 0:
        return 0.0
    ordered, gap = values.copy(), count // 2
    while gap > 0:
        for i in range(gap, count):
            value, j = ordered[i], i
            while j >= gap and ordered[j - gap] > value:
                ordered[j] = ordered[j - gap]
                j -= gap
            ordered[j] = value
        gap = 1 if gap == 2 else gap * 5 // 11
    half = count // 2
    middle: float = ordered[half] if count % 2 else (ordered[half - 1] + ordered[half]) / 2
    return middle


@compiled(error_model="numpy")
def _moments(values: Floats) -> tuple[float, float, bool]:
    """Mean and standard deviation, and whether all values are equal or a value is missing."""
    n, total = values.shape[0], 0.0
    for i in range(n):
        total += values[i]
    centre = total / n
    squares, least, most = 0.0, values[0], values[0]
    for i in range(n):
        squares += (values[i] - centre) ** 2
        least, most = min(least, values[i]), max(most, values[i])
    return centre, math.sqrt(squares / n), math.isnan(centre) or not most > least


@compiled(error_model="numpy")
def _standardised(values: Floats) -> Floats:
    centre, spread, equal = _moments(values)
    scaled = np.zeros(values.shape[0])
    if not equal:
        for i in range(values.shape[0]):
            scaled[i] = (values[i] - centre) / spread
    return scaled


def normal_scores(losses: Floats) -> Floats:
    """Normal quantiles of (rank - 1/2) / n, shape (n,); equal losses have their mean rank."""
    _, place, count = np.unique(losses, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # scipy.stats.rankdata, whose import takes longer
    return np.asarray(ndtri((ranks - 0.5) / len(losses)))
