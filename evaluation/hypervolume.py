"""Hypervolume of two losses against look-ups, and its exact expectation under random search.

The hypervolume of some rows is the area that they dominate up to a reference point. Here losses are scaled
first, so that 0 is the best of the table and 1 the worst of its Pareto front in each loss; the reference
point lies at 1.1 in both, so that the ends of the front count. Where the whole front agrees in a loss, 1 is
the worst of the table instead. The curve is given as a share of the table's own hypervolume: it is 1 once
the whole front is found.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.trajectory import Trajectory

Floats = NDArray[np.float64]

REFERENCE = 1.1
# The exact expectation takes time quadratic in the number of rows.
MAX_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Scale:
    """How two losses are scaled: (loss - ideal) / (nadir - ideal).

    Attributes:
        ideal, nadir: shape (2,).
        total: hypervolume of the whole table, scaled.
    """

    ideal: Floats
    nadir: Floats
    total: float

    def scaled(self, losses: Floats) -> Floats:
        """Losses of shape (..., 2), scaled."""
        return (losses - self.ideal) / (self.nadir - self.ideal)


def table_scale(losses: Floats) -> Scale:
    """The scale of a table's losses, shape (N, 2), NaN where missing."""
    if losses.shape[1] != 2:
        raise InputError(f"the hypervolume is for two objectives here, not {losses.shape[1]}.")
    front = losses[pareto_front(losses)]
    if len(front) == 0:
        raise InputError("no row has both objectives.")
    ideal, nadir = front.min(axis=0), front.max(axis=0)
    complete = losses[~np.isnan(losses).any(axis=1)]
    flat = nadir == ideal
    nadir = np.where(flat, complete.max(axis=0), nadir)
    nadir = np.where(nadir == ideal, ideal + 1.0, nadir)
    scale = Scale(ideal, nadir, 1.0)
    return Scale(ideal, nadir, hypervolume(scale.scaled(front)))


def hypervolume(points: Floats, reference: float = REFERENCE) -> float:
    """Area dominated by points of two losses, shape (n, 2), up to (reference, reference). O(n log n)."""
    curve = hypervolume_curve(points, reference)
    return float(curve[-1]) if len(curve) else 0.0


def hypervolume_curve(points: Floats, reference: float = REFERENCE) -> Floats:
    """Hypervolume of the first 1, 2, ... of n points of two losses, shape (n,).

    The front so far is kept sorted by the first loss, so its second losses descend; a new point takes out
    those it dominates. O(n log n), besides what the front's list moves. A point with a NaN adds nothing.
    """
    firsts, seconds = [reference], [-np.inf]  # a sentinel at the end spares the loop a special case
    area, areas = 0.0, np.empty(len(points))
    for t, (x, y) in enumerate(points.tolist()):
        if x < reference and y < reference:
            i = bisect_left(firsts, x)
            ceiling = seconds[i - 1] if i else reference
            if y < ceiling and not (firsts[i] == x and seconds[i] <= y):
                # Strip by strip to the right, down from what was dominated before.
                start, level, j = x, ceiling, i
                while seconds[j] >= y:
                    area += (firsts[j] - start) * (level - y)
                    start, level = firsts[j], seconds[j]
                    j += 1
                area += (firsts[j] - start) * (level - y)
                firsts[i:j], seconds[i:j] = [x], [y]
        areas[t] = area
    return areas


def hypervolume_shares(trials: Sequence[Trajectory], scale: Scale) -> Floats:
    """Share of the table's hypervolume after each look-up, shape (trials, longest).

    A trial that ended with all of it stays there; what one that ended earlier would have found is NaN.
    """
    shares = np.full((len(trials), max((len(t.rows) for t in trials), default=0)), np.nan)
    for line, trial in zip(shares, trials, strict=True):
        n = len(trial.rows)
        line[:n] = hypervolume_curve(scale.scaled(trial.losses)) / scale.total
        if n and line[n - 1] > 1.0 - 1e-9:
            line[n:] = 1.0
    return shares


