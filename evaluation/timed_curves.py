"""How far trials have come over the time of their clock: the curves of curves.py, and runtimes to goals.

A curve of trials has shape (trials, T), one column for each time. Infinite stands where nothing was found
yet, NaN after a trial has ended, unless it ended with all that can be found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.hypervolume import FrontScale, hypervolume_curve
from hpobench_nmt.evaluation.runtime_distribution import Runtimes, defining_value
from hpobench_nmt.evaluation.timed_scores import design_finish


def spaced_times(trials: Sequence[Trajectory], count: int) -> Floats:
    """Times from the first training that finishes to the last one, evenly spaced on a log scale."""
    ends = [trial.timeline.finishes for trial in trials if len(trial.rows)]
    if not ends:
        return np.empty(0)
    last = max(float(times[-1]) for times in ends)
    first = min(float(times[times > 0].min(initial=last)) for times in ends)
    return np.unique(np.geomspace(first, last, count)) if last > first else np.array([last])


def timed_regret(trials: Sequence[Trajectory], best: float, times: Floats) -> Floats:
    """Gap between the least loss found by each time and the best of the table, shape (trials, T)."""
    curves = []
    for trial in trials:
        losses = np.where(np.isnan(trial.losses[:, 0]), np.inf, trial.losses[:, 0])
        curves.append(_at(trial, np.minimum.accumulate(losses) - best, times, np.inf, 0.0))
    return np.array(curves).reshape(len(trials), len(times))


def timed_hypervolume(trials: Sequence[Trajectory], scale: FrontScale, times: Floats) -> Floats:
    """Share of the table's hypervolume by each time, shape (trials, T)."""
    curves = []
    for trial in trials:
        shares = np.minimum(hypervolume_curve(scale.scaled(trial.losses)) / scale.total, 1.0)
        shares[shares > 1.0 - 1e-9] = 1.0
        curves.append(_at(trial, shares, times, 0.0, 1.0))
    return np.array(curves).reshape(len(trials), len(times))


def _at(trial: Trajectory, values: Floats, times: Floats, before: float, end: float) -> Floats:
    """The value that held at each time, of those after each training."""
    finishes = trial.timeline.finishes
    found = np.append(before, values)[np.searchsorted(finishes, times, side="right")]
    over = times > (finishes[-1] if len(finishes) else 0.0)
    if not len(values) or values[-1] != end:
        found[over] = np.nan
    return np.asarray(found)


def timed_runtimes(
    trials: Sequence[Trajectory], goals: Sequence[Goal], trainings: Trainings, n_initial: int
) -> Runtimes:
    """When trials met goals, on their clock; a goal met in the initial design takes the whole of it.

    Args:
        trials: on these trainings.
        goals: from gap_goals or front_goals.
        trainings: of all rows; a row of the front counts once its best checkpoint is reached.
        n_initial: size of the initial design.
    """
    times = np.full((len(trials), len(goals)), np.inf)
    final = trainings.final
    best = float(np.nanmin(final[:, 0]))
    # A gap is a difference of the same two numbers here as in the goal, so that the bits are the same.
    values = [defining_value(goal) for goal in goals]
    for line, trial in zip(times, trials, strict=True):
        if not len(trial.rows):
            continue
        finishes, least = trial.timeline.finishes, design_finish(trial, n_initial)
        regret = np.fmin.accumulate(trial.losses[:, 0]) - best
        whole = (trial.losses == final[trial.candidates]).all(axis=1)
        for j, (goal, value) in enumerate(zip(goals, values, strict=True)):
            if goal.gaps is not None:
                met = np.flatnonzero(regret <= value)
                found = finishes[met[:1]]
            else:
                hits = np.flatnonzero(goal.targets[trial.candidates] & whole)
                _, first = np.unique(trial.candidates[hits], return_index=True)
                found = np.sort(finishes[hits[first]])[goal.needed - 1 : goal.needed]
            if len(found):
                line[j] = max(float(found[0]), least)
    lengths = [float(trial.timeline.finishes[-1]) if len(trial.rows) else 0.0 for trial in trials]
    return Runtimes(times, np.array(lengths))
