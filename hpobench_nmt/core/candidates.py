"""Candidates where there is no grid: configurations drawn at random from ranges.

N    configurations asked for
H    hyperparameters
u    uniform numbers in [0, 1), shape (N, H), drawn row by row
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Hyperparameter

_DIGITS = 4


def draw(axes: Sequence[Hyperparameter], count: int, rng: np.random.Generator) -> Floats:
    """Codes of configurations drawn uniformly on each axis' scale, distinct rows, shape (at most count, H).

    The first configurations are the same for a larger count. Numbers of a range are rounded to four digits,
    so that they are short, and the same on every machine; a narrow range keeps one digit more for each power
    of ten in the ratio of its larger end to its width. An axis is a range (continuous) or a grid.
    """
    u = rng.random((count, len(axes)))
    found = np.column_stack([_drawn(axis, u[:, j]) for j, axis in enumerate(axes)])
    _, first = np.unique(found, axis=0, return_index=True)
    return np.asarray(found[np.sort(first)])


def _drawn(axis: Hyperparameter, u: Floats) -> Floats:
    if not axis.continuous:
        return np.array(axis.numbers)[(u * len(axis.numbers)).astype(np.intp)]
    whole = axis.whole
    low, high = axis.ends
    if whole and axis.scale == "linear":  # each as likely as any other
        return np.minimum(low + np.floor(u * (high - low + 1)), high)
    if axis.scale == "log":
        drawn = np.exp(math.log(low) + u * math.log(high / low))
    else:
        drawn = low + u * (high - low)
    share = max(abs(low), abs(high)) / (high - low)
    digits = min(_DIGITS + max(int(math.log10(share)), 0), 17)
    rounded = np.rint(drawn) if whole else np.array([float(f"{value:.{digits}g}") for value in drawn])
    return np.clip(rounded, low, high)
