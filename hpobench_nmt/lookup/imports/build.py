"""The table of a plan: a row and a learning curve for each configuration, other trainings as replicates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints, Rows
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.objectives import Metric, Objective, measured
from hpobench_nmt.core.system.text import counted, free_name
from hpobench_nmt.core.trainings import not_increasing
from hpobench_nmt.lookup.curves import Curves, Own, until_missing
from hpobench_nmt.lookup.disk.datasheet import values_in
from hpobench_nmt.lookup.disk.described_rows import codes_of_cells
from hpobench_nmt.lookup.groups import configurations_of, means, training_numbers
from hpobench_nmt.lookup.imports.decide import Decision, Plan, seeds_of
from hpobench_nmt.lookup.imports.sweep import Points, Sweep
from hpobench_nmt.lookup.replicates import ReplicateRows, Replicates
from hpobench_nmt.lookup.table import Table

# A row's own value is that of its curve if they differ by no more than this share.
_SAME = 1e-6


def build(
    sweep: Sweep, plan: Plan, name: str, provenance: Mapping[str, str]
) -> tuple[Table, tuple[Decision, ...]]:
    """The table of a sweep according to its plan, and the decisions that were made here. O(cells log T).

    Trainings of the same configuration become replicates. Without learning curves, the rows are their means.
    With learning curves, a row is the first finished training of its configuration, because a curve belongs
    to one training.
    """
    decisions: list[Decision] = []
    hyperparameters = tuple(_hyperparameter(plan, column) for column in plan.axes)
    measured_as = ((plan.names[column], plan.about[column]) for column in plan.metrics)
    metrics = tuple(Metric(name, about.direction or "min", about.unit) for name, about in measured_as)
    axes = zip(hyperparameters, plan.axes.values(), strict=True)
    configs = np.column_stack([codes_of_cells(h, axis.cells, sweep.path) for h, axis in axes])
    first, number = configurations_of(configs)
    seeds = seeds_of(sweep, plan)
    names = tuple(metric.name for metric in metrics)
    replicates, own, values = None, first, plan.values[first]
    curved = sweep.points is not None
    if len(first) < len(configs):
        again = f"{counted(len(configs), 'training')} of {counted(len(first), 'configuration')}"
        numbers = training_numbers(number).astype(np.float64)
        order = np.argsort(number, kind="stable")
        if curved:
            own = _first_finished(number, plan.values)
            values = plan.values[own]
            numbers[own] = 0.0
            order = order[numbers[order] != 0]
            text = f"{again}: the rows are the first trainings, and the others are replicates"
        else:
            values = means(measured(plan.values), number)
            text = f"{again}: the rows are their means"
        decisions.append(Decision("replicates", "", text))
        read = partial(ReplicateRows(configs, numbers, seeds, plan.values).of_trainings, order)
        replicates = Replicates(hyperparameters, names, read, averaged=not curved)
    curves = None
    if sweep.points is not None:
        of_column = dict(zip(plan.metrics, metrics, strict=True))
        taken = {h.name for h in hyperparameters}
        curves, told = _curves(sweep.points, of_column, plan.rows[own], values, taken)
        decisions += told
    objectives = tuple(plan.names[column] for column in plan.metrics if plan.about[column].objective)
    table = Table(
        name, hyperparameters, metrics, configs[first], values, objectives, provenance,
        curves=curves, replicates=replicates,
    )  # fmt: skip
    return table, tuple(decisions)


def _hyperparameter(plan: Plan, column: str) -> Hyperparameter:
    """The hyperparameter of a column, with the values that occur, or as the source holds it."""
    axis, about = plan.axes[column], plan.about[column]
    if about.exact is not None and not about.exact.continuous:
        return about.exact
    values = axis.values or values_in(column, axis.kind, axis.cells)
    conditions = tuple((plan.names[parent], tuple(each)) for parent, each in axis.active_if.items())
    whole = about.exact.integer if about.exact else None
    more = axis.scale, about.unit, axis.kind, whole, conditions
    return Hyperparameter(plan.names[column], tuple(values), *more)


def _first_finished(number: Ints, values: Floats) -> Rows:
    """For each configuration, its first training with all metrics, or its first training if none has all."""
    order = np.lexsort((np.arange(len(number)), np.isnan(values).any(axis=1), number))
    return order[np.searchsorted(number[order], np.arange(number.max() + 1))]


def _curves(
    points: Points, of_column: Mapping[str, Metric], trainings: Rows, values: Floats, taken: set[str]
) -> tuple[Curves | None, list[Decision]]:
    """The learning curves of the rows, and decisions about them.

    `of_column` has the metrics by column, `trainings` the place of each row in the sweep, `values` its
    metrics, and `taken` the names of hyperparameters. The checkpoints are the points at which the first
    metric with curves was measured. A curve ends at the first checkpoint that lacks this metric.
    """
    measured_here = [column for column in of_column if column in points.values]
    left = [column for column in points.values if column not in measured_here]
    told = [Decision("left out", f"curves of {column}", "the table has no such metric") for column in left]
    if not measured_here:
        return None, told
    row_of = np.full(int(max(points.rows.max(), trainings.max())) + 1, -1)
    row_of[trainings] = np.arange(len(trainings))
    there = np.flatnonzero(row_of[points.rows] >= 0)
    there = there[np.lexsort((points.steps[there], row_of[points.rows[there]]))]
    main = measured(points.values[measured_here[0]])
    there = there[~_sparse(main[there], row_of[points.rows[there]])]
    rows, steps, main = row_of[points.rows[there]], points.steps[there], main[there]
    columns = {column: measured(points.values[column][there]) for column in measured_here}
    for column in measured_here[1:]:
        if (np.isnan(columns[column]) & ~np.isnan(main)).any():
            why = f"measured at other steps than {measured_here[0]}"
            told.append(Decision("left out", f"curves of {column}", why))
            del columns[column]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(trainings)))])
    starts, kept = until_missing(starts, main[:, None])
    there, steps = there[kept], steps[kept]
    matrix = np.column_stack([cells[kept] for cells in columns.values()])
    if not len(steps):
        return None, told
    # Only whole steps are counted from 1: tenths of an epoch are what they are.
    shift = 1.0 - steps.min() if steps.min() < 1 and (steps == np.floor(steps)).all() else 0.0
    resources = steps + shift
    costs, unit = _costs(points, there, starts, resources)
    metrics = tuple(of_column[column] for column in columns)
    places = [list(of_column).index(column) for column in columns]
    own = tuple(
        _own(metric, matrix[:, k], starts, values[:, place])
        for k, (metric, place) in enumerate(zip(metrics, places, strict=True))
    )
    taken |= {"row", "checkpoint", "cost", *(metric.name for metric in of_column.values())}
    resource = free_name(points.resource.lstrip("_") or "step", taken)
    curves = Curves(resource, metrics, own, starts, resources, costs, matrix, unit)
    cost = f"cost in {unit}" if unit else "cost in steps, because times are not known"
    shown = ", ".join(metric.name for metric in metrics)
    text = f"{counted(len(steps), 'checkpoint')} of {shown} by {resource}; {cost}"
    told.append(Decision("curves", "", text + (", steps counted from 1" if shift else "")))
    return curves, told


def _sparse(main: Floats, rows: Ints) -> Bools:
    """Which points lack the main metric although a later point of the row has it.

    Only other metrics were measured at these points.
    """
    absent = np.isnan(main)
    measured_at = np.flatnonzero(~absent)
    last = np.full(int(rows.max(initial=-1)) + 1, -1)  # the place of each row's last point with the metric
    np.maximum.at(last, rows[measured_at], measured_at)
    return absent & (np.arange(len(main)) < last[rows])


def _costs(points: Points, there: Rows, starts: Rows, resources: Floats) -> tuple[Floats, str]:
    """The cost up to each checkpoint (seconds if all are known and increase, else the resource); its unit."""
    if points.seconds is None:
        return resources, ""
    costs = points.seconds[there]
    if np.isfinite(costs).all() and (costs > 0).all() and not not_increasing(starts, costs).any():
        return costs, "s"
    return resources, ""


def _own(metric: Metric, curve: Floats, starts: Rows, values: Floats) -> Own | None:
    """Whether the rows' own values are the last or the best of their curves; None if neither.

    They are not the last if a pruned training has a curve but no value.
    """
    some = np.flatnonzero(np.diff(starts) > 0)
    losses = Objective(metric.name, metric.direction).to_loss(curve)
    last = losses[starts[1:][some] - 1]
    best = np.array([np.fmin.reduce(losses[starts[row] : starts[row + 1]]) for row in some])
    wanted = Objective(metric.name, metric.direction).to_loss(values[some])
    known = ~np.isnan(wanted)
    if np.allclose(last, wanted, rtol=_SAME, atol=0.0, equal_nan=True):
        return "last"
    return "best" if np.allclose(best[known], wanted[known], rtol=_SAME, atol=0.0) else None
