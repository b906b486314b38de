"""Suites with noise = "replicates": every look-up draws one of a row's trainings, which differ in seeds.

The draw depends on the seed, the table and the trial, not on the method. So all methods share their luck in a
trial, as they share the initial design. The losses and constraints that are recorded and scored are those of
the row's mean, and so are costs that are a metric. If costs are those of learning curves, a look-up costs as
much as the drawn training, or, if replicates have no curves, as the row's own training.

Where rows may be looked up again, a row with one training borrows noise: its loss counts as its mean, and it
has BORROWED trainings around it. Their deviations are drawn, with a fixed seed, from those of the NEAREST
rows, by the mean of the first objective, that have several trainings. Noise mostly depends on the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints, Rows
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.replicates import ReplicateLosses
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.groups import means
from hpobench_nmt.lookup.table import Table

NEAREST, BORROWED = 10, 8


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
    names = [metric.name for metric in table.metrics]
    borrowed = 0
    if (counts < 2).any():
        order = np.argsort(number, kind="stable")
        centres = table.values if averaged else means(values[order], number[order])
        columns = [names.index(objective.metric) for objective in objectives]
        number, values, borrowed = _with_borrowed(table.name, number, values, centres, columns)
        counts = np.bincount(number, minlength=len(table))
    order = np.argsort(number, kind="stable")
    number, values = number[order], values[order]
    costs = _costs(table) if along_curves and not borrowed else None
    costs = costs if costs is None else costs[order]
    losses = np.column_stack([o.to_loss(values[:, names.index(o.metric)]) for o in objectives])
    starts = np.concatenate([[0], np.cumsum(counts)])
    if averaged:
        return ReplicateLosses(starts, losses, costs=costs, borrowed=borrowed), table
    extra = values[:, [names.index(name) for name in others]]
    averages = replace(table, values=means(values, number))
    return ReplicateLosses(starts, losses, extra, costs, borrowed), averages


def borrowed_note(borrowed: int, n_rows: int) -> str:
    """How many rows borrow noise, in words."""
    have = "row has one training and borrows" if borrowed == 1 else "rows have one training and borrow"
    return f"{borrowed} of {n_rows:,} {have} the noise of rows with a similar loss"


def _with_borrowed(
    table: str, number: Ints, values: Floats, centres: Floats, columns: Sequence[int]
) -> tuple[Ints, Floats, int]:
    """The trainings, with those of rows that borrow noise: places of rows, shape (T,), metrics, (T, M).

    `centres` are the means of the N rows, shape (N, M). A row whose first objective is missing has one
    training, without it. The last value is the number of rows that borrow.
    """
    counts = np.bincount(number, minlength=len(centres))
    own = counts[number]
    deviations = (values - centres[number])[:, columns] * np.sqrt(own / np.maximum(own - 1, 1))[:, None]
    lent = (own > 1) & ~np.isnan(deviations).any(axis=1)
    deviations, owners = deviations[lent], number[lent]
    if not lent.any():
        raise InputError(f'table {table!r}: noise = "replicates" needs a row with several results.')
    lenders, first = np.unique(owners), columns[0]
    alone = np.flatnonzero((counts < 2) & ~np.isnan(centres[:, first]))
    rng = generator(0, "borrowed noise")
    found = []
    for row in alone:
        order = np.argsort(np.abs(centres[lenders, first] - centres[row, first]), kind="stable")
        drawn = rng.choice(deviations[np.isin(owners, lenders[order[:NEAREST]])], BORROWED)
        found.append(np.repeat(centres[[row]], BORROWED, axis=0))
        found[-1][:, columns] += (drawn - drawn.mean(axis=0)) * np.sqrt(BORROWED / (BORROWED - 1))
    kept, empty = ~np.isin(number, alone), np.setdiff1d(np.flatnonzero(counts == 0), alone)
    places = np.concatenate([number[kept], empty, np.repeat(alone, BORROWED)])
    return places, np.concatenate([values[kept], centres[empty], *found]), len(alone)


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
