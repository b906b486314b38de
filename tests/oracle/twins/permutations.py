"""Scores of random search over all orders of a small table."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

REFERENCE = 1.1  # in every loss, where 0 is the front's best and 1 its worst


def hypervolume(points):
    return _cells(frozenset(tuple(p) for p in points.tolist() if all(x < REFERENCE for x in p)))


@functools.cache
def _cells(points):
    """The cells of the grid through all coordinates whose lower corner some point is below."""
    if not points:
        return 0.0
    axes = [sorted({*axis, REFERENCE}) for axis in zip(*points, strict=True)]
    return sum(
        math.prod(high - low for low, high in cell)
        for cell in itertools.product(*map(itertools.pairwise, axes))
        if any(all(x <= low for x, (low, _) in zip(p, cell, strict=True)) for p in points)
    )


def score_of_order(asked, order, n_initial):
    """The score of a whole permutation, row by row."""
    if asked.score_at is None:
        found = itertools.accumulate(bool(asked.targets[row]) for row in order)
        return max(n_initial, 1 + next(i for i, n in enumerate(found) if n == asked.needed))
    drawn = order[: asked.score_at]
    if asked.points is not None:
        total = hypervolume(asked.points[asked.targets])
        return hypervolume(asked.points[list(drawn)]) / total
    if asked.gaps is None:
        return sum(bool(asked.targets[row]) for row in drawn)
    known = [asked.gaps[row] for row in drawn if not math.isnan(asked.gaps[row])]
    return min(known, default=math.nan)


def over_all_permutations(asked, n_initial):
    """Mean and spread; of a share of the hypervolume there is only a mean, and only for two losses."""
    orders = itertools.permutations(range(len(asked.targets)))
    scores = np.array([score_of_order(asked, order, n_initial) for order in orders])
    if asked.points is not None:
        return scores.mean() if asked.points.shape[1] == 2 else math.nan, math.nan
    return scores.mean(), scores.std()
