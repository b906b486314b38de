"""The Pareto front of the rows of a table, of a data frame or of a CSV file, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.system.from_above import from_above
from hpobench_nmt.core.system.text import NONE, counted, free_name

if TYPE_CHECKING:  # slow to import, and a run needs neither
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS_SHOWN = 30


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
    kept: Bools
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
        scale = from_above("evaluation.hypervolume:table_scale")
        return float(scale(np.where(self.kept[:, None], losses, np.nan)).total)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The cost of each step along the front: one row for each pair of neighbours that differ.

        Columns: the row numbers from and to, and the change of each objective in raw units. With two
        objectives, `SECOND per FIRST` is the change of the second objective for each unit of the first.
        """
        import pandas as pd

        changes = np.diff(self.points[self.places], axis=0)
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
        import pandas as pd

        column_text = from_above("analysis.number_text:column_text")
        texts = pd.DataFrame({name: column_text(c, name in self.exact) for name, c in self.shown.items()})
        return f"{texts.to_string(index=False, max_rows=_ROWS_SHOWN)}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        import pandas as pd

        columns = [_in_full(c) if name in self.exact else c for name, c in self.shown.items()]
        table = pd.concat(columns, axis=1).to_html(index=False, na_rep="", max_rows=_ROWS_SHOWN, max_cols=20)
        return f"{table}<p>{escape(self.summary)}</p>"


def _in_full(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers as texts, because pandas would round them; nothing for missing values."""
    import pandas as pd

    if not pd.api.types.is_float_dtype(column):
        return column.astype(object).where(column.notna(), "")  # pandas 2.2 would write None
    texts = from_above("analysis.number_text:column_text")(column, exact=True)
    return pd.Series(texts, column.index, name=column.name).replace(NONE, "")


def with_row_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with their numbers, the index, as a first column: "row", or "row_" if "row" is taken."""
    found = rows.copy()
    found.insert(0, free_name("row", rows.columns), rows.index)
    return found
