"""Scores of trials on a clock: when a target was met, and how far a trial had come at a given time.

They are those of scores.py with finish times for numbers of look-ups. A row counts from the first checkpoint
whose best loss so far is as good as the target asks. A row of a Pareto front counts once its best checkpoint
is reached.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.scores import SCORES, Ties, make_goal


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
        score_at: time on the clock at which fb, fbp and fbh are taken.
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


def timed_answer(
    goal: Goal, trial: Trajectory, trainings: Trainings, least: float = 0.0, lookups: int | None = None
) -> float:
    """The score of one trial on its clock; NaN where it ended before its target. O(n log n) for n trainings.

    Args:
        goal: from make_timed_goal.
        trial: what was trained, and when.
        trainings: as in make_timed_goal.
        least: when the initial design was over; a runtime is never less.
        lookups: the most rows that the trial may have begun; None: all. A trial that has come to this number,
            or has failed, may have ended before the score is taken, and then has none.

    Returns:
        of a runtime, the finish time of the training with which the target was met; otherwise what had been
        found at `score_at`: the smallest gap (NaN if nothing had), the number of targets, or the share of the
        hypervolume.
    """
    time = trial.timeline
    counts = goal.targets[trial.candidates]
    if goal.resources is not None:
        counts = counts & (time.resources >= goal.resources[trial.candidates])
    hits = np.flatnonzero(counts)
    # The first time that each target row counts; trainings are in the order of finishing.
    _, first = np.unique(trial.candidates[hits], return_index=True)
    met = np.sort(time.finishes[hits[first]])
    if goal.score_at is None:
        return max(least, float(met[goal.needed - 1])) if len(met) >= goal.needed else np.nan
    over = len(trial.rows) > 0 and time.finishes[-1] >= goal.score_at
    if not over and len(met) < goal.needed and _ended_early(trial, len(trainings), lookups):
        return np.nan
    until = time.finishes <= goal.score_at
    if goal.gaps is not None:
        losses = trial.losses[until, 0]
        known = losses[~np.isnan(losses)]
        return float(known.min() - np.nanmin(trainings.final[:, 0])) if len(known) else np.nan
    if goal.points is not None:
        total = hypervolume(goal.points[goal.targets])
        points = table_scale(trainings.final).scaled(trial.losses[until])
        return min(hypervolume(points) / total, 1.0)
    return float((met <= goal.score_at).sum())


def _ended_early(trial: Trajectory, n_rows: int, lookups: int | None) -> bool:
    begun = len(np.unique(trial.rows))
    return bool(trial.failure) or (lookups is not None and lookups <= begun < n_rows)


def design_finish(trial: Trajectory, n_initial: int) -> float:
    """When the initial design of a trial was over: the rows that were begun first, each trained whole."""
    time = trial.timeline
    # Of trainings that begin at the same time, the workers are in the order of the requests.
    order = np.lexsort((time.workers, time.starts))
    if (time.finishes == time.starts).any():
        # A worker whose training took no time begins again at once, but after the others have begun.
        same = (np.diff(time.starts[order]) == 0) & (np.diff(time.workers[order]) == 0)
        place = np.arange(len(order))
        turns = np.empty_like(place)
        turns[order] = place - np.maximum.accumulate(np.where(np.append(False, same), 0, place))
        order = np.lexsort((time.workers, turns, time.starts))
    return float(time.finishes[order[:n_initial]].max(initial=0.0))


def exact_cost_of_random_search(
    targets: NDArray[np.bool_], costs: Floats, needed: int = 1, n_initial: int = 0
) -> tuple[float, float]:
    """Mean and standard deviation of the cost until random search has enough targets, with one worker.

    Every row is trained to its end, in a random order. Each row that is no target comes before the j-th of k
    targets with probability j / (k + 1), and two of them both do with j (j + 1) / ((k + 1) (k + 2)). The j
    targets that come first are any of them, and which ones does not depend on the other rows.

    Args:
        targets: True for each row that counts, shape (N,).
        costs: of training each row to its end, shape (N,).
        needed: j.
        n_initial: size of the initial design; targets met within it take the cost of the whole design.

    Returns:
        NaN where there are too few targets. The standard deviation is known for a design of one row or none.
    """
    n, k, j = len(targets), int(targets.sum()), needed
    if k < j:
        return np.nan, np.nan
    own, others = costs[targets], costs[~targets]
    one, both = j / (k + 1), j * (j + 1) / ((k + 1) * (k + 2))
    squares = float((others**2).sum())
    before = one * squares + both * (others.sum() ** 2 - squares) - (one * others.sum()) ** 2
    among = j * (k - j) / (k - 1) * own.var() if k > 1 else 0.0
    mean, std = float(one * others.sum() + j * own.mean()), float(np.sqrt(max(before, 0.0) + among))
    if n_initial < 2:
        return mean, std
    # The i-th row of the design counts besides where the targets were met before it.
    earlier = np.arange(1, n_initial)
    from scipy.stats import hypergeom

    after_other = hypergeom.sf(j - 1, n - 1, k, earlier) if k < n else np.zeros(len(earlier))
    after_target = hypergeom.sf(j - 1, n - 1, k - 1, earlier)
    mean += float((others.sum() * after_other.sum() + own.sum() * after_target.sum()) / n)
    return mean, np.nan
