"""Curves against look-ups, over trials: how far a method has come after t look-ups.

A curve of trials has shape (trials, steps), column t - 1 being what holds after t look-ups. Where a trial has
no value yet (all it has seen are failed trainings) the curve is infinite. Where the value is not known,
because the trial ended earlier, it is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.trajectory import Trajectory

# The middle half of the trials.
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity over trials, against look-ups.

    Attributes:
        lookups: after how many, or at which times, shape (T,).
        mean: over the trials, shape (T,); NaN where one of them has no value yet.
        quantiles: of the trials, infinite where that many have no value yet, shape (levels, T).
        trials: how many trials have a value, shape (T,).
    """

    lookups: NDArray[np.int64] | Floats
    mean: Floats
    quantiles: Floats
    trials: NDArray[np.int64]


def simple_regret(trials: Sequence[Trajectory], best: float) -> Floats:
    """Gap between the least loss seen and the best of the table, shape (trials, longest).

    A trial that ended at the best stays there; what one that ended earlier would have found is unknown.

    Args:
        trials: of one loss.
        best: least loss in the table.
    """
    regret = np.full((len(trials), max((len(t.rows) for t in trials), default=0)), np.nan)
    for line, trial in zip(regret, trials, strict=True):
        n = len(trial.rows)
        losses = np.where(np.isnan(trial.losses[:, 0]), np.inf, trial.losses[:, 0])
        line[:n] = np.minimum.accumulate(losses) - best
        if n and line[n - 1] == 0.0:
            line[n:] = 0.0
    return regret


def summarise_curves(
    curves: Floats,
    levels: Sequence[float] = QUARTILES,
    least_share: float = 1.0,
    lookups: NDArray[np.int64] | Floats | None = None,
) -> Curve:
    """Mean and quantiles over trials, as far as they are known.

    Args:
        curves: shape (trials, T), infinite or NaN as the module says.
        levels: of the quantiles, each a value that some trial has.
        least_share: the curve ends where fewer than this share of the trials are known. With 1 the mean is
            over the same trials throughout.
        lookups: of each column, or its time; 1, 2, ... where left out.
    """
    known = ~np.isnan(curves)
    n_known = known.sum(axis=0)
    short = np.flatnonzero(n_known < max(1, np.ceil(least_share * len(curves))))
    end = int(short[0]) if len(short) else curves.shape[1]
    curves, known, n_known = curves[:, :end], known[:, :end], n_known[:end]
    there = known & ~np.isinf(curves)
    n_there = there.sum(axis=0)
    # Of some trials only, the mean would rise when a bad one finds its first value.
    total = np.where(there, curves, 0.0).sum(axis=0)
    mean = np.where((n_there > 0) & (n_there == n_known), total / np.maximum(n_there, 1), np.nan)
    ordered = np.sort(curves, axis=0)  # NaN last
    index = np.maximum(np.ceil(np.outer(levels, n_known) - 1e-9).astype(np.int64) - 1, 0)
    quantiles = ordered[index, np.arange(end)]
    steps = np.arange(1, end + 1) if lookups is None else lookups[:end]
    return Curve(steps, mean, quantiles, n_there)
