"""The Pareto front of a table, of a data frame or of any CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from hpobench_nmt.benchmarking.task.clock import TRAINING_COST, with_metrics_of_curves
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.front import Front as Front
from hpobench_nmt.core.front import with_row_numbers as with_row_numbers
from hpobench_nmt.core.objectives import Direction, Objective, Objectives, measured
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError, as_list, check_known, shortened
from hpobench_nmt.core.system.text import brief, printable
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.disk.rows import number_column, numbers_of, read_csv
from hpobench_nmt.lookup.table import Table

_MOST_NAMES = 30


def pareto(
    source: Table | pd.DataFrame | str | Path,
    objectives: Objectives = (),
    constraints: Sequence[str | Constraint] = (),
    curves: bool = False,
) -> Front:
    """The Pareto front of a table, a data frame or a CSV file.

        front = hb.pareto("sw-en", ["dev_bleu", "num_param"], constraints=["dev_bleu>=10"])
        front.rows, front.frame, front.hypervolume, front.steps
        front.plot().savefig("front.png")

    Args:
        source: a table, its name or folder, a data frame, or the path of a CSV file that ends in .csv.
        objectives: two or more of "metric", "metric:min" or "metric:max". A table knows the directions of
            its metrics; for a data frame or a file, write the direction. By default, the table's objectives.
        constraints: bounds such as "dev_gpu_time<=60", on any metric or column of numbers. Only rows that
            keep all of them count. With `curves`, also on `training_cost`.
        curves: compute the front of all checkpoints of a table's learning curves, each of which is a model
            that could be used. `training_cost`, the cost of the training up to a checkpoint, is then an
            objective. By default, the objectives are this cost and the table's first objective, or the first
            metric of the curves.

    Raises:
        InputError: an unknown table, metric or column; fewer than two objectives; or no row that has all
            objectives and satisfies the constraints.
    """
    goals = as_list("objectives", objectives)
    for goal in goals:
        if not isinstance(goal, str | Objective):
            raise InputError(f"objective {brief(goal)}: write it as a text, such as 'loss:min'.")
    rules = [
        each if isinstance(each, Constraint) else Constraint.parse(each)
        for each in as_list("constraints", constraints)
    ]
    if isinstance(source, Table):
        table = source
    elif isinstance(source, pd.DataFrame) or str(source).lower().endswith(".csv"):
        return _front_of_columns(source, goals, rules, curves)
    else:
        table = load_table(source)
    goals = goals or (_along_curves(table) if curves else list(table.objectives))
    if len(goals) < 2:
        known = ", ".join(metric.name for metric in table.metrics)
        raise InputError(f"a front needs two or more objectives. Table {table.name!r} has {known}.")
    return checkpoint_front(table, goals, rules) if curves else table_front(table, goals, rules)


def _along_curves(table: Table) -> list[str | Objective]:
    known = [metric.name for metric in table.curves.metrics] if table.curves else []
    return [table.main_metric if table.main_metric in known or not known else known[0], TRAINING_COST]


def table_front(table: Table, objectives: Objectives, constraints: Sequence[Constraint] = ()) -> Front:
    """The front of a table; the objectives are "metric", "metric:min" or "metric:max"."""
    for rule in constraints:
        table.metric(rule.metric)
    goals = [table.objective(spec) for spec in objectives]
    labels = [table.metric(goal.metric).label for goal in goals]
    where, axes = f"table {table.name!r}", [h.name for h in table.hyperparameters]
    return _front(table.name, where, table.to_frame(), goals, constraints, labels, axes)


def checkpoint_front(table: Table, objectives: Objectives, constraints: Sequence[Constraint] = ()) -> Front:
    """The front of all checkpoints of a table's learning curves.

    `training_cost` may be an objective or have a bound. If the curves lack a metric of an objective or
    constraint, the row's value is used. If several checkpoints of a row have equal values, only the first
    that satisfies the constraints is on the front.
    """
    if table.curves is None:
        raise InputError(f"table {table.name!r} has no learning curves. To use its rows, leave out curves.")
    kept = np.flatnonzero(table.curves.lengths > 0)
    part = table.of_rows(kept)
    named = [*map(str, objectives), *(rule.metric for rule in constraints)]
    named.sort(key=lambda spec: spec.partition(":")[0] == TRAINING_COST)  # here all checkpoints count
    part = with_metrics_of_curves(part, named)
    curves, goals = part.curves, [part.objective(spec) for spec in objectives]
    assert curves is not None
    owners = np.repeat(np.arange(len(kept)), curves.lengths)
    frame = table.to_frame().iloc[kept[owners]].copy()
    frame[curves.resource] = curves.resources
    for metric in curves.metrics:
        frame[metric.name] = curves.column(metric.name)
    alike = [frame[goal.metric].to_numpy(np.float64) for goal in goals]
    keeps = [rule.violations(frame[rule.metric].to_numpy(np.float64)) <= 0 for rule in constraints]
    first = np.sort(np.unique(np.column_stack([owners, *alike, *keeps]), axis=0, return_index=True)[1])
    labels = [part.metric(goal.metric).label for goal in goals]
    axes = [*(h.name for h in table.hyperparameters), curves.resource]
    where = f"table {table.name!r}"
    return _front(table.name, where, frame.iloc[first], goals, constraints, labels, axes, curves=True)


def _front(
    name: str,
    where: str,
    frame: pd.DataFrame,
    goals: Sequence[Objective],
    constraints: Sequence[Constraint],
    labels: Sequence[str],
    axes: Sequence[str],
    curves: bool = False,
) -> Front:
    metrics = [goal.metric for goal in goals]
    if len(set(metrics)) < len(metrics):
        raise InputError("the same objective twice.")
    points = np.column_stack([frame[metric].to_numpy(np.float64) for metric in metrics])
    maximised = tuple(goal.direction == "max" for goal in goals)
    losses = np.where(maximised, -points, points)
    complete = np.asarray(~np.isnan(losses).any(axis=1))
    if not complete.any():
        wanted = f"both {' and '.join(metrics)}" if len(metrics) == 2 else f"all of {', '.join(metrics)}"
        raise InputError(f"{where}: no row has {wanted}.")
    for rule in constraints:
        complete &= rule.violations(frame[rule.metric].to_numpy(np.float64)) <= 0
    if not complete.any():
        raise InputError(
            f"{where}: no row that has all objectives keeps {' and '.join(map(str, constraints))}."
        )
    losses[~complete] = np.nan
    places = pareto_front(losses)
    places = places[np.argsort(losses[places, 0], kind="stable")]
    return Front(
        name=name,
        metrics=tuple(metrics),
        labels=tuple(labels),
        points=points,
        maximised=maximised,
        kept=complete,
        places=places,
        frame=frame.iloc[places],
        columns=tuple(dict.fromkeys([*axes, *metrics, *(rule.metric for rule in constraints)])),
        exact=tuple(n for n in axes if n not in metrics and n not in {c.metric for c in constraints}),
        constraints=tuple(constraints),
        curves=curves,
    )


def _front_of_columns(
    source: pd.DataFrame | str | Path, objectives: Objectives, rules: Sequence[Constraint], curves: bool
) -> Front:
    """The front of a data frame or of a CSV file, in which all columns describe the rows."""
    given = isinstance(source, pd.DataFrame)
    kind = "data frame" if given else "CSV file"
    if curves:
        raise InputError(f"{kind if given else source}: a {kind} has no learning curves.")
    path, frame, _ = read_columns(source)
    goals = [_objective(spec, kind) for spec in objectives]
    if len(goals) < 2:
        names = printable(", ".join(map(str, frame.columns[:_MOST_NAMES])))
        raise InputError(
            f"{path}: a front needs two or more objectives, such as 'loss:min'. Columns: {names}."
        )
    for name in dict.fromkeys([*(goal.metric for goal in goals), *(rule.metric for rule in rules)]):
        frame[name] = measured(numbers_of_column(frame, name, path, given))
    metrics = [goal.metric for goal in goals]
    return _front(path.stem, str(path), frame, goals, rules, metrics, list(frame.columns))


def read_columns(source: pd.DataFrame | str | Path) -> tuple[Path, pd.DataFrame, bool]:
    """A data frame or a CSV file: its name for messages, a frame, and whether it is a data frame.

    The frame is a copy whose rows are counted, and whose columns have texts as names.
    """
    if not isinstance(source, pd.DataFrame):
        path = Path(str(source))
        return path, read_csv(path), False
    frame = source.reset_index(drop=True)
    frame.columns = pd.Index(map(str, source.columns))
    return Path("data frame"), frame, True


def _objective(spec: str | Objective, kind: str) -> Objective:
    if isinstance(spec, Objective):
        return spec
    column, _, direction = spec.rpartition(":")
    for known in get_args(Direction):
        if column and direction == known:
            return Objective(column, known)
    raise InputError(f"objective {spec!r}: a {kind} does not record the direction; add ':min' or ':max'.")


def numbers_of_column(frame: pd.DataFrame, name: str, path: Path, given: bool) -> Floats:
    """A column as numbers; InputError if it is missing or not numeric.

    The cells of a data frame that is `given` may have any types. Those of a file are texts.
    """
    check_known("column", [name], list(map(str, frame)), f"({path})")
    if not given:
        return number_column(frame[name].tolist(), name, path)
    if (frame.columns == name).sum() > 1:
        raise InputError(f"data frame: two columns are named {shortened(name)}. Rename one of them.")
    column = frame[name]
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    numbers, wrong = numbers_of(column.tolist())
    if wrong is not None:
        row, text = wrong
        raise InputError(
            f"data frame, row {row}: {shortened(name)} is {text[:40]!r}, not a number. For a missing value, "
            f"use NaN or None."
        )
    return numbers
