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
    """Codes of configurations drawn uniformly on each axis' scale, shape (at most N, H); each is there once.

    The first configurations are the same for a larger count. Numbers of a range are rounded to four digits,
    so that they are short, and the same on every machine. A narrow range keeps more: one digit for each power
    of ten in the ratio of its larger end to its width.

    Args:
        axes: one per hyperparameter: ranges (continuous) or grids.
        count: N.
        rng: of the draws.
    """
    u = rng.random((count, len(axes)))
    columns = [
        _in_range(axis, u[:, j])
        if axis.continuous
        else np.array(axis.numbers)[(u[:, j] * len(axis.numbers)).astype(np.intp)]
        for j, axis in enumerate(axes)
    ]
    found = np.column_stack(columns)
    _, first = np.unique(found, axis=0, return_index=True)
    kept: Floats = found[np.sort(first)]
    return kept


def _in_range(axis: Hyperparameter, u: Floats) -> Floats:
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
