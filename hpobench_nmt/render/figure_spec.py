"""A kind of figure, one figure of it as a plan to draw it, and that figure drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.analysis.replay import Replay
from hpobench_nmt.analysis.section import Section
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HoverSeries:
    """Values of methods along a common axis, for tooltips.

    The frame has the columns method, x and y, and optionally low and high. The label of x has {} for a value.
    """

    frame: pd.DataFrame
    x: str
    y: str
    label: str


@dataclass(frozen=True, eq=False)
class HoverPoints:
    """Rows of a table as points, for tooltips: labels of the axes, and the rows of the first scatter."""

    labels: tuple[str, str]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ShownReplay:
    """Trials to replay, and the method whose trial is shown at first."""

    found: Replay
    method: str


@dataclass(frozen=True, eq=False)
class FigureSpec:
    """A figure not drawn yet.

    Attributes:
        stem: a file name without its ending, unique in the report. A `Plot` sets only what tells its figures
            apart; `render.figures` puts the rest before it.
        title: for people; left out: that of its kind.
        finding: a caption of one or two sentences.
        draw: makes the figure, on `ax` where its kind has one panel; None if there is none.
        head, rows: the table behind it, cells as text.
        series, points: for tooltips; points if those of the first scatter are rows of a table.
        replay: trials that the page can replay on it.
        aside: whether it is folded away at first.
        own_size: keep the size and layout that it is drawn with.
        on_white: keep its colours, on a white ground.
        files_only: the page shows the same in another way.
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
    replay: ShownReplay | None = None
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
    """A figure that was drawn: as SVG for the page, with data for tooltips, or as the content of a file.

    Its spec lacks what it was drawn from.
    """

    spec: FigureSpec
    svg: str = ""
    hover: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    content: bytes = b""
