"""A kind of figure, one figure of it as a plan to draw it, and that figure drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.analysis.section import Section
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HoverSeries:
    """Values of methods along a common axis, for tooltips.

    Attributes:
        frame: method and the columns below; low and high besides, where there are.
        x, y: columns.
        label: of x, with {} for its value.
    """

    frame: pd.DataFrame
    x: str
    y: str
    label: str


@dataclass(frozen=True, eq=False)
class HoverPoints:
    """Rows of a table as points, for tooltips.

    Attributes:
        labels: of the two axes.
        rows: row numbers of the points of the figure's first scatter.
    """

    labels: tuple[str, str]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FigureSpec:
    """A figure not drawn yet.

    Attributes:
        stem: a file name without its ending, unique in the report. A `Plot` sets only what tells its figures
            apart; `render.figures` puts the rest before it.
        title: for people; left out: that of its kind.
        finding: what it shows, in a sentence or two.
        draw: makes the figure, on `ax` where its kind has one panel; None where there is none.
        head, rows: the table behind it, cells as text.
        notes: what is missing or should be known.
        series: for tooltips; None for none.
        points: for tooltips, if the first scatter's points are rows of a table.
        aside: whether it is folded away at first.
        own_size: keep the size and layout that it is drawn with.
        on_white: keep its colours, on a white ground.
        files_only: only for files; the page shows the same otherwise.
        problem: why a report does not have it.
    """

    stem: str = ""
    title: str = ""
    finding: str = ""
    draw: Callable[..., Figure] | None = None
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    series: HoverSeries | None = None
    points: HoverPoints | None = None
    aside: bool = False
    own_size: bool = False
    on_white: bool = False
    files_only: bool = False
    problem: str = ""


def always(subject: Subject) -> bool:
    """Every subject has the figures."""
    return True


@dataclass(frozen=True, eq=False)
class Plot:
    """A kind of figure of a run.

    Attributes:
        kind: its name in `hb.plot`.
        title: in reports.
        figures: makes the figures of a subject, one after another, or raises InputError. `hb.plot` draws the
            first. Its docstring describes the kind there; parameters after the subject are options.
        of_table, over_tables: whether a report has the figures of a run on one table, and over its tables;
            None for never.
        one_panel: whether `draw` of the figures takes `ax`, the axes to draw on.
        stem: of its files, after the name of the table; left out: the kind.
    """

    kind: str
    title: str
    figures: Callable[..., Iterator[FigureSpec]]
    of_table: Callable[[Subject], bool] | None = always
    over_tables: Callable[[Subject], bool] | None = None
    one_panel: bool = True
    stem: str = ""

    @property
    def about(self) -> str:
        """What it shows, and its options, on one line; "" where Python has thrown docstrings away."""
        text = " ".join((self.figures.__doc__ or "").split()).removesuffix(".")
        return text[:1].lower() + text[1:]

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of `hb.plot`."""
        return tuple(signature(self.figures).parameters)[1:]


@dataclass(frozen=True, eq=False)
class TablePlot:
    """A kind of figure of a table's own analysis.

    Attributes:
        kind: of the Section that it is drawn from.
        draw: makes it.
        stem: of its files, with {stem} for the section's and {table} for the table.
        title: after the name of the table; left out: the section's title.
        points, on_white: as in FigureSpec; figures without points keep their size.
    """

    kind: str
    draw: Callable[[Section], Figure]
    stem: str = "{stem}"
    title: str = ""
    points: Callable[[Section], HoverPoints] | None = None
    on_white: bool = False


@dataclass(frozen=True, eq=False)
class DrawnFigure:
    """A figure that was drawn.

    Attributes:
        spec: its plan, without what it was drawn from.
        svg: for the page; empty where it is for a file, or where there is none.
        hover: data for tooltips.
        methods: those that are in it.
        content: a PNG or PDF file; empty where it is for the page, or where there is none.
    """

    spec: FigureSpec
    svg: str = ""
    hover: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    content: bytes = b""
