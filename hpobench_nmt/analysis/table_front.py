"""The Pareto front of a table or of any CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError, RunError, unknown
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.folder import number_column, read_csv
from hpobench_nmt.render.plots.figure import plain, save


@dataclass(frozen=True, eq=False)
class Front:
    """A front and what it is the front of.

    Attributes:
        name: of the table or file.
        metrics: names of the objectives.
        labels: the same with their units, where these are known.
        points: raw values of the objectives, shape (N, m).
        rows: the front's rows with all columns, best first by the first objective.
        n_rows, n_complete: rows in all, and those that have every objective.
    """

    name: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    points: NDArray[np.float64]
    rows: pd.DataFrame
    n_rows: int
    n_complete: int


def front_of(source: str, objectives: Sequence[str]) -> Front:
    """The front of a table (by name or folder) or of a CSV file.

    Args:
        source: a name, a folder, or a path that ends in .csv.
        objectives: "metric:min" or "metric:max"; a table knows its metrics' directions itself.
    """
    if source.lower().endswith(".csv"):
        name, frame, columns, signs = Path(source).stem, *_from_csv(Path(source), objectives)
        labels = columns
    else:
        table = load_table(source)
        parsed = [table.objective(spec) for spec in objectives]
        name, frame, columns = table.name, table.to_frame(), [o.metric for o in parsed]
        signs = [-1.0 if o.direction == "max" else 1.0 for o in parsed]
        labels = [table.metric(c).label for c in columns]
    if len(set(columns)) < len(columns):
        raise InputError("the same objective twice.")
    points = np.column_stack([frame[c].to_numpy(np.float64) for c in columns])
    losses = points * signs
    complete = ~np.isnan(losses).any(axis=1)
    if not complete.any():
        raise InputError(f"{source}: no row has all of {', '.join(columns)}.")
    front = pareto_front(losses)
    front = front[np.argsort(losses[front, 0], kind="stable")]
    return Front(
        name, tuple(columns), tuple(labels), points, frame.iloc[front], len(frame), int(complete.sum())
    )


def draw_front(front: Front, path: Path) -> None:
    """Draw two objectives and their front to a file."""
    from hpobench_nmt.render.plots.front_plot import plot_front

    labels = (front.labels[0], front.labels[1])
    figure = plain(plot_front(front.points, front.rows.index.to_numpy(np.int64), labels, front.name))
    try:
        save(figure, path, path.suffix.lower()[1:])
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from error


def _from_csv(path: Path, objectives: Sequence[str]) -> tuple[pd.DataFrame, list[str], list[float]]:
    frame = read_csv(path)
    columns, signs = [], []
    for spec in objectives:
        column, colon, direction = spec.rpartition(":")
        if not colon or direction not in ("min", "max"):
            raise InputError(
                f"objective {spec!r}: a CSV file does not say which way is better; add ':min' or ':max'."
            )
        if column not in frame.columns:
            raise unknown("column", column, map(str, frame.columns), f"({path})")
        values = number_column(frame, column, path)
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            raise InputError(f"{path}, line {infinite[0] + 2}: {column!r} is infinite.")
        frame[column] = values
        columns.append(column)
        signs.append(-1.0 if direction == "max" else 1.0)
    return frame, columns, signs
