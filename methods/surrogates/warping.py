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

As a search refines, s shrinks, and all that is far from the best becomes equally bad. So in ranges, where
candidates are drawn anew, BO_auto takes the losses as they are if that is likelier. Either likelihood is the
evidence of the standardised values v times the product of the slopes dv/dy, w being without its bound.

These are functions of a few numbers, so they are not compiled, which would take seconds. Sums are made in the
order of the numbers, by `cumsum`, and logarithms by the C library, so that the bits do not depend on NumPy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats

CAP = math.log1p(3.0)


def warped(losses: Floats, cap: float = CAP) -> Floats:
    """The losses after the warp, with mean 0 and standard deviation 1 (zeros if all are equal), shape (n,).

    Losses of any size are allowed. NaN and infinite losses count as the worst.
    """
    return logarithmic(losses, cap).values


class Warped(NamedTuple):
    """Losses after a warp.

    Attributes:
        values: with mean 0 and standard deviation 1 (zeros if all are equal), shape (n,).
        unit: the size, in units of the loss, of one warped unit below the median; NaN if all are equal.
        log_slopes: sum over the losses of log d value / d loss, up to a number that both warps share. It
            turns the evidence of the values into that of the losses.
    """

    values: Floats
    unit: float
    log_slopes: float


def logarithmic(losses: Floats, cap: float = CAP) -> Warped:
    """The warp w. With an infinite cap, NaN and infinite losses are as bad as the worst other."""
    finite, shares, power = _shares(losses)
    s = scale_of(shares) if power else 1.0
    found = np.full(len(losses), cap)
    found[finite] = [min(math.log1p(u), cap) if u > 0.0 else u for u in (shares / s).tolist()]
    if math.isinf(cap):
        found[~finite] = found[finite].max(initial=0.0)
    values, spread = _standardised(found)
    slopes = -_sum(found.clip(0.0)) - len(losses) * math.log(s * spread or 1.0)
    return Warped(values, 4.0 * power * s * spread if power else math.nan, slopes)


def straight(losses: Floats) -> Warped:
    """The losses without a warp; NaN and infinite ones are as bad as the worst other."""
    finite, shares, power = _shares(losses)
    found = np.full(len(losses), shares.max(initial=0.0))
    found[finite] = shares
    values, spread = _standardised(found)
    slopes = -len(losses) * math.log(spread or 1.0)
    return Warped(values, 4.0 * power * spread if power else math.nan, slopes)


def _shares(losses: Floats) -> tuple[Bools, Floats, float]:
    """Which losses are finite, their distances from their median as shares of 4 x power, and this power.

    Power is a power of two that makes all shares smaller than 1, or 0 if all losses are equal.
    """
    finite = np.isfinite(losses)
    quarters = losses[finite] / 4.0  # quarters, so that no difference overflows
    quarters -= _median(quarters)
    largest = float(np.abs(quarters).max(initial=0.0))
    if largest == 0.0:
        return finite, quarters, 0.0
    power = 2.0 ** math.frexp(largest)[1]
    return finite, quarters / power, power  # so that no square overflows or underflows; exact


def warped_violations(violations: Floats) -> tuple[Floats, float]:
    """Violations of a constraint, warped and standardised, shape (n,), and the bound 0 after the same steps.

    The warp is sign(v) log(1 + |v| / s), at most CAP away from 0, with s the median of the finite |v|.
    """
    sizes = np.abs(violations)
    size = _median(sizes[np.isfinite(violations)])
    s = size if size > 0.0 else 1.0
    with np.errstate(over="ignore"):
        shares = (sizes / s).tolist()
    warped_sizes = [min(math.log1p(each), CAP) for each in shares]
    found = np.copysign(warped_sizes, violations)
    centre, spread, equal = _moments(found)
    return _standardised(found)[0], -centre if equal else -centre / spread


def scale_of(u: Floats) -> float:
    """s, from u, which are losses minus their median."""
    used = u[u < 0.0]
    if not len(used):
        used = np.abs(u)
        used = used[used <= _median(used)]
    s = math.sqrt(_sum(used * used) / len(used))
    return s if s > 0.0 else 1.0


def _sum(values: Floats) -> float:
    return float(values.cumsum()[-1])


def _median(values: Floats) -> float:
    """The median, 0 for no values."""
    if not len(values):
        return 0.0
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _moments(values: Floats) -> tuple[float, float, bool]:
    """Mean and standard deviation, and whether all values are equal or a value is missing."""
    centre = _sum(values) / len(values)
    gaps = values - centre
    spread = math.sqrt(_sum(gaps * gaps) / len(values))
    return centre, spread, math.isnan(centre) or not values.max() > values.min()


def _standardised(values: Floats) -> tuple[Floats, float]:
    """The values with mean 0 and standard deviation 1, or zeros if all are equal; and their deviation."""
    centre, spread, equal = _moments(values)
    return (np.zeros(len(values)) if equal else (values - centre) / spread), spread


def normal_scores(losses: Floats) -> Floats:
    """Normal quantiles of (rank - 1/2) / n, shape (n,); equal losses have their mean rank."""
    from scipy.special import ndtri  # BO_auto does not need it

    _, place, count = np.unique(losses, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # scipy.stats.rankdata, whose import takes longer
    return np.asarray(ndtri((ranks - 0.5) / len(losses)))
