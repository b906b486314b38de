"""Losses as a Gaussian process can model them: what diverged is bad, but never how bad.

symbol   meaning
m        median of the losses
s        root mean square of how far the losses below m lie below it
u        (y - m) / s
w(u)     u below 0; log(1 + u) above, but at most CAP; CAP for a loss that is missing

Where no loss lies below the median, s is taken of those that lie no further from it than the median distance,
or is 1. The warp rises with the loss and keeps the differences between good rows. It is bounded, because a
logarithm alone leaves a loss of 1e16 among losses near 1 some 38 deviations away, and all others equal.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.compiled import compiled

CAP = math.log1p(3.0)


@compiled(error_model="numpy")
def warped(losses: Floats, cap: float = CAP) -> Floats:
    """The losses after the warp, with mean 0 and standard deviation 1 (zeros if all are equal), shape (n,).

    Losses of any size are allowed. NaN and infinite losses count as the worst.
    """
    return warped_and_unit(losses, cap)[0]


@compiled(error_model="numpy")
def warped_and_unit(losses: Floats, cap: float = CAP) -> tuple[Floats, float]:
    """The losses after the warp, and how many units of the loss one of theirs is, below the median.

    The unit is NaN where all losses are equal.
    """
    n = losses.shape[0]
    unit = np.nan
    found = np.full(n, cap)
    finite = np.isfinite(losses)
    if finite.any():
        quarters = losses[finite] / 4.0  # so that no difference of two overflows
        u = quarters - np.median(quarters)
        largest = np.abs(u).max()
        if largest > 0.0:
            power = 2.0 ** math.frexp(largest)[1]
            u = u / power  # so that no square overflows or underflows; exact
            s = _scale(u)
            u = u / s
            unit = 4.0 * power * s
        for i, at in enumerate(np.flatnonzero(finite)):
            found[at] = min(math.log1p(u[i]), cap) if u[i] > 0.0 else u[i]
    return _standardised(found), unit * found.std()


@compiled(error_model="numpy")
def warped_violations(violations: Floats) -> tuple[Floats, float]:
    """Violations of a constraint, warped and standardised, shape (n,), and where their bound 0 lies then.

    The warp is sign(v) log(1 + |v| / s), at most CAP away from 0, with s the median of the finite |v|.
    """
    sizes = np.abs(violations[np.isfinite(violations)])
    size = np.median(sizes) if sizes.shape[0] > 0 else 0.0
    s = size if size > 0.0 else 1.0
    found = np.empty(violations.shape[0])
    for i in range(found.shape[0]):
        found[i] = math.copysign(min(math.log1p(abs(violations[i]) / s), CAP), violations[i])
    centre = found.sum() / found.shape[0]
    spread = math.sqrt(((found - centre) ** 2).sum() / found.shape[0])
    if not found.max() > found.min():
        return np.zeros(found.shape[0]), -centre
    return (found - centre) / spread, -centre / spread


@compiled(error_model="numpy")
def _scale(u: Floats) -> float:
    """s for losses less their median, not all of which are 0."""
    low = u[u < 0.0]
    if low.shape[0] == 0:
        distances = np.abs(u)
        low = distances[distances <= np.median(distances)]
    s = math.sqrt((low**2).sum() / low.shape[0])
    return s if s > 0.0 else 1.0


@compiled(error_model="numpy")
def _standardised(values: Floats) -> Floats:
    if not values.max() > values.min():
        return np.zeros(values.shape[0])
    centred = values - values.sum() / values.shape[0]
    spread: float = math.sqrt((centred**2).sum() / values.shape[0])
    scaled: Floats = centred / spread
    return scaled


def normal_scores(losses: Floats) -> Floats:
    """Normal quantiles of (rank - 1/2) / n, shape (n,); equal losses have their mean rank."""
    return np.asarray(ndtri((rankdata(losses) - 0.5) / len(losses)))
