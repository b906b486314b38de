"""Runtimes to many goals: empirical distributions and expected running times, as in COCO (Hansen et al. 2016,
2021). COCO calls the goals targets.

A table defines a sequence of goals, from easy to hard. A trial's runtime to a goal is the number of look-ups,
or the time on the clock, until it met the goal. A goal met in the initial design takes the whole design, as
in the scores. The distribution is the share of (trial, goal) pairs met within t look-ups. The expected
running time (ERT) of a goal is the number of look-ups of all trials, until they met it or ended, divided by
the number of trials that met it.

Trials often end early, and not by chance: a run that ends trials once their scores are settled ends good
trials first. The runtime to a goal that was still open at the end is unknown. It can be treated neither as a
failure nor as a censored lifetime. So only goals that the scores had to settle are used (`is_settled`). With
ftb or fta, these are all goals. If a trial has an open goal among these, it ended at a number of look-ups
that all trials share, or it failed and never meets the goal. Until the first such end, the share is exact.
From there on it is a lower bound, and marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.intervals import CONFIDENCE, RESAMPLES, resampled_sums
from hpobench_nmt.evaluation.scores import MOST_TARGETS, counts_from, design_finish, first_alike

MAX_GOALS = 20
_SEED = 0


@dataclass(frozen=True, eq=False)
class Runtimes:
    """Look-ups until goals were met, infinite if not, shape (trials, goals), and lengths of trials."""

    times: Floats
    lengths: Floats

    @property
    def exact_until(self) -> float:
        """The number of look-ups up to which all met goals are known."""
        open_ended = np.isinf(self.times).any(axis=1)
        return float(self.lengths[open_ended].min()) if open_ended.any() else np.inf


def gap_goals(trainings: Trainings, n_goals: int = MAX_GOALS, merged: bool = True) -> list[Goal]:
    """At most n_goals goals for one loss: a row among the best half, ..., the best row.

    The shares of the table are evenly spaced on a log scale, so that random search meets about equally many
    goals with every doubling of its look-ups, in every table. Rows that tie with the last row of a goal count
    as well. Equal goals are merged. If not `merged`, they are as many for any losses of as many rows, and
    named by their rank.
    """
    if n_goals < 1:
        raise InputError(f"there must be at least one target, not {n_goals}.")
    losses = trainings.final[:, 0]
    ordered = np.sort(losses[~np.isnan(losses)])
    if len(ordered) == 0:
        raise InputError("no row has a value.")
    best = ordered[0]
    gaps, so_far = losses - best, trainings.best[:, 0] - best
    count = len(ordered) if merged else len(losses)
    ranks = np.unique(np.rint(np.geomspace(1, max(1, count // 2), n_goals)).astype(np.int64))[::-1]
    values = ordered[np.minimum(ranks, len(ordered)) - 1] - best
    if merged:
        values = np.unique(values)[::-1]
    goals = []
    for i, value in enumerate(values.tolist()):
        rows = gaps <= value
        among = int(rows.sum()) if merged else int(ranks[i])
        best_one = value == 0 if merged else among == 1
        name = "the best value" if best_one else f"among the best {among} rows"
        resources = counts_from(rows, so_far <= value, trainings)
        goals.append(Goal(rows, 1, gaps=gaps, name=name, resources=resources))
    return goals


def front_goals(trainings: Trainings) -> list[Goal]:
    """Goals for several losses: to find one model of the Pareto front, two, ..., all.

    For a front of more than MOST_TARGETS checkpoints, at most MAX_GOALS numbers, evenly spaced on a log
    scale.
    """
    losses = trainings.models
    front = np.zeros(len(losses), dtype=bool)
    front[pareto_front(losses)] = True
    if not front.any():
        raise InputError("no row has all objectives.")
    rows, what = None, "rows"
    if trainings.checkpoints_count:
        front, rows, what = first_alike(front, trainings), trainings.owners, "checkpoints"
    count = int(front.sum())
    needed = list(range(1, count + 1))
    if rows is not None and count > MOST_TARGETS:
        needed = np.unique(np.rint(np.geomspace(1, count, MAX_GOALS)).astype(np.int64)).tolist()
    return [
        Goal(front, n, name=f"{n} of {count} front {what}", resources=trainings.resources, rows=rows)
        for n in needed
    ]


def defining_value(goal: Goal) -> float:
    """The largest gap that meets a goal of gap_goals, or the number of rows that one of front_goals needs."""
    return float(goal.needed if goal.gaps is None else goal.gaps[goal.targets].max())


def is_settled(wanted: Goal, goals: Iterable[Goal]) -> bool:
    """Whether every trial that runs until all goals are settled has met the wanted goal.

    It has if some runtime's goal needs enough rows: even without its targets that do not count for the wanted
    goal, or that count for it only after more training, the others meet the wanted goal. If all goals are
    settled after a fixed number of look-ups, the answer is yes for any goal.
    """
    endless = [goal for goal in goals if goal.score_at is None]
    if not endless:
        return True
    # Along curves, a row may meet a goal at an earlier checkpoint than the wanted one. The comparison is also
    # false for a row that is not a target of both, because one of its resources is NaN.
    return any(
        goal.needed - int((goal.targets & ~(wanted.counts_from <= goal.counts_from)).sum()) >= wanted.needed
        for goal in endless
    )


def runtimes(trials: Sequence[Trajectory], goals: Sequence[Goal], n_initial: int) -> Runtimes:
    """When trials met goals, on their clock. A goal met in the initial design takes the whole design."""
    times = np.full((len(trials), len(goals)), np.inf)
    lengths = np.zeros(len(trials))
    needed = np.array([goal.needed for goal in goals])
    for i, trial in enumerate(trials):
        if len(trial.rows) == 0:
            continue
        time = trial.timeline
        counts = np.array([goal.met_by(trial) for goal in goals])
        met = np.cumsum(counts, axis=1) >= needed[:, None]
        found = met.any(axis=1)
        finishes = time.finishes[met[found].argmax(axis=1)]
        times[i, found] = np.maximum(finishes, design_finish(trial, n_initial))
        lengths[i] = time.finishes[-1]
    return Runtimes(times, lengths)


def share_met(times: Floats, lookups: Floats) -> Floats:
    """Share of (trial, goal) pairs met within each number of look-ups, shape (len(lookups),)."""
    return np.searchsorted(np.sort(times, axis=None), lookups, side="right") / times.size


@dataclass(frozen=True, eq=False)
class ExpectedRuntimes:
    """ERT of each goal, all arrays of shape (goals,).

    Attributes:
        ert: look-ups of all trials until they met the goal or ended, divided by successes; infinite without a
            success.
        low, high: percentile bootstrap interval over trials.
        successes: number of trials that met the goal.
        lookups: look-ups of all trials, the numerator of ert.
    """

    ert: Floats
    low: Floats
    high: Floats
    successes: Ints
    lookups: Floats


def expected_runtimes(found: Runtimes, resamples: int = RESAMPLES) -> ExpectedRuntimes:
    """Expected running times, with intervals. O(resamples trials goals)."""
    met = np.isfinite(found.times)
    spent = np.where(met, found.times, found.lengths[:, None])
    successes, lookups = met.sum(axis=0), spent.sum(axis=0)
    ert = np.where(successes > 0, lookups / np.maximum(successes, 1), np.inf)
    met_again = resampled_sums(met.astype(np.float64), resamples, _SEED)
    spent_again = resampled_sums(spent, resamples, _SEED)
    drawn = np.where(met_again > 0, spent_again / np.maximum(met_again, 1), np.inf)
    # Order statistics, because infinite values cannot be interpolated.
    cut = int((1 - CONFIDENCE) / 2 * resamples)
    ordered = np.sort(drawn, axis=0)
    low, high = ordered[cut], ordered[resamples - 1 - cut]
    if len(spent) < 2:
        low, high = np.full_like(ert, np.nan), np.full_like(ert, np.nan)
    return ExpectedRuntimes(ert, low, high, successes, lookups)
