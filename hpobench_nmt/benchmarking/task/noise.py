"""Suites with noise = "replicates": every look-up draws one of a row's trainings, which differ in seeds.

The draw depends on the seed, the table and the trial, not on the method. So all methods share their luck in a
trial, as they share the initial design. The losses and constraints that are recorded and scored are those of
the row's mean, and so are costs that are a metric. If costs are those of learning curves, a look-up costs as
much as the drawn training, or, if replicates have no curves, as the row's own training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.replicates import ReplicateLosses
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.groups import means
from hpobench_nmt.lookup.table import Table


def rows_trained_again(table: Table) -> Rows:
    """Row numbers, ascending, of the rows with several trainings; InputError if no row has these."""
    again, counts = table.replicates, np.zeros(len(table), np.int64)
    if again is not None:
        counts += np.bincount(again.by_row(table.configs)[0], minlength=len(table)) - again.averaged
    if not counts.any():
        raise InputError(
            f'table {table.name!r}: noise = "replicates" needs several trainings of a row, and no row has '
            f"these."
        )
    return np.flatnonzero(counts > 0)


def noisy(
    table: Table, objectives: Sequence[Objective], others: Sequence[str], along_curves: bool = False
) -> tuple[ReplicateLosses, Table]:
    """Every training of each row of a table, and the table with the means of its rows' trainings.

    Every row has several trainings.

    If the table's rows are single trainings, they count as well. The objectives' losses are drawn. For the
    metrics `others`, which are those of costs and constraints, the means count. With `along_curves`, the
    costs of trainings are drawn as well, if each of them has a learning curve.

    """
    number, values = np.empty(0, np.int64), table.values[:0]
    if table.replicates is not None:
        number, values = table.replicates.by_row(table.configs)
    averaged = table.replicates is not None and table.replicates.averaged
    if not averaged:
        number = np.concatenate([np.arange(len(table)), number])
        values = np.vstack([table.values, values])
    counts = np.bincount(number, minlength=len(table))
    order = np.argsort(number, kind="stable")
    number, values = number[order], values[order]
    costs = _costs(table) if along_curves else None
    costs = costs if costs is None else costs[order]
    names = [metric.name for metric in table.metrics]
    losses = np.column_stack([o.to_loss(values[:, names.index(o.metric)]) for o in objectives])
    starts = np.concatenate([[0], np.cumsum(counts)])
    if averaged:
        return ReplicateLosses(starts, losses, costs=costs), table
    extra = values[:, [names.index(name) for name in others]]
    return ReplicateLosses(starts, losses, extra, costs), replace(table, values=means(values, number))


def _costs(table: Table) -> Floats | None:
    """The costs of the rows' own trainings and then of their replicates; None if one has no curve."""
    again = table.replicates
    if again is None or again.averaged or table.curves is None or again.rows.curves is None:
        return None
    theirs = again.rows.curves.of_rows(again.places_of(table.configs)[1])
    parts = [table.curves, theirs]
    if any((curves.lengths == 0).any() for curves in parts):
        return None
    return np.concatenate([curves.costs[curves.starts[1:] - 1] for curves in parts])
