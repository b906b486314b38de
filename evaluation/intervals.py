"""Confidence intervals over trials: BCa bootstrap for means, Wilson for shares.

Trials are resampled. A bootstrap mean depends only on how often each trial is in a resample. So all means
over the same number of trials share one matrix of counts, and thousands of resamples of hundreds of cells are
one matrix product. `scipy.stats.bootstrap` collects every resample of every cell instead. It gives the same
limits from the same seed, but takes about fifty times as long.

    symbol   shape    meaning
    x        n x c    n trials of c cells
    W        B x n    how often each trial is in each of the B resamples
    means    B x c    W x / n
    z0       c        bias correction: normal quantile of the share of means below the cell's own
    a        c        acceleration: sum u^3 / (6 (sum u^2)^1.5) with u = x - mean, the jackknife's for a mean

(Efron & Tibshirani 1993, chapter 14.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 9_999
# With fewer trials, resampling says too little about other trials.
FEW_TRIALS = 10
# The most numbers in a matrix of counts, or of signs, that is made at once: 32 MB.
MAX_PART = 4 * 2**20
Draw = Callable[[np.random.Generator, int, int], Floats]
"""Draws lines for n trials from a generator, shape (lines, n): called with (rng, n, lines)."""


def mean_intervals(
    samples: Floats, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats]:
    """BCa bootstrap intervals of means: lower and upper limits, each of shape (c,). O(resamples n c).

    Samples have shape (n, c), one column per cell, NaN where a trial does not count. The interval of a column
    is NaN for fewer than two trials. It is also NaN with an infinite value (a trial that never reached its
    target), because the column does not have a mean. If all trials have the same value, both limits are that
    value, because resamples cannot have another. The confidence applies to each interval separately. The same
    seed gives the same limits.
    """
    check_confidence(confidence)
    samples = np.asarray(samples, dtype=np.float64)
    low, high = np.full(samples.shape[1], np.nan), np.full(samples.shape[1], np.nan)
    counted = ~np.isnan(samples)
    sizes = np.where(np.isinf(samples).any(axis=0), 0, counted.sum(axis=0))
    for size in np.unique(sizes[sizes > 1]):
        cells = np.flatnonzero(sizes == size)
        # Transposed, so that the trials of each column stay in order.
        group = samples[:, cells].T[counted[:, cells].T].reshape(len(cells), size).T
        low[cells], high[cells] = _bca(group, confidence, resamples, seed)
    return low, high


def resampled_sums(values: Floats, resamples: int, seed: int) -> Floats:
    """Sums of values, shape (n, c), over each bootstrap resample of n trials: W x, shape (resamples, c)."""
    return np.vstack([counts @ values for counts in in_parts(_draw_counts, len(values), resamples, seed)])


def in_parts(draw: Draw, n: int, lines: int, *seed: int) -> Iterator[Floats]:
    """Random lines for n trials, in parts of up to MAX_PART numbers; read-only if there is only one part."""
    most = max(1, MAX_PART // max(n, 1))
    if most >= lines:
        yield _whole(draw, n, lines, *seed)
        return
    rng = np.random.default_rng(seed)
    for first in range(0, lines, most):
        yield draw(rng, n, min(most, lines - first))


@lru_cache(maxsize=8)
def _whole(draw: Draw, n: int, lines: int, *seed: int) -> Floats:
    drawn = draw(np.random.default_rng(seed), n, lines)
    drawn.setflags(write=False)
    return drawn


def _draw_counts(rng: np.random.Generator, n: int, resamples: int) -> Floats:
    """How often each of n trials is in each resample, shape (resamples, n)."""
    drawn = rng.integers(0, n, (resamples, n))
    drawn += n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


def wilson_interval(mean: Floats, n: Ints, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Wilson's score interval of shares of n trials, such as of wins (a tie may count half); any shape.

    Unlike a bootstrap interval, it does not collapse if one side always wins. With ties it is slightly too
    wide, because a tie varies less than a win.
    """
    check_confidence(confidence)
    z = float(ndtri(0.5 + confidence / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
        reach = z / (1 + z * z / n) * np.sqrt(mean * (1 - mean) / n + z * z / (4.0 * n * n))
    # Without trials, both limits are NaN.
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)


def check_confidence(confidence: float) -> None:
    """Raise InputError if a confidence is not a probability."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence!r}.")


def _bca(x: Floats, confidence: float, resamples: int, seed: int) -> tuple[Floats, Floats]:
    mean = x.mean(axis=0)
    # Deviations are resampled, so that equal trials have a spread of exactly 0.
    deviation = x - mean
    deviation[:, (x == x[0]).all(axis=0)] = 0.0
    means = resampled_sums(deviation, resamples, seed) / len(x)
    largest = np.abs(deviation).max(axis=0)
    # In units of the largest deviation, so that cubes do not overflow or underflow. Powers of two are exact.
    scaled = np.ldexp(deviation, -np.frexp(largest)[1])
    squares = np.where(largest == 0.0, 1.0, (scaled**2).sum(axis=0))
    acceleration = (scaled**3).sum(axis=0) / (6.0 * squares**1.5)
    # Half of the resamples whose mean equals the cell's mean, up to rounding, count as below it.
    slack = 1e-12 * largest
    below = ((means < -slack).mean(axis=0) + (means <= slack).mean(axis=0)) / 2
    z0 = ndtri(np.clip(below, 1.0 / (resamples + 1), 1.0 - 1.0 / (resamples + 1)))
    limits = []
    ordered = np.sort(means, axis=0)
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = z0 + ndtri(tail)
        # Each cell has its own level. Its quantile is interpolated between neighbours.
        position = ndtr(z0 + z / (1.0 - acceleration * z)) * (resamples - 1)
        before = np.floor(position).astype(np.int64)
        after = np.minimum(before + 1, resamples - 1)
        cell = np.arange(len(mean))
        start = ordered[before, cell]
        limits.append(mean + start + (ordered[after, cell] - start) * (position - before))
    return limits[0], limits[1]