def random_search_hypervolume(losses: Floats, scale: Scale, lookups: int) -> Floats:
    """Expected share of the table's hypervolume after 1, 2, ... look-ups of random search: exact.

    A point z of the plane is dominated after t look-ups unless all t rows miss the k(z) rows that dominate
    it, which has probability C(N - k, t) / C(N, t). So the expectation is a sum over k of that probability's
    complement times the area where exactly k rows dominate. O(N^2) time, O(N) memory.

    Args:
        losses: of the table, shape (N, 2).
        scale: from table_scale.
        lookups: cut to N.

    Raises:
        InputError: the table has more than MAX_ROWS rows.
    """
    n_rows = len(losses)
    if n_rows > MAX_ROWS:
        raise InputError(f"the exact curve is computed up to {MAX_ROWS:,} rows; the table has {n_rows:,}.")
    area = _area_by_count(scale.scaled(losses[~np.isnan(losses).any(axis=1)]))
    counts = np.flatnonzero(area)
    counts = counts[counts > 0]
    missed = np.ones(len(counts))
    steps = min(lookups, n_rows)
    shares = np.empty(steps)
    for t in range(steps):
        missed *= np.maximum(n_rows - counts - t, 0.0) / (n_rows - t)
        shares[t] = area[counts] @ (1.0 - missed) / scale.total
    return shares


def _area_by_count(points: Floats) -> Floats:
    """Area below the reference point that exactly k points dominate, for k = 0, ..., n."""
    inside = points[(points < REFERENCE).all(axis=1)]
    inside = inside[np.argsort(inside[:, 0], kind="stable")]
    ys = np.unique(inside[:, 1])
    heights = np.diff(np.append(ys, REFERENCE))
    cell = np.searchsorted(ys, inside[:, 1])
    area = np.zeros(len(points) + 1)
    dominating = np.zeros(len(ys), dtype=np.int64)
    rights = np.append(inside[1:, 0], REFERENCE)
    for lowest, left, right in zip(cell, inside[:, 0], rights, strict=True):
        dominating[lowest:] += 1
        if right > left:
            area += np.bincount(dominating, heights * (right - left), minlength=len(area))
    return area


def attainment_surface(trials: Sequence[Floats], level: float = 0.5) -> Floats:
    """What at least this share of the trials attain: the corners of a staircase, shape (corners, 2).

    A point is attained by a trial if a row it saw is no worse in both losses. Each corner is attained by
    enough trials, and nothing below or left of the staircase is (Fonseca & Fleming 1996). Level 0.5 is the
    median front. O(n G log n) for n trials that saw G distinct first losses.

    Args:
        trials: losses seen by each, shape (n_i, 2).
        level: share of the trials, above 0, up to 1.
    """
    _check_level(level)
    if not trials:
        return np.empty((0, 2))
    seen = [points[~np.isnan(points).any(axis=1)] for points in trials]
    xs = np.unique(np.concatenate([points[:, 0] for points in seen]))
    best = np.full((len(trials), len(xs)), np.inf)
    for line, points in zip(best, seen, strict=True):
        np.minimum.at(line, np.searchsorted(xs, points[:, 0]), points[:, 1])
    best = np.sort(np.minimum.accumulate(best, axis=1), axis=0)
    return _corners(xs, best[int(np.ceil(level * len(trials) - 1e-9)) - 1])


def random_search_attainment(losses: Floats, lookups: int, level: float = 0.5) -> Floats:
    """The surface that random search attains with this probability after so many look-ups: exact.

    It passes where enough rows dominate: the fewest, k, for which missing all of them has probability
    C(N - k, t) / C(N, t) of 1 - level at most. Shape (corners, 2); none where even all rows are too few.
    """
    _check_level(level)
    n_rows = len(losses)
    t = min(lookups, n_rows)
    # C(N - k, t) / C(N, t) = C(N - t, k) / C(N, k): one more factor a step of k.
    k = np.arange(n_rows)
    missed = np.cumprod(np.maximum(n_rows - t - k, 0.0) / (n_rows - k))
    needed = int(np.argmax(missed <= 1.0 - level + 1e-12)) + 1
    points = losses[~np.isnan(losses).any(axis=1)]
    points = points[np.argsort(points[:, 0], kind="stable")]
    below: list[float] = []
    heights = np.full(len(points), np.inf)
    for i, y in enumerate(points[:, 1].tolist()):
        insort(below, y)
        if len(below) >= needed:
            heights[i] = below[needed - 1]
    # Of rows that tie in the first loss, the last has counted all.
    last = np.append(points[1:, 0] != points[:-1, 0], True) if len(points) else np.empty(0, bool)
    return _corners(points[last, 0], heights[last])


def _corners(xs: Floats, heights: Floats) -> Floats:
    """Where a staircase that never rises goes down."""
    drops = heights < np.append(np.inf, heights[:-1])
    return np.column_stack([xs[drops], heights[drops]])


def _check_level(level: float) -> None:
    if not 0.0 < level <= 1.0:
        raise InputError(f"the level must be above 0, up to 1, not {level!r}.")
