"""Which rows of a table keep a suite's constraints, and the losses that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Constraint, is_feasible
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.lookup.table import Table


def table_violations(table: Table, constraints: Sequence[str]) -> Floats | None:
    """By how much each row misses each constraint, shape (N, c); None without constraints.

    Raises InputError if a constraint cannot be read, or is on a metric that the table lacks.
    """
    if not constraints:
        return None
    parsed = [Constraint.parse(text) for text in constraints]
    return np.column_stack([each.violations(table.column(each.metric)) for each in parsed])


def feasible_losses(losses: Floats, violations: Floats | None) -> Floats:
    """Losses with NaN in all rows that miss a constraint; the same array without constraints."""
    if violations is None:
        return losses
    return np.where(is_feasible(violations)[:, None], losses, np.nan)


def feasible_trainings(trainings: Trainings, violations: Floats | None) -> Trainings:
    """The trainings, with NaN losses at all checkpoints of rows that miss a constraint, if there are any."""
    if violations is None:
        return trainings
    kept = np.repeat(is_feasible(violations), np.diff(trainings.starts))
    return replace(trainings, losses=np.where(kept[:, None], trainings.losses, np.nan))


def why_infeasible(table: Table, constraints: Sequence[str]) -> str:
    """Why no row is feasible: a constraint that no row keeps and how near one comes, or all constraints."""
    for text in constraints:
        constraint = Constraint.parse(text)
        values = table.column(constraint.metric)
        if not (constraint.violations(values) <= 0).any():
            known = values[~np.isnan(values)]
            if not len(known):
                return f"no row keeps {text}: {constraint.metric} is missing in all rows."
            nearest = known.min() if constraint.relation == "<=" else known.max()
            return f"no row keeps {text}: the nearest has {constraint.metric} {nearest:g}."
    return f"no row that has all objectives keeps {' and '.join(constraints)}."
