"""A suite's clock on a table: what each row costs, which can be trained part of the way, and the goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.scores import SCORES, make_goal
from hpobench_nmt.lookup.table import Table, default_tolerance


def rows_with_curve(table: Table) -> NDArray[np.int64]:
    """Row numbers, ascending, of the rows that have a learning curve.

    Raises:
        InputError: the table has no curves.
    """
    if table.curves is None:
        raise InputError(
            f"table {table.name!r} has no learning curves. Whole trainings can be run on a clock if a metric "
            "says what they cost: name it with --cost."
        )
    return np.flatnonzero(table.curves.lengths > 0)


def with_curves(table: Table) -> Table:
    """The table's rows that have a learning curve.

    Raises:
        InputError: the table has no curves.
    """
    rows = rows_with_curve(table)
    if len(rows) == len(table) or table.curves is None:
        return table
    curves = table.curves.of_rows(rows)
    return replace(table, configs=table.configs[rows], values=table.values[rows], curves=curves)


def with_metrics_of_curves(table: Table, objectives: Sequence[str]) -> Table:
    """The table with the metrics that only its curves have, of those named: a row's is its best checkpoint's.

    Every row must have a curve. The same table if there are no such metrics.

    Raises:
        InputError: neither the table nor its curves have a metric that is named.
    """
    curves, named = table.curves, {spec.rpartition(":")[0] or spec for spec in objectives} | set(objectives)
    measured = {metric.name for metric in table.metrics}
    known = measured | {metric.name for metric in (curves.metrics if curves else ())}
    for spec in objectives:
        name = spec.rpartition(":")[0] or spec
        if not known & {name, spec}:
            raise unknown("metric", name, known, f"(table {table.name!r} and its learning curves)")
    more = [metric for metric in curves.metrics if metric.name in named - measured] if curves else []
    if not more or curves is None:
        return table
    columns = [
        (np.fmin if metric.direction == "min" else np.fmax).reduceat(
            curves.column(metric.name), curves.starts[:-1]
        )
        for metric in more
    ]
    values = np.column_stack([table.values, *columns])
    return replace(table, metrics=(*table.metrics, *more), values=values)


def own_objectives(suite: Suite, table: Table) -> tuple[str, ...]:
    """The objectives where the suite names none: the table's own; with curves, the first in the curves."""
    if not suite.curves or table.curves is None:
        return table.objectives[: suite.n_objectives]
    known = [metric.name for metric in table.curves.metrics]
    measured = {metric.name for metric in table.metrics}
    names = [table.objective(spec).metric for spec in table.objectives]
    own = [spec for spec, name in zip(table.objectives, names, strict=True) if name in known]
    own += [name for name in known if name in measured and name not in names]
    first = own[:1]
    others = [spec for spec in (*table.objectives, *own[1:]) if spec not in first]
    return (*first, *others)[: suite.n_objectives] if first else ()


def trainings_of(suite: Suite, table: Table, objectives: Sequence[Objective]) -> Trainings:
    """What it costs to train each row how far: a look-up is a training of one checkpoint and unit cost.

    Raises:
        InputError: the cost is not known, or the first objective is not in the curves.
    """
    where = f"table {table.name!r}"
    if suite.curves:
        return table.trainings(objectives, suite.resume)
    losses = table.losses(objectives)
    if suite.clock == "lookups":
        return Trainings.whole(losses)
    if suite.cost:
        costs = table.column(suite.cost)
        wrong = np.flatnonzero(~(costs >= 0))
        if len(wrong):
            raise InputError(f"{where}, row {wrong[0]}: {suite.cost} is {costs[wrong[0]]:g}, no cost.")
    elif table.curves is not None:
        costs = table.curves.costs[table.curves.starts[1:] - 1]
    if not costs.any():
        raise InputError(f"{where}: every row costs 0, so that no time would pass.")
    return Trainings.whole(losses, costs)


def unit_of(suite: Suite, table: Table) -> str:
    """What the clock counts, in the plural."""
    if suite.clock == "lookups":
        return "look-ups" if suite.workers == 1 else "look-ups per worker"
    if suite.cost:
        return table.metric(suite.cost).unit or suite.cost
    return (table.curves and table.curves.cost_unit) or "cost"


def resources_of(trainings: Trainings) -> Floats:
    """All resources that some row has a checkpoint at, ascending."""
    found = np.unique(trainings.resources)
    found.setflags(write=False)
    return found


def tolerance_of(suite: Suite, table: Table, objectives: Sequence[Objective], losses: Floats) -> float:
    """How near the best of the first objective is near enough for ftc, in its unit.

    It is what the suite says; or else the metric's own; or else that of `default_tolerance` over all rows: a
    constraint does not change what is near.

    Args:
        losses: of all rows, shape (N, m).
    """
    for given in (suite.tolerance_for(table.name), table.metric(objectives[0].metric).tolerance):
        if given is not None:
            return given
    return default_tolerance(losses[:, 0])


def goal_of(
    suite: Suite,
    score: str,
    table: Table,
    tolerance: float,
    losses: Floats,
    trainings: Trainings,
) -> Goal:
    """The goal of one of the suite's scores.

    Args:
        score: its name.
        tolerance: from tolerance_of.
        losses: of all rows, shape (N, m).
        trainings: with NaN in rows that are not feasible.

    Raises:
        InputError: a setting is missing, or every row would meet it.
    """
    where = f"suite {suite.name!r}, table {table.name!r}"
    score_at = suite.score_at_for(table.name) if SCORES[score].needs_score_at else None
    if SCORES[score].needs_score_at and score_at is None:
        unit = "a number of look-ups" if suite.clock == "lookups" else "a time on the clock"
        raise InputError(f"{where}: score {score!r} needs score_at, {unit}.")
    if suite.clock == "lookups" and score_at and suite.lookups and score_at * suite.workers > suite.lookups:
        raise InputError(
            f"{where}: {score} is taken after {score_at * suite.workers} look-ups, but a trial may make only "
            f"{suite.lookups}. Set score_at to {suite.lookups // suite.workers} or less, or lookups to more."
        )
    if score_at is not None and score_at > suite.time_for(table.name):
        raise InputError(
            f"{where}: {score} is taken at {score_at:g}, but a trial ends at {suite.time_for(table.name):g}. "
            "Set score_at to that or less, or time to more."
        )
    goal = make_goal(score, trainings, tolerance=tolerance, score_at=score_at, ties=suite.ties)
    if goal.gaps is not None:
        goal = replace(goal, gaps=counted_gaps(losses, trainings))
    if SCORES[score].needs_tolerance and goal.targets[~np.isnan(losses[:, 0])].all():
        raise InputError(
            f"{where}: every row is within the tolerance of {tolerance:g}. "
            "Set a smaller one, in the suite's [tolerance] or for the metric in the datasheet."
        )
    return goal


def counted_gaps(losses: Floats, trainings: Trainings) -> Floats:
    """Each row's gap to the best in the first loss, shape (N,); one that is not feasible has the worst's.

    Args:
        losses: of all rows, shape (N, m).
        trainings: as in `goal_of`.
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
