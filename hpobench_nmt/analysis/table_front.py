"""The Pareto front of a table, of a data frame or of any CSV file, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.analysis.number_text import column_text
from hpobench_nmt.benchmarking.clock import TRAINING_COST, with_metrics_of_curves
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.errors import InputError, as_list, shortened, unknown
from hpobench_nmt.core.from_above import from_above
from hpobench_nmt.core.objectives import Direction, Objective, measured
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.text import NONE, counted, free_name, printable
from hpobench_nmt.evaluation.hypervolume import table_scale
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.rows import number_column, numbers_of, read_csv
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS_SHOWN = 30
_MOST_NAMES = 30


@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """The Pareto front of a table, a data frame or a CSV file, from `hb.pareto` or `Table.pareto`.

    Attributes:
        name: name of the table or file.
        metrics: names of the m objectives.
        labels: these names with their units, if known.
        points: raw values of the objectives of every row (or of every checkpoint), shape (N, m).
        maximised: for each objective, whether the largest value is the best.
        kept: which points have every objective and satisfy all constraints, shape (N,).
        places: positions of the front's points among all points, best first by the first objective.
        frame: the front's rows in that order with all columns; its index has the row numbers.
        columns: the columns of the hyperparameters and objectives.
        exact: those of them whose numbers are printed with all digits, such as hyperparameters.
        constraints: bounds that every row of the front keeps.
        curves: whether the points are checkpoints.
    """

    name: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    points: Floats
    maximised: tuple[bool, ...]
    kept: NDArray[np.bool_]
    places: Rows
    frame: pd.DataFrame
    columns: tuple[str, ...]
    exact: tuple[str, ...]
    constraints: tuple[Constraint, ...] = ()
    curves: bool = False

    @property
    def rows(self) -> Rows:
        """Row numbers of the front, best first by the first objective."""
        return self.frame.index.to_numpy(np.int64)

    @cached_property
    def hypervolume(self) -> float:
        """The hypervolume of the front, on scales where 0 is its best and 1 its worst value.

        The reference point is 1.1 in every objective, so with two objectives the largest value is 1.21.
        """
        losses = np.where(self.maximised, -self.points, self.points)
        return table_scale(np.where(self.kept[:, None], losses, np.nan)).total

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The cost of each step along the front: one row for each pair of neighbours that differ.

        Columns: the row numbers from and to, and the change of each objective in raw units. With two
        objectives, `SECOND per FIRST` is the change of the second objective for each unit of the first.
        """
        values = self.points[self.places]
        changes = np.diff(values, axis=0)
        moves = np.flatnonzero(changes.any(axis=1))
        ends = {"from": self.rows[moves], "to": self.rows[moves + 1]}
        found = pd.DataFrame(ends | {m: changes[moves, j] for j, m in enumerate(self.metrics)})
        if len(self.metrics) == 2:
            first, second = changes[moves].T
            found[" per ".join(self.metrics[::-1])] = second / np.abs(first)
        return found

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the front over all rows: a staircase for two objectives, or a panel for each pair of more.

        Returns a matplotlib Figure, which notebooks show. With two objectives, the points of a saved SVG show
        their configurations on hover. Raises InputError for more than two objectives with `ax`.
        """
        figure: Figure = from_above("render.section_files:front_figure")(self, ax)
        return figure

    @property
    def summary(self) -> str:
        """A sentence with the size of the front, the number of rows, and why some were left out."""
        what = "checkpoint" if self.curves else "row"
        found, complete, count = len(self.frame), int(self.kept.sum()), len(self.points)
        bounds = f" that keep {' and '.join(map(str, self.constraints))}" if self.constraints else ""
        text = f"{found} of {counted(complete, what)}{bounds} {'is' if found == 1 else 'are'} on the front."
        if complete < count:
            missing = count - complete
            lack, miss = (f"{what} lacks", "misses") if missing == 1 else (f"{what}s lack", "miss")
            rest = f" or {miss} a constraint" if self.constraints else ""
            text += f" {missing} {lack} an objective{rest}."
        return text

    @property
    def shown(self) -> pd.DataFrame:
        """The frame's columns of hyperparameters and objectives, after the row numbers."""
        return with_row_numbers(self.frame[list(self.columns)])

    def __repr__(self) -> str:
        return f"<Front of {self.name!r}, {' against '.join(self.metrics)}: {self.summary}>"

    def __str__(self) -> str:
        texts = pd.DataFrame(
            {name: column_text(column, name in self.exact) for name, column in self.shown.items()}
        )
        return f"{texts.to_string(index=False, max_rows=_ROWS_SHOWN)}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        columns = [_in_full(c) if name in self.exact else c for name, c in self.shown.items()]
        table = pd.concat(columns, axis=1).to_html(index=False, na_rep="", max_rows=_ROWS_SHOWN, max_cols=20)
        return f"{table}<p>{escape(self.summary)}</p>"


