"""One figure of a report: how it is drawn, what it says in words, the numbers behind it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.html.svg import AS_IT_IS, frame_of, pixels, restyle, tag, to_svg
from hpobench_nmt.render.plots.figure import method_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 150
_HOVER_POINTS = 60


@dataclass(frozen=True, eq=False)
class Series:
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
class Sketch:
    """A figure not drawn yet.

    Attributes:
        stem: a file name without its ending, unique in the report.
        title: for people.
        finding: what it shows, in a sentence or two.
        draw: makes the figure; None where `problem` says why there is none.
        head, rows: the table behind it, cells as text.
        notes: what is missing or should be known.
        series: for tooltips; None for none.
        points: labels of the axes, if the first scatter's points are rows of a table to name in tooltips.
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
    series: Series | None = None
    points: tuple[str, str] | None = None
    aside: bool = False
    own_size: bool = False
    on_white: bool = False
    files_only: bool = False
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure drawn for the page: its sketch without the means to draw it, the SVG, data for tooltips."""

    sketch: Sketch
    svg: str = ""
    hover: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()


def page_picture(sketch: Sketch, methods: Sequence[str]) -> Picture:
    """The sketch as SVG; methods are all of the report's."""
    from dataclasses import replace

    bare = replace(sketch, draw=None, series=None)
    if sketch.draw is None:
        return Picture(bare)
    import matplotlib

    try:
        with matplotlib.rc_context(AS_IT_IS):
            figure = sketch.draw()
    except InputError as error:
        return Picture(replace(bare, problem=str(error)))
    styles = method_styles(methods)
    places = method_places(methods)
    restyle(figure, fixed_size=not sketch.own_size)
    tag(figure, places, styles)
    colours = {places[name]: style.colour for name, style in styles.items()}
    colours[places[EXACT]] = "#000000"
    svg = to_svg(figure, sketch.stem, colours)
    hover: dict[str, Any] = {}
    if sketch.series is not None:
        hover = _series_hover(figure, sketch.series, places)
    elif sketch.points is not None:
        hover = _points_hover(figure, sketch.points)
    shown = [m for m in styles if f'data-m="{places[m]}"' in svg]
    return Picture(bare, svg, hover, tuple(sorted(shown, key=lambda m: places[m])))


def file_picture(sketch: Sketch, form: str) -> bytes:
    """The sketch as a PNG or PDF file, as it is drawn; empty where it cannot be."""
    from hpobench_nmt.render.plots.figure import plain, save

    if sketch.draw is None:
        return b""
    try:
        figure = plain(sketch.draw())
    except InputError:
        return b""
    buffer = io.BytesIO()
    save(figure, buffer, form, _DPI)
    return buffer.getvalue()


def method_places(methods: Sequence[str]) -> dict[str, int]:
    """A number for every method, random search as computed last."""
    return {m: i for i, m in enumerate([*methods, EXACT])}


def short(value: float, digits: int = 3) -> str:
    """A number for people; a dash where there is none."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞"
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def _series_hover(figure: Figure, series: Series, places: Mapping[str, int]) -> dict[str, Any]:
    grid = np.unique(series.frame[series.x].to_numpy(np.float64))
    if len(grid) > _HOVER_POINTS:
        wanted = np.geomspace(grid[0], grid[-1], _HOVER_POINTS)
        grid = grid[np.unique(np.minimum(np.searchsorted(grid, wanted), len(grid) - 1))]
    lines = []
    for name, part in series.frame.groupby("method", sort=False):
        at = part.set_index(series.x).reindex(grid)
        exact = at["exact"].fillna(True) if "exact" in part.columns else np.ones(len(at), dtype=bool)
        values_of = [f"{'' if e else '≥ '}{short(v)}" for v, e in zip(at[series.y], exact, strict=True)]
        line: dict[str, Any] = {"m": places[str(name)], "v": values_of}
        line["y"] = [_place(y) for _, y in pixels(figure, grid.tolist(), at[series.y].tolist())]
        if {"low", "high"} <= set(part.columns) and part["low"].notna().any():
            line["q"] = [
                "" if np.isnan(a) else f"{short(a)}–{short(b)}"
                for a, b in zip(at["low"], at["high"], strict=True)
            ]
        lines.append(line)
    values = [f"{v:.0f}" if series.whole else short(v) for v in grid]
    left, top, right, bottom = frame_of(figure)
    across = pixels(figure, grid.tolist(), np.ones(len(grid)).tolist())
    return {
        "frame": [round(v, 1) for v in (left, top, right, bottom)],
        "x": [round(x, 1) for x, _ in across],
        "at": [series.label.replace("{}", v) for v in values],
        "lines": lines,
    }


def _points_hover(figure: Figure, labels: tuple[str, str]) -> dict[str, Any]:
    scatter: Any = figure.axes[0].collections[0].get_offsets()
    offsets: Any = np.ma.filled(np.ma.asarray(scatter, dtype=np.float64), np.nan)
    left, top, right, bottom = frame_of(figure)
    points = []
    for row, ((x, y), (px, py)) in enumerate(
        zip(offsets, pixels(figure, offsets[:, 0].tolist(), offsets[:, 1].tolist()), strict=True)
    ):
        if left - 1 <= px <= right + 1 and top - 1 <= py <= bottom + 1:
            points.append([round(px, 1), round(py, 1), row, short(x, 4), short(y, 4)])
    points.sort()
    return {
        "frame": [round(v, 1) for v in (left, top, right, bottom)],
        "labels": list(labels),
        "points": points,
    }


def _place(y: float) -> float | None:
    return round(y, 1) if np.isfinite(y) else None
