"""The goals of a suite's scores on a table: which rows count, and how near other rows come."""

from __future__ import annotations

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
from hpobench_nmt.evaluation.scores import SCORES, make_goal
from hpobench_nmt.lookup.table import Table, default_tolerance


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


def goal_of(
    suite: Suite, score: str, table: Table, clock: Clock, scored: Trainings, tolerance: float
) -> Goal:
    """The goal of one of the suite's scores.

    `scored` are the clock's trainings, with NaN in rows that are not feasible; `tolerance` is from
    tolerance_of.

    Raises:
        InputError: a setting is missing, or every row would meet the goal.
    """
    where = f"suite {suite.name!r}, table {table.name!r}"
    score_at = _taken_at(suite, score, clock, where) if SCORES[score].needs_score_at else None
    losses = clock.trainings.final
    try:
        goal = make_goal(score, scored, tolerance=tolerance, score_at=score_at, ties=suite.ties)
    except InputError as error:
        if scored.checkpoints_count:
            raise InputError(f"{where}: {error}") from None
        raise
    if goal.gaps is not None:
        goal = replace(goal, gaps=counted_gaps(losses, scored))
    if SCORES[score].needs_tolerance and goal.targets[~np.isnan(losses[:, 0])].all():
        raise InputError(
            f"{where}: every row is within the tolerance of {short(tolerance)}. "
            "Set a smaller one, in the suite's [tolerance] or for the metric in the datasheet."
        )
    return goal


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
