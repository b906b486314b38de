"""A table as a function of a configuration, which may have no row, or a row without a metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np

from hpobench_nmt.core.objectives import Objectives
from hpobench_nmt.core.space import Config
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.lookup.table import Otherwise, Table

Function = Callable[[Config], float | list[float] | None]
Finder = Callable[[Config], tuple[int | None, str]]


def table_function(table: Table, objectives: Objectives, otherwise: Otherwise) -> Function:
    """The function of `Table.function`, which describes the arguments."""
    goals = [table.objective(goal) for goal in objectives or [table.main_metric]]
    find = row_finder(table, [goal.metric for goal in goals], otherwise)
    losses = table.losses(goals)

    def function(config: Config) -> float | list[float] | None:
        row = find(config)[0]
        if row is None:
            return None
        found: list[float] = losses[row].tolist()
        return found[0] if len(found) == 1 else found

    return function


def row_finder(table: Table, metrics: Sequence[str], otherwise: Otherwise) -> Finder:
    """A function that finds the row of a configuration that has all of these metrics.

    It returns the row and an empty text. If there is no such row, `otherwise` decides: "error" raises an
    InputError, "none" returns None and the reason, and "nearest" returns the row with the nearest features
    among those with all of the metrics, and the reason. Of equally near rows, the first counts. O(N F).
    """
    if otherwise not in get_args(Otherwise):
        raise unknown("choice", str(otherwise), get_args(Otherwise), "(otherwise)")
    complete = np.flatnonzero(~np.isnan(np.column_stack([table.column(m) for m in metrics])).any(axis=1))
    if not len(complete):
        raise InputError(f"table {table.name!r}: no row has {' and '.join(metrics)}.")

    def find(config: Config) -> tuple[int | None, str]:
        try:
            row = table.row(config)
        except InputError as error:
            reason = str(error)
        else:
            lacking = " and no ".join(m for m in metrics if np.isnan(table.column(m)[row]))
            if not lacking:
                return row, ""
            reason = f"table {table.name!r}: this row has no {lacking}."
        if otherwise == "error":
            raise InputError(reason)
        if otherwise == "none":
            return None, reason
        if table.descriptors:
            raise InputError(
                f"table {table.name!r} has features that are not hyperparameters, so the nearest row cannot "
                f"be computed."
            )
        here = table.space.features(table.space.encode(config)[None])
        gaps = ((table.features[complete] - here) ** 2).sum(axis=1)
        return int(complete[gaps.argmin()]), reason

    return find
