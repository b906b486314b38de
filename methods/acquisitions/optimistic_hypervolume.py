"""The hypervolume that an optimistic guess of a candidate would add, for three or more losses (SMS-EGO).

Expected hypervolume improvement does not have a cheap exact form for three losses. Ponweiser et al. (2008)
use the improvement at one point instead: at mean - gain sd, the lower confidence bound of each loss.

symbol   shape    meaning
p        M x m    lower confidence bounds of the candidates
f        J x m    Pareto front of the losses observed
r        scalar   the reference point, the same in every loss

All losses are scaled first, so that in each loss the best observed is 0 and the worst observed is 1; r = 1.1.
A point p adds the volume between p and r, without the part that the points max(p, f_j) dominate (the
exclusive hypervolume of While et al. 2012). If the front dominates p, it adds nothing. Such candidates are
ranked by their negative distance from the front: over the f_j that dominate p, the smallest value of the
largest p_i - f_ji.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.acquisitions.belief import Belief

GAIN = 1.0
REFERENCE = 1.1
LEAST = 1e-300


def by_optimistic_hypervolume(belief: Belief) -> Floats:
    """The hypervolume that each candidate would add at its lower confidence bounds, shape (M,).

    O(M J^2) for three losses and J points on the front. For more losses, one call of moocore per candidate.
    """
    spread = belief.worst - belief.best
    spread = np.where(spread > 0, spread, 1.0)
    points = np.ascontiguousarray(((belief.mean - GAIN * np.sqrt(belief.var)).T - belief.best) / spread)
    front = (belief.front - belief.best) / spread
    if points.shape[1] == 3:
        order = np.argsort(front[:, 2], kind="stable")
        return _of_three(points, np.ascontiguousarray(front[order]), belief.unseen)
    return _of_more(points, front, belief.unseen)


def log_of_optimistic(values: Floats) -> Floats:
    """The values on a log scale, in the same order. Candidates that add nothing stay below all others."""
    return np.where(values > 0, np.log(np.maximum(values, LEAST)), math.log(LEAST) + np.minimum(values, 0.0))


def _of_more(points: Floats, front: Floats, unseen: NDArray[np.bool_]) -> Floats:
    from moocore import hypervolume

    values = np.full(len(points), -np.inf)
    before = hypervolume(front, ref=REFERENCE) if len(front) else 0.0
    for i in np.flatnonzero(unseen):
        behind = _behind(points[i], front)
        if behind >= 0:
            values[i] = -behind
        else:
            inside = np.minimum(points[i], REFERENCE)
            values[i] = hypervolume(np.vstack([front, inside]), ref=REFERENCE) - before
    return values


@compiled()
def _behind(point: Floats, front: Floats) -> float:
    """How far a point lies behind the front; -1 if no point of the front is as good in every loss."""
    least = np.inf
    for j in range(front.shape[0]):
        most = 0.0
        dominated = True
        for t in range(point.shape[0]):
            dominated = dominated and front[j, t] <= point[t]
            most = max(most, point[t] - front[j, t])
        if dominated:
            least = min(least, most)
    return least if least < np.inf else -1.0


@compiled()
def _of_three(points: Floats, front: Floats, unseen: NDArray[np.bool_]) -> Floats:
    """The values for three losses; the front is sorted by the third."""
    size = front.shape[0]
    values = np.full(points.shape[0], -np.inf)
    # Corners of the region dominated so far in the first two losses: first ascending, second descending.
    firsts, seconds = np.empty(size + 1), np.empty(size + 1)
    for i in range(points.shape[0]):
        if not unseen[i]:
            continue
        p = points[i]
        behind = _behind(p, front)
        if behind >= 0:
            values[i] = -behind
            continue
        x, y, z = min(p[0], REFERENCE), min(p[1], REFERENCE), min(p[2], REFERENCE)
        volume = (REFERENCE - x) * (REFERENCE - y) * (REFERENCE - z)
        corners, area, level = 0, 0.0, z
        for j in range(size):
            a, b, c = max(front[j, 0], x), max(front[j, 1], y), max(front[j, 2], z)
            if a >= REFERENCE or b >= REFERENCE or c >= REFERENCE:
                continue
            volume -= area * (c - level)
            level = c
            corners, area = _with_corner(firsts, seconds, corners, a, b, area)
        values[i] = max(volume - area * (REFERENCE - level), 0.0)
    return values


@compiled()
def _with_corner(
    firsts: Floats, seconds: Floats, corners: int, a: float, b: float, area: float
) -> tuple[int, float]:
    """Add a corner; return how many there are, and the area that they dominate up to the reference."""
    place = 0
    while place < corners and firsts[place] < a:
        place += 1
    if place and seconds[place - 1] <= b:
        return corners, area
    if place < corners and firsts[place] == a and seconds[place] <= b:
        return corners, area
    last = place
    while last < corners and seconds[last] >= b:
        last += 1
    if last == place:
        for k in range(corners, place, -1):
            firsts[k], seconds[k] = firsts[k - 1], seconds[k - 1]
    else:
        gone = last - place - 1
        for k in range(last, corners):
            firsts[k - gone], seconds[k - gone] = firsts[k], seconds[k]
    firsts[place], seconds[place] = a, b
    corners += 1 - (last - place)
    area = 0.0
    for k in range(corners):
        right = firsts[k + 1] if k + 1 < corners else REFERENCE
        area += (right - firsts[k]) * (REFERENCE - seconds[k])
    return corners, area