def pareto(
    source: Table | pd.DataFrame | str | Path,
    objectives: Sequence[str | Objective] = (),
    constraints: Sequence[str | Constraint] = (),
    curves: bool = False,
) -> Front:
    """The Pareto front of a table, a data frame or a CSV file.

        front = hb.pareto("sw-en", ["dev_bleu", "dev_gpu_time"], constraints=["num_param<=5e7"])
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
            raise InputError(
                f"objective {printable(repr(goal))[:80]}: write it as a text, such as 'loss:min'."
            )
    rules = [
        each if isinstance(each, Constraint) else Constraint.parse(each)
        for each in as_list("constraints", constraints)
    ]
    if isinstance(source, pd.DataFrame) or str(source).lower().endswith(".csv"):
        return _front_of_columns(source, goals, rules, curves)
    table = source if isinstance(source, Table) else load_table(source)
    goals = goals or (_along_curves(table) if curves else list(table.objectives))
    if len(goals) < 2:
        known = ", ".join(metric.name for metric in table.metrics)
        raise InputError(f"a front needs two or more objectives. Table {table.name!r} has {known}.")
    return checkpoint_front(table, goals, rules) if curves else table_front(table, goals, rules)


def _along_curves(table: Table) -> list[str | Objective]:
    known = [metric.name for metric in table.curves.metrics] if table.curves else []
    return [table.main_metric if table.main_metric in known or not known else known[0], TRAINING_COST]


def table_front(
    table: Table, objectives: Sequence[str | Objective], constraints: Sequence[Constraint] = ()
) -> Front:
    """The front of a table; the objectives are "metric", "metric:min" or "metric:max"."""
    for rule in constraints:
        table.metric(rule.metric)
    goals = [table.objective(spec) for spec in objectives]
    labels = [table.metric(goal.metric).label for goal in goals]
    where, axes = f"table {table.name!r}", [h.name for h in table.hyperparameters]
    return _front(table.name, where, table.to_frame(), goals, constraints, labels, axes)


def checkpoint_front(
    table: Table, objectives: Sequence[str | Objective], constraints: Sequence[Constraint] = ()
) -> Front:
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


def _in_full(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers as texts, because pandas would round them; nothing for missing values."""
    if not pd.api.types.is_float_dtype(column):
        return column.astype(object).where(column.notna(), "")  # pandas 2.2 would write None
    return pd.Series(column_text(column, exact=True), column.index, name=column.name).replace(NONE, "")


def with_row_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with their numbers, the index, as a first column: "row", or "row_" if "row" is taken."""
    found = rows.copy()
    found.insert(0, free_name("row", rows.columns), rows.index)
    return found


def _front_of_columns(
    source: Table | pd.DataFrame | str | Path,
    objectives: Sequence[str | Objective],
    rules: Sequence[Constraint],
    curves: bool,
) -> Front:
    """The front of a data frame or of a CSV file, in which all columns describe the rows."""
    given = isinstance(source, pd.DataFrame)
    kind = "data frame" if given else "CSV file"
    path = Path(kind if given else str(source))
    if curves:
        raise InputError(f"{path}: a {kind} has no learning curves.")
    frame = _named(source) if isinstance(source, pd.DataFrame) else read_csv(path)
    goals = [_objective(spec, kind) for spec in objectives]
    if len(goals) < 2:
        names = printable(", ".join(map(str, frame.columns[:_MOST_NAMES])))
        raise InputError(
            f"{path}: a front needs two or more objectives, such as 'loss:min'. Columns: {names}."
        )
    for name in dict.fromkeys([*(goal.metric for goal in goals), *(rule.metric for rule in rules)]):
        frame[name] = measured(_numbers(frame, name, path, given))
    metrics = [goal.metric for goal in goals]
    return _front(path.stem, str(path), frame, goals, rules, metrics, list(frame.columns))


def _named(source: pd.DataFrame) -> pd.DataFrame:
    """A copy of a frame whose rows are counted, and whose columns have texts as names."""
    frame = source.reset_index(drop=True)
    frame.columns = pd.Index(map(str, source.columns))
    return frame


def _objective(spec: str | Objective, kind: str) -> Objective:
    if isinstance(spec, Objective):
        return spec
    column, _, direction = spec.rpartition(":")
    for known in get_args(Direction):
        if column and direction == known:
            return Objective(column, known)
    raise InputError(f"objective {spec!r}: a {kind} does not record the direction; add ':min' or ':max'.")


def _numbers(frame: pd.DataFrame, name: str, path: Path, given: bool) -> Floats:
    """A column as numbers; InputError if it is missing or not numeric.

    The cells of a data frame that is `given` may have any types. Those of a file are texts.
    """
    if name not in frame:
        raise unknown("column", name, map(str, frame.columns), f"({path})")
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
