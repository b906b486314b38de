"""One figure of a report: first as a plan to draw it, then drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HoverSeries:
    """Values of methods along a common axis, for tooltips.

    Attributes:
        frame: method and the columns below; low and high besides, where there are.
        x, y: columns.
        label: of x, with {} for its value.
        whole: whether x is a whole number.
    """

    frame: pd.DataFrame
    x: str
    y: str
    label: str
    whole: bool = True


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
        stem: a file name without its ending, unique in the report.
        title: for people.
        finding: what it shows, in a sentence or two.
        draw: makes the figure; None where `problem` says why there is none.
        head, rows: the table behind it, cells as text.
        notes: what is missing or should be known.
        series: for tooltips; None for none.
        points: for tooltips, if the first scatter's points are rows of a table.
        aside: whether it is folded away at first.
        own_size: keep the size and layout that it is drawn with.
        on_white: keep its colours, on a white ground.
        files_only: only for files; the page shows the same otherwise.
        problem: why there is none.
    """

    stem: str
    title: str
    finding: str = ""
    draw: Callable[[], Figure] | None = None
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
