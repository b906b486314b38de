"""Scores of trials on a clock: when a target was met, and how far a trial had come at a given time.

They are those of scores.py with finish times for numbers of look-ups. A row counts from the first checkpoint
whose best loss so far is as good as the target asks. A row of a Pareto front counts once its best checkpoint
is reached.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.scores import SCORES, Ties, make_goal

Floats = NDArray[np.float64]


def make_timed_goal(
    name: str,
    trainings: Trainings,
    *,
    tolerance: float = 0.0,
    score_at: float | None = None,
    ties: Ties = "any",
) -> Goal:
    """The goal of a score on trainings. O(P) for P checkpoints.

    Args:
        name: one of SCORES.
        trainings: of all rows.
        tolerance: of ftc, in the unit of the loss.
        score_at: time on the clock at which fb and fbp are taken.
        ties: as in make_goal.

    Raises:
        InputError: as make_goal.
    """
    final = trainings.final
    goal = make_goal(name, final, tolerance=tolerance, score_at=None if score_at is None else 1, ties=ties)
    starts = trainings.starts
    rows = np.repeat(np.arange(len(final)), np.diff(starts))
    if SCORES[name].n_objectives == 1:
        # The best of all checkpoints is that of the rows, so that the same rule holds for both.
        good = SCORES[name].goal(trainings.best, tolerance, "any").targets
    else:
        good = (trainings.best == final[rows]).all(axis=1)
    good = good & goal.targets[rows]
    first = np.full(len(final), len(good))
    np.minimum.at(first, rows[good], np.flatnonzero(good))
    resources = np.where(goal.targets, np.append(trainings.resources, np.inf)[first], np.inf)
    return replace(goal, score_at=None if goal.score_at is None else score_at, resources=resources)


def timed_answer(goal: Goal, trial: Trajectory, trainings: Trainings, least: float = 0.0) -> float:
    """The score of one trial on its clock; NaN where it ended before its target. O(n log n) for n trainings.

    Args:
        goal: from make_timed_goal.
        trial: what was trained, and when.
        trainings: as in make_timed_goal.
        least: when the initial design was over; a runtime is never less.

    Returns:
        of a runtime, the finish time of the training with which the target was met; otherwise what had been
        found at `score_at`: the smallest gap (NaN if nothing had), or the number of targets.
    """
    time = trial.timeline
    if goal.gaps is not None and goal.score_at is not None:
        losses = trial.losses[time.finishes <= goal.score_at, 0]
        known = losses[~np.isnan(losses)]
        return float(known.min() - np.nanmin(trainings.final[:, 0])) if len(known) else np.nan
    counts = goal.targets[trial.rows]
    if goal.resources is not None:
        counts = counts & (time.resources >= goal.resources[trial.rows])
    hits = np.flatnonzero(counts)
    # The first time that each target row counts; trainings are in the order of finishing.
    _, first = np.unique(trial.rows[hits], return_index=True)
    met = np.sort(time.finishes[hits[first]])
    if goal.score_at is not None:
        return float((met <= goal.score_at).sum())
    return max(least, float(met[goal.needed - 1])) if len(met) >= goal.needed else np.nan


def exact_cost_of_random_search(targets: NDArray[np.bool_], costs: Floats) -> tuple[float, float]:
    """Mean and standard deviation of the cost until random search has one of the targets, with one worker.

    Every row is trained to its end, in a random order without an initial design. Each of the other rows comes
    before all of the k targets with probability 1/(k + 1), and two of them both do with 2/((k + 1)(k + 2)).
    The target that comes first is any of them, and which one does not depend on what came before it.

    Args:
        targets: True for each row that counts, shape (N,).
        costs: of training each row to its end, shape (N,).

    Returns:
        NaN where there is no target.
    """
    k = int(targets.sum())
    if k == 0:
        return np.nan, np.nan
    own, others = costs[targets], costs[~targets]
    one, both = 1 / (k + 1), 2 / ((k + 1) * (k + 2))
    squares = float((others**2).sum())
    before = one * squares + both * (others.sum() ** 2 - squares) - (one * others.sum()) ** 2
    return float(one * others.sum() + own.mean()), float(np.sqrt(max(before, 0.0) + own.var()))
