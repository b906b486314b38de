"""Hypervolume of two or more losses against look-ups, and attainment surfaces.

The hypervolume of some rows is the area (for three losses the volume, and so on) that they dominate up to a
reference point. Here losses are scaled first. In each loss, 0 is the best of the table, and 1 the worst of
its Pareto front. The reference point is 1.1 in every loss, so that the ends of the front count. If the whole
front has the same value in a loss, 1 is the worst of the table instead. The curve is a share of the table's
own hypervolume, and is 1 once the whole front is found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.pareto import FrontScale, pareto_front
from hpobench_nmt.core.system.errors import InputError

REFERENCE = 1.1


def table_scale(losses: Floats) -> FrontScale:
    """The scale of a table's losses, shape (N, m), NaN if missing."""
    if losses.shape[1] < 2:
        raise InputError("the hypervolume is for two and more objectives.")
    front = losses[pareto_front(losses)]
    if len(front) == 0:
        raise InputError(f"no row has {'both' if losses.shape[1] == 2 else 'all'} objectives.")
    ideal, nadir = front.min(axis=0), front.max(axis=0)
    complete = losses[~np.isnan(losses).any(axis=1)]
    flat = nadir == ideal
    nadir = np.where(flat, complete.max(axis=0), nadir)
    nadir = np.where(nadir == ideal, ideal + np.maximum(np.abs(ideal), 1.0), nadir)
    return FrontScale(ideal, nadir, hypervolume(FrontScale(ideal, nadir, 1.0).scaled(front)))


def hypervolume(points: Floats, reference: float = REFERENCE) -> float:
    """Hypervolume of points, shape (n, m), up to `reference` in every loss.

    O(n log n) for m = 2 and 3. From m = 3 on, moocore computes it (Fonseca, Paquete & Lopez-Ibanez 2006;
    Guerreiro & Fonseca 2018). A point with a NaN adds nothing.
    """
    if points.shape[1] == 2:
        curve = hypervolume_curve(points, reference)
        return float(curve[-1]) if len(curve) else 0.0
    inside = points[(points < reference).all(axis=1)]
    if len(inside) == 0:
        return 0.0
    from moocore import hypervolume as of_set

    return float(of_set(np.ascontiguousarray(inside), ref=reference))


def hypervolume_curve(points: Floats, reference: float = REFERENCE) -> Floats:
    """Hypervolume of the first 1, 2, ... of n points, shape (n, m) and (n,).

    For two losses, O(n log n), plus moves in the front's list. For more losses, a call of `hypervolume` for
    each point that is on the front when it is added.
    """
    return _areas(points, reference) if points.shape[1] == 2 else _volumes(points, reference)


def _volumes(points: Floats, reference: float) -> Floats:
    front = np.empty((0, points.shape[1]))
    volumes = np.zeros(len(points))
    for t, point in enumerate(points):
        volumes[t] = volumes[t - 1] if t else 0.0
        if (point < reference).all() and not (front <= point).all(axis=1).any():
            front = np.vstack([front[(front < point).any(axis=1)], point])
            volumes[t] = hypervolume(front, reference)
    return volumes


def _areas(points: Floats, reference: float) -> Floats:
    """Areas of the first 1, 2, ... of n points of two losses, shape (n,).

    The front so far is sorted by the first loss, so its second losses descend. A new point removes the points
    that it dominates. (moocore computes the hypervolume of one set, so a curve would take hundreds of times
    as long.)
    """
    firsts, seconds = [reference], [-np.inf]  # the sentinel at the end saves a special case in the loop
    area, areas = 0.0, np.empty(len(points))
    for t, (x, y) in enumerate(points.tolist()):
        if x < reference and y < reference:
            i = bisect_left(firsts, x)
            ceiling = seconds[i - 1] if i else reference
            if y < ceiling and not (firsts[i] == x and seconds[i] <= y):
                # The area gained, strip by strip to the right, below the region that was dominated before.
                start, level, j = x, ceiling, i
                while seconds[j] >= y:
                    area += (firsts[j] - start) * (level - y)
                    start, level = firsts[j], seconds[j]
                    j += 1
                area += (firsts[j] - start) * (level - y)
                firsts[i:j], seconds[i:j] = [x], [y]
        areas[t] = area
    return areas


def attainment_surface(trials: Sequence[Floats], level: float = 0.5) -> Floats:
    """The staircase that at least this share of the trials attain: its corners, shape (corners, 2).

    A trial, given by the losses that it saw, shape (n_i, 2), attains a point if one of its rows is at least
    as good in both losses. A row with a NaN attains nothing. Enough trials attain each corner, and too few
    attain any point below or left of the staircase. Level 0.5 is the median front. Computed by moocore
    (Fonseca, Guerreiro, Lopez-Ibanez & Paquete 2011): O(M log M + n M) for M rows in n trials.
    """
    check_level(level)
    seen = [points[~np.isnan(points).any(axis=1)] for points in trials]
    lengths = np.array([len(points) for points in seen], dtype=np.int64)
    # Without the subtraction, a rounding error could require one more trial.
    needed = int(np.ceil(level * len(trials) - 1e-9))
    not_empty = int((lengths > 0).sum())
    if needed > not_empty or not trials:
        return np.empty((0, 2))
    from moocore import eaf

    # Half a trial less than `needed`, in percent, because moocore rounds up to whole trials.
    percentile = 100.0 * (needed - 0.5) / not_empty
    surface = eaf(np.concatenate(seen), np.repeat(np.arange(len(seen)), lengths), percentiles=[percentile])
    return np.asarray(surface[np.argsort(surface[:, 0]), :2], dtype=np.float64)


def corners(xs: Floats, heights: Floats) -> Floats:
    """The corners (x, height) at which a non-increasing staircase descends."""
    drops = heights < np.append(np.inf, heights[:-1])
    return np.column_stack([xs[drops], heights[drops]])


def check_level(level: float) -> None:
    """Raise InputError if a share of trials is not above 0 and at most 1."""
    if not 0.0 < level <= 1.0:
        raise InputError(f"the level must be above 0, up to 1, not {level!r}.")
