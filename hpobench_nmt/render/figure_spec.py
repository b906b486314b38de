"""A kind of figure, a figure that is not drawn yet, and a drawn figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import pandas as pd

from hpobench_nmt.analysis.replay import Replay
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HoverSeries:
    """Values of methods along a common axis, for tooltips.

    The frame has the columns method, x and y, and optionally low and high. In the label of x, {} stands for
    its value.
    """

    frame: pd.DataFrame
    x: str
    y: str
    label: str


@dataclass(frozen=True, eq=False)
class HoverPoints:
    """Rows of a table as points, for tooltips: the labels of both axes, and the rows of the first scatter."""

    labels: tuple[str, str]
    rows: Ints


@dataclass(frozen=True, eq=False)
class FigureSpec:
    """A figure that is not drawn yet.

    Attributes:
        stem: a file name without its ending, unique in the report. A `Plot` sets only the end of it, which
            distinguishes its figures; `render.figures` adds the rest.
        title: for people; by default, the title of its kind.
        finding: a caption of one or two sentences.
        draw: makes the figure, on `ax` if its kind has one panel; None if there is nothing to draw.
        head, rows: the data of the figure as a table, with cells as text.
        series, points: for tooltips; `points` if the points of the first scatter are rows of a table.
        replay, first: trials that the page can replay on it, and the method whose trial is shown first.
        aside: whether it is folded away at first.
        own_size: keep the size and layout that it is drawn with.
        on_white: keep its colours, on a white background.
        files_only: leave it out of the page, which shows the same in another way.
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
    replay: Replay | None = None
    first: str = ""
    aside: bool = False
    own_size: bool = False
    on_white: bool = False
    files_only: bool = False
    problem: str = ""


def always(subject: Subject) -> bool:
    """For figures that every subject has."""
    return True


@dataclass(frozen=True, eq=False)
class Plot:
    """A kind of figure of a run.

    Attributes:
        kind: its name in `hb.plot`.
        figures: makes the figures of a subject, one after another, or raises InputError. `hb.plot` draws the
            first. The function's docstring describes the kind in `hb.plot`, and its parameters after the
            subject are options.
        of_table, over_tables: whether a report has the figures for a run on one table, and for a run over all
            its tables; None for never.
        one_panel: whether `draw` of the figures takes `ax`, the axes to draw on.
        stem: the part of its file names after the name of the table; by default, the kind.
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
        """A description of the kind and its options on one line; "" if Python has removed docstrings."""
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
        kind: the kind of the Section that it is drawn from.
        stem: the stem of its files, in which {stem} stands for the section's stem and {table} for the table.
        title: the title after the name of the table; by default, the section's title.
        points, on_white: as in FigureSpec. Figures without points keep their size.
    """

    kind: str
    draw: Callable[[Section], Figure]
    stem: str = "{stem}"
    title: str = ""
    points: Callable[[Section], HoverPoints] | None = None
    on_white: bool = False


@dataclass(frozen=True, eq=False)
class DrawnFigure:
    """A drawn figure: SVG for the page, with data for tooltips, or the content of a file.

    Its spec does not have the data and functions that it was drawn from.
    """

    spec: FigureSpec
    svg: str = ""
    hover: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    content: bytes = b""
