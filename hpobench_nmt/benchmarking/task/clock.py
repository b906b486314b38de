"""A suite's clock on a table: what time counts, what each row costs, and how long a trial lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.arrays import Floats, Rows, frozen
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

TRAINING_COST = "training_cost"
"""The objective along curves that is the cost of the training up to each checkpoint."""


@dataclass(frozen=True, eq=False, repr=False)
class Clock:
    """The clock of the trials of a suite on a table.

    Attributes:
        unit: what it counts, in the plural.
        trainings: losses of each row, NaN if missing, and the cost of training it to each checkpoint. A
            look-up is a training of one checkpoint and unit cost.
        lookups: the maximum number of rows that a trial may look up.
        time: the maximum time of a trial; infinite if there is no limit.
        score_at: the time at which scores such as fb are measured; None if the suite does not set it.
        along_curves: whether the costs are those of the table's learning curves.
    """

    unit: str
    trainings: Trainings
    lookups: int
    time: float
    score_at: float | None
    along_curves: bool

    @classmethod
    def of(cls, suite: Suite, table: Table, objectives: Sequence[Objective]) -> Clock:
        """The clock on a table of `clocked_rows`; InputError if costs or the first objective are unknown."""
        n_rows, time = len(table), suite.time_for(table.name)
        most = n_rows if suite.timed else int(min(n_rows, time))
        return cls(
            unit=_unit(suite, table),
            trainings=_trainings(suite, table, objectives),
            lookups=min(suite.lookups or n_rows, most),
            time=time,
            score_at=suite.score_at_for(table.name),
            along_curves=_follows_curves(suite),
        )

    def sampled(self, suite: Suite, trainings: Trainings) -> Clock:
        """The clock on a sample with these trainings.

        A trial may look up as many rows as the suite's `lookups`, or all. On a clock of costs, it instead
        lasts for the time in which random search trains as many rows in the mean.
        """
        n_rows = len(trainings)
        most, time = min(suite.lookups or n_rows, n_rows), self.time
        if suite.clock == "cost":
            most, time = n_rows, min(time, most * float(trainings.whole_costs.mean()) / suite.workers)
        return replace(self, trainings=trainings, lookups=most, time=time)

    @cached_property
    def resources(self) -> Floats:
        """All resources at which some row has a checkpoint, ascending, read-only."""
        return frozen(np.unique(self.trainings.resources))


def _trainings(suite: Suite, table: Table, objectives: Sequence[Objective]) -> Trainings:
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
            raise InputError(
                f"{where}, row {wrong[0]}: {suite.cost} is {costs[wrong[0]]:g}, which is not a cost."
            )
    elif table.curves is not None:
        costs = table.curves.costs[table.curves.starts[1:] - 1]
    if not costs.any():
        raise InputError(f"{where}: every row costs 0, so time would not pass.")
    return Trainings.whole(losses, costs)


def _unit(suite: Suite, table: Table) -> str:
    if suite.clock == "lookups":
        return "look-ups" if suite.workers == 1 else "look-ups per worker"
    if suite.cost:
        return table.metric(suite.cost).unit or suite.cost
    return (table.curves and table.curves.cost_unit) or "cost"


def rows_with_curve(table: Table) -> Rows:
    """Row numbers, ascending, of the rows that have a learning curve; InputError if the table has none."""
    if table.curves is None:
        raise InputError(
            f"table {table.name!r} has no learning curves. To run whole trainings on a clock, name the "
            f"metric of their cost: cost=METRIC."
        )
    return np.flatnonzero(table.curves.lengths > 0)


def clocked_rows(suite: Suite, table: Table) -> Table:
    """The rows of a table whose costs the suite's clock knows, with all metrics that the suite can optimise.

    Raises InputError if the suite needs curves that the table lacks, or if neither the table nor its curves
    have a metric that the suite names.
    """
    if _follows_curves(suite):
        rows = rows_with_curve(table)
        if table.curves is not None and len(rows) < len(table):
            table = table.of_rows(rows)
    if not suite.curves:
        return table
    return with_metrics_of_curves(table, suite.objectives or own_objectives(suite, table))


def _follows_curves(suite: Suite) -> bool:
    """Whether the cost of a training is that of its learning curve."""
    return suite.curves or (suite.clock == "cost" and not suite.cost)


def with_metrics_of_curves(table: Table, objectives: Sequence[str]) -> Table:
    """The table with those metrics of `objectives` that only its curves have.

    A row's value is the best of its checkpoints. For `TRAINING_COST`, it is the cost of the whole training.
    Every row must have a curve.
    """
    named = {spec.rpartition(":")[0] or spec for spec in objectives} | set(objectives)
    measured = {metric.name for metric in table.metrics}
    if TRAINING_COST in named - measured:
        table = replace(table, curves=_with_cost(table, objectives[0]))
    curves = table.curves
    known = measured | {metric.name for metric in (curves.metrics if curves else ())}
    for spec in objectives:
        name = spec.rpartition(":")[0] or spec
        if not known & {name, spec}:
            raise unknown("metric", name, known, f"(table {table.name!r} and its learning curves)")
    more = [metric for metric in curves.metrics if metric.name in named - measured] if curves else []
    if not more or curves is None:
        return table
    best = {"min": np.fmin, "max": np.fmax}
    columns = [
        (np.fmax if m.name == TRAINING_COST else best[m.direction]).reduceat(
            curves.column(m.name), curves.starts[:-1]
        )
        for m in more
    ]
    values = np.column_stack([table.values, *columns])
    # Look-ups along curves do not draw replicates, for which these metrics were not measured.
    return replace(table, metrics=(*table.metrics, *more), values=values, replicates=None)


def _with_cost(table: Table, first: str) -> Curves | None:
    """The table's curves, with the cost of training up to each checkpoint as another metric."""
    curves = table.curves
    if curves is None or TRAINING_COST in {metric.name for metric in curves.metrics}:
        return curves
    if first.partition(":")[0] == TRAINING_COST:
        raise InputError(
            f"table {table.name!r}: {TRAINING_COST} cannot be the first objective, because the first "
            f"objective decides which checkpoint of a row is the best. Name a metric of quality first."
        )
    metrics = (*curves.metrics, Metric(TRAINING_COST, "min", curves.cost_unit))
    values = np.column_stack([curves.values, curves.costs])
    return replace(curves, metrics=metrics, own=(*curves.own, None), values=values)


def own_objectives(suite: Suite, table: Table) -> tuple[str, ...]:
    """The objectives if the suite names none: the table's own. With curves, the first must be in the curves.

    If the curves measure a metric in another way, their metric is used.
    """
    curves = table.curves
    if not suite.curves or curves is None:
        return table.objectives[: suite.n_objectives]
    known = [metric.name for metric in curves.metrics]
    followed = {metric.name: curves.counterpart(metric.name) for metric in table.metrics}
    metrics = [table.objective(spec).metric for spec in table.objectives]
    names = [followed[metric] or metric for metric in metrics]
    specs = [
        spec if name == metric else name
        for spec, name, metric in zip(table.objectives, names, metrics, strict=True)
    ]
    own = [spec for spec, name in zip(specs, names, strict=True) if name in known]
    own += [name for name in known if name in followed.values() and name not in names]
    first = own[:1]
    others = [spec for spec in (*specs, *own[1:]) if spec not in first]
    return (*first, *others)[: suite.n_objectives] if first else ()
