"""The goals of a suite's scores on a table: which rows count, and how near other rows come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.benchmarking.task.clock import Clock
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import short
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.scores import SCORES, counts_from, make_goal
from hpobench_nmt.lookup.table import Table, default_tolerance

TARGET = "target"
"""The name of the goal of "times fewer"."""


def tolerance_of(suite: Suite, table: Table, objectives: Sequence[Objective], losses: Floats) -> float:
    """The tolerance of ftc: how near the best value of the first objective must be reached, in its unit.

    It is the suite's; or else the metric's own; or else that of `default_tolerance` over all rows, because a
    constraint does not change it.

    Args:
        losses: losses of all rows, shape (N, m).
    """
    for given in (suite.tolerance_for(table.name), table.metric(objectives[0].metric).tolerance):
        if given is not None:
            return given
    return default_tolerance(losses[:, 0])


def goals_of(suite: Suite, table: str, clock: Clock, scored: Trainings, tolerance: float) -> tuple[Goal, ...]:
    """The goal of each score of a suite on a table.

    `scored` are the clock's trainings, with NaN in rows that are not feasible; `tolerance` is from
    tolerance_of.

    Raises:
        InputError: a setting is missing, or is beyond the end of a trial.
    """
    return tuple(_goal_of(suite, score, table, clock, scored, tolerance) for score in suite.scores)


def _goal_of(suite: Suite, score: str, table: str, clock: Clock, scored: Trainings, tolerance: float) -> Goal:
    where = f"suite {suite.name!r}, table {table!r}"
    score_at = _taken_at(suite, score, clock, where) if SCORES[score].needs_score_at else None
    try:
        goal = make_goal(score, scored, tolerance=tolerance, score_at=score_at, ties=suite.ties)
    except InputError as error:
        if scored.checkpoints_count:
            raise InputError(f"{where}: {error}") from None
        raise
    if goal.gaps is not None:
        goal = replace(goal, gaps=counted_gaps(clock.trainings.final, scored))
    return goal


def check_goals(suite: Suite, table: str, goals: Sequence[Goal], clock: Clock, tolerance: float) -> None:
    """Refuse a tolerance with which every row meets a goal."""
    known = ~np.isnan(clock.trainings.final[:, 0])
    for goal in goals:
        if SCORES[goal.name].needs_tolerance and goal.targets[known].all():
            raise InputError(
                f"suite {suite.name!r}, table {table!r}: every row is within the tolerance of "
                f"{short(tolerance)}. Set a smaller one, in the suite's [tolerance] or for the metric in the "
                f"datasheet."
            )


def target_goal(scored: Trainings) -> Goal:
    """The goal of "times fewer": a row among the best 2%; with several losses, a row of the front.

    A row counts whose loss is at least as good as that of rank ceil(n / 50) among all n rows. Ties count, and
    missing values are last. Along curves, it counts from the first checkpoint that is so good. If fewer rows
    have a loss, all of these count.
    """
    losses = scored.final
    if losses.shape[1] > 1:
        return replace(make_goal("fto", scored), name=TARGET)
    known = np.sort(losses[~np.isnan(losses[:, 0]), 0])
    worst = known[min(math.ceil(len(losses) / 50), len(known)) - 1]
    good = scored.best[:, 0] <= worst
    targets = losses[:, 0] <= worst
    return Goal(targets, 1, name=TARGET, resources=counts_from(targets, good, scored))


def _taken_at(suite: Suite, score: str, clock: Clock, where: str) -> float:
    at, most = clock.score_at, suite.lookups
    if at is None:
        unit = "a number of look-ups" if suite.clock == "lookups" else "a time on the clock"
        raise InputError(f"{where}: score {score!r} needs score_at, {unit}.")
    if suite.clock == "lookups" and most and at * suite.workers > most:
        raise InputError(
            f"{where}: {score} is measured after {at * suite.workers} look-ups, but a trial may make only "
            f"{most}. Set score_at to {most // suite.workers} or less, or set a larger lookups."
        )
    if at > clock.time:
        raise InputError(
            f"{where}: {score} is measured at time {at:g}, but a trial ends at {clock.time:g}. Set a "
            f"smaller score_at, or a larger time."
        )
    return at


def counted_gaps(losses: Floats, trainings: Trainings) -> Floats:
    """Each row's gap to the best first loss, shape (N,). An infeasible row has the worst feasible gap.

    The losses are those of all rows, shape (N, m). The trainings are `scored` of `goal_of`.
    """
    scored = trainings.final[:, 0]
    gaps = scored - np.nanmin(scored)
    missed = np.isnan(gaps) & ~np.isnan(losses[:, 0])
    if missed.any():
        gaps[missed] = worst_loss(trainings) - np.nanmin(scored)
    return np.asarray(gaps)


def worst_loss(trainings: Trainings) -> float:
    """The largest first loss of a feasible row, at its worst checkpoint."""
    return float(np.nanmax(trainings.best[:, 0]))
