"""A table as a function of a configuration, even if its grid is incomplete."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.space import Config

if TYPE_CHECKING:
    from hpobench_nmt.lookup.table import Table

Otherwise = Literal["error", "none", "nearest"]
"""What to do if a configuration has no row, or the row lacks a metric."""


def row_finder(
    table: Table, metrics: Sequence[str], otherwise: Otherwise
) -> Callable[[Config], tuple[int | None, str]]:
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
            values = table.lookup(config)
            lacking = " and no ".join(metric for metric in metrics if math.isnan(values[metric]))
            reason = f"table {table.name!r}: this row has no {lacking}." if lacking else ""
        except InputError as error:
            reason = str(error)
        if not reason:
            return row, ""
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


def loss_function(
    table: Table, objectives: Sequence[str | Objective], otherwise: Otherwise
) -> Callable[[Config], float | list[float] | None]:
    """See `Table.function`."""
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
