"""The Pareto front of a table or of any CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.clock import rows_with_curve, with_metrics_of_curves
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.text import free_name
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.rows import number_column, read_csv
from hpobench_nmt.lookup.table import Table


@dataclass(frozen=True, eq=False)
class Front:
    """A front and what it is the front of.

    Attributes:
        name: of the table or file.
        metrics: names of the objectives.
        labels: the same with their units, where these are known.
        points: raw values of the objectives, shape (N, m).
        maximised: by objective, whether the largest value is the best.
        kept: which rows have every objective and keep all constraints, shape (N,).
        rows: the front's rows with all columns, best first by the first objective.
        n_rows, n_complete: rows in all, and those that are kept.
    """

    name: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    points: NDArray[np.float64]
    maximised: tuple[bool, ...]
    kept: NDArray[np.bool_]
    rows: pd.DataFrame
    n_rows: int
    n_complete: int


def front_of(
    source: str, objectives: Sequence[str], constraints: Sequence[str] = (), curves: bool = False
) -> Front:
    """The front of a table (by name or folder) or of a CSV file (by a path that ends in .csv).

    Objectives are "metric:min" or "metric:max"; a table knows its metrics' directions itself. Only rows count
    that keep the constraints, such as "dev_gpu_time<=60", on any metric or column of numbers. With `curves`
    it is the front of all checkpoints of a table.
    """
    rules = [Constraint.parse(text) for text in constraints]
    if not source.lower().endswith(".csv"):
        table = load_table(source)
        return checkpoint_front(table, objectives, rules) if curves else table_front(table, objectives, rules)
    if curves:
        raise InputError(f"{source}: a CSV file has no learning curves.")
    frame, columns, maximised = _from_csv(Path(source), objectives)
    for rule in rules:
        if rule.metric not in frame.columns:
            raise unknown("column", rule.metric, map(str, frame.columns), f"({source})")
        frame[rule.metric] = number_column(frame, rule.metric, Path(source))
    return _front(Path(source).stem, source, frame, columns, columns, maximised, rules)


def table_front(table: Table, objectives: Sequence[str], constraints: Sequence[Constraint] = ()) -> Front:
    """The front of a table; the objectives are "metric", "metric:min" or "metric:max"."""
    for rule in constraints:
        table.metric(rule.metric)
    parsed = [table.objective(spec) for spec in objectives]
    metrics = [o.metric for o in parsed]
    labels = [table.metric(name).label for name in metrics]
    maximised = [o.direction == "max" for o in parsed]
    where, frame = f"table {table.name!r}", table.to_frame()
    return _front(table.name, where, frame, metrics, labels, maximised, constraints)


def checkpoint_front(
    table: Table, objectives: Sequence[str], constraints: Sequence[Constraint] = ()
) -> Front:
    """The front of all checkpoints of a table's learning curves, one of which may be `training_cost`.

    A metric that the curves lack is the row's own; so is one in a constraint that they lack. Of one row's
    checkpoints with equal values the first is on the front.
    """
    kept = rows_with_curve(table)
    for rule in constraints:
        table.metric(rule.metric)
    assert table.curves is not None
    part = replace(
        table,
        configs=table.configs[kept],
        values=table.values[kept],
        curves=table.curves.of_rows(kept),
        descriptors=table.descriptors and table.descriptors.of_rows(kept),
        replicates=None,
    )
    part = with_metrics_of_curves(part, objectives)
    curves, parsed = part.curves, [part.objective(spec) for spec in objectives]
    assert curves is not None
    owners = np.repeat(np.arange(len(kept)), curves.lengths)
    frame = table.to_frame().iloc[kept[owners]].copy()
    frame[curves.resource] = curves.resources
    for metric in curves.metrics:
        frame[metric.name] = curves.column(metric.name)
    metrics = [objective.metric for objective in parsed]
    alike = [frame[metric].to_numpy(np.float64) for metric in metrics]
    first = np.sort(np.unique(np.column_stack([owners, *alike]), axis=0, return_index=True)[1])
    frame = frame.iloc[first]
    labels = [part.metric(name).label for name in metrics]
    maximised = [objective.direction == "max" for objective in parsed]
    return _front(table.name, f"table {table.name!r}", frame, metrics, labels, maximised, constraints)


def _front(
    name: str,
    where: str,
    frame: pd.DataFrame,
    metrics: Sequence[str],
    labels: Sequence[str],
    maximised: Sequence[bool],
    constraints: Sequence[Constraint],
) -> Front:
    if len(set(metrics)) < len(metrics):
        raise InputError("the same objective twice.")
    points = np.column_stack([frame[metric].to_numpy(np.float64) for metric in metrics])
    losses = np.where(maximised, -points, points)
    complete = np.asarray(~np.isnan(losses).any(axis=1))
    if not complete.any():
        wanted = f"both {' and '.join(metrics)}" if len(metrics) == 2 else f"all of {', '.join(metrics)}"
        raise InputError(f"{where}: no row has {wanted}.")
    for rule in constraints:
        complete &= rule.violations(frame[rule.metric].to_numpy(np.float64)) <= 0
    if not complete.any():
        raise InputError(f"{where}: no row with all objectives keeps {' and '.join(map(str, constraints))}.")
    losses[~complete] = np.nan
    front = pareto_front(losses)
    front = front[np.argsort(losses[front, 0], kind="stable")]
    rows, counts = frame.iloc[front], (len(frame), int(complete.sum()))
    return Front(name, tuple(metrics), tuple(labels), points, tuple(maximised), complete, rows, *counts)


def with_row_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with their numbers, the index, as a first column: "row", or "row_" where "row" is taken."""
    found = rows.copy()
    found.insert(0, free_name("row", rows.columns), rows.index)
    return found


def _from_csv(path: Path, objectives: Sequence[str]) -> tuple[pd.DataFrame, list[str], list[bool]]:
    frame = read_csv(path)
    columns, maximised = [], []
    for spec in objectives:
        column, colon, direction = spec.rpartition(":")
        if not colon or direction not in ("min", "max"):
            raise InputError(
                f"objective {spec!r}: a CSV file does not say which way is better; add ':min' or ':max'."
            )
        if column not in frame.columns:
            raise unknown("column", column, map(str, frame.columns), f"({path})")
        frame[column] = measured(number_column(frame, column, path))
        columns.append(column)
        maximised.append(direction == "max")
    return frame, columns, maximised
