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

These are functions of a few numbers, so they are not compiled, which would take seconds. Sums are made in the
order of the numbers, by `cumsum`, and logarithms by the C library, so that the bits do not depend on NumPy.
"""

from __future__ import annotations

import math

import numpy as np

from hpobench_nmt.core.arrays import Floats

CAP = math.log1p(3.0)


def warped(losses: Floats, cap: float = CAP) -> Floats:
    """The losses after the warp, with mean 0 and standard deviation 1 (zeros if all are equal), shape (n,).

    Losses of any size are allowed. NaN and infinite losses count as the worst.
    """
    return warped_and_unit(losses, cap)[0]


def warped_and_unit(losses: Floats, cap: float = CAP) -> tuple[Floats, float]:
    """The losses after the warp, and the size, in units of the loss, of one warped unit below the median.

    That size is NaN if all losses are equal.
    """
    finite = np.isfinite(losses)
    quarters = losses[finite] / 4.0  # quarters, so that no difference overflows
    quarters -= _median(quarters)
    largest = float(np.abs(quarters).max(initial=0.0))
    unit, s = np.nan, 1.0
    if largest > 0.0:
        power = 2.0 ** math.frexp(largest)[1]
        quarters /= power  # so that no square overflows or underflows; exact
        s = scale_of(quarters)
        unit = 4.0 * power * s
    found = np.full(len(losses), cap)
    found[finite] = [min(math.log1p(u), cap) if u > 0.0 else u for u in (quarters / s).tolist()]
    return _standardised(found), unit * _moments(found)[1]


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
    return _standardised(found), -centre if equal else -centre / spread


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


def _standardised(values: Floats) -> Floats:
    centre, spread, equal = _moments(values)
    return np.zeros(len(values)) if equal else (values - centre) / spread


def normal_scores(losses: Floats) -> Floats:
    """Normal quantiles of (rank - 1/2) / n, shape (n,); equal losses have their mean rank."""
    from scipy.special import ndtri  # BO_auto does not need it

    _, place, count = np.unique(losses, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # scipy.stats.rankdata, whose import takes longer
    return np.asarray(ndtri((ranks - 0.5) / len(losses)))
