"""Curves of trials over the time of their clock: how good a method's result is at each time.

A curve of trials has shape (trials, T), one column for each time. With one worker that looks up rows, the
times are numbers of look-ups. While a trial has seen only failed trainings, its regret is infinite. After a
trial's end, its values are unknown, NaN, unless it ended with the best possible value, which then stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.pareto import FrontScale
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume_curve

# The quartiles bound the middle half of the trials.
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity over trials, against T times.

    Attributes:
        lookups: the times, shape (T,); numbers of look-ups if the clock counts look-ups.
        mean: over the trials, shape (T,); NaN where a trial does not have a value yet.
        quantiles: of the trials, shape (levels, T); infinite where too many trials do not have a value yet.
        trials: how many trials have a value, shape (T,).
    """

    lookups: Ints | Floats
    mean: Floats
    quantiles: Floats
    trials: Ints


def spaced_times(trials: Sequence[Trajectory], count: int) -> Floats:
    """Times from the first finished training to the last, evenly spaced on a log scale."""
    ends = [trial.timeline.finishes for trial in trials if len(trial.rows)]
    if not ends:
        return np.empty(0)
    last = max(float(times[-1]) for times in ends)
    first = min(float(times[times > 0].min(initial=last)) for times in ends)
    return np.unique(np.geomspace(first, last, count)) if last > first else np.array([last])


def simple_regret(trials: Sequence[Trajectory], best: float, times: Floats) -> Floats:
    """Gap between the smallest first loss found by each time and the table's best, shape (trials, T)."""
    curves = []
    for trial in trials:
        losses = np.where(np.isnan(trial.losses[:, 0]), np.inf, trial.losses[:, 0])
        curves.append(_held(trial, np.minimum.accumulate(losses) - best, times, np.inf, 0.0))
    return np.array(curves).reshape(len(trials), len(times))


def hypervolume_shares(trials: Sequence[Trajectory], scale: FrontScale, times: Floats) -> Floats:
    """Share of the table's hypervolume by each time, shape (trials, T)."""
    curves = []
    for trial in trials:
        shares = np.minimum(hypervolume_curve(scale.scaled(trial.losses)) / scale.total, 1.0)
        shares[shares > 1.0 - 1e-9] = 1.0
        curves.append(_held(trial, shares, times, 0.0, 1.0))
    return np.array(curves).reshape(len(trials), len(times))


def _held(trial: Trajectory, values: Floats, times: Floats, before: float, end: float) -> Floats:
    """The value at each time, from the values after each training."""
    finishes = trial.timeline.finishes
    found = np.append(before, values)[np.searchsorted(finishes, times, side="right")]
    over = times > (finishes[-1] if len(finishes) else 0.0)
    if not len(values) or values[-1] != end:
        found[over] = np.nan
    return np.asarray(found)


def summarise_curves(
    curves: Floats,
    levels: Sequence[float] = QUARTILES,
    least_share: float = 1.0,
    lookups: Ints | Floats | None = None,
) -> Curve:
    """Mean and quantiles over the trials whose values are known, of curves of shape (trials, T).

    Each quantile is the value of some trial. The curve ends where fewer than least_share of the trials are
    known; with 1, the mean is over the same trials throughout. `lookups` has the time of each column; by
    default 1, 2, ...
    """
    known = ~np.isnan(curves)
    n_known = known.sum(axis=0)
    short = np.flatnonzero(n_known < max(1, np.ceil(least_share * len(curves))))
    end = int(short[0]) if len(short) else curves.shape[1]
    curves, known, n_known = curves[:, :end], known[:, :end], n_known[:end]
    there = known & ~np.isinf(curves)
    n_there = there.sum(axis=0)
    # A mean over some of the trials would rise when a bad trial finds its first value.
    total = np.where(there, curves, 0.0).sum(axis=0)
    mean = np.where((n_there > 0) & (n_there == n_known), total / np.maximum(n_there, 1), np.nan)
    ordered = np.sort(curves, axis=0)  # NaN last
    index = np.maximum(np.ceil(np.outer(levels, n_known) - 1e-9).astype(np.int64) - 1, 0)
    quantiles = ordered[index, np.arange(end)]
    steps = np.arange(1, end + 1) if lookups is None else lookups[:end]
    return Curve(steps, mean, quantiles, n_there)
