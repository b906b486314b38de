"""A figure of the report as SVG, with the data of its tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.figure_spec import DrawnFigure, FigureSpec, HoverPoints, HoverSeries
from hpobench_nmt.render.html.svg import AS_IT_IS, frame_of, pixels, restyle, to_svg
from hpobench_nmt.render.plots.style import method_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HOVER_POINTS = 60


def page_figure(spec: FigureSpec, methods: Sequence[str]) -> DrawnFigure:
    """The figure as SVG; `methods` are all of the report's."""
    bare = replace(spec, draw=None, series=None)
    if spec.problem or spec.draw is None:
        return DrawnFigure(bare)
    import matplotlib

    try:
        with matplotlib.rc_context(AS_IT_IS):
            figure = spec.draw()
    except InputError as error:
        return DrawnFigure(replace(bare, problem=str(error)))
    styles = method_styles(methods)
    places = method_places(methods)
    restyle(figure, fixed_size=not spec.own_size)
    colours = {name: style.colour for name, style in styles.items()} | {EXACT: "#000000"}
    svg = to_svg(figure, spec.stem, places, colours)
    hover: dict[str, Any] = {}
    if spec.series is not None:
        hover = _series_hover(figure, spec.series, places)
    elif spec.points is not None:
        hover = _points_hover(figure, spec.points)
    shown = [m for m in styles if f'data-m="{places[m]}"' in svg]
    return DrawnFigure(bare, svg, hover, tuple(sorted(shown, key=lambda m: places[m])))


def method_places(methods: Sequence[str]) -> dict[str, int]:
    """A number for every method, random search as computed last."""
    return {m: i for i, m in enumerate([*methods, EXACT])}


def _series_hover(figure: Figure, series: HoverSeries, places: Mapping[str, int]) -> dict[str, Any]:
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
        places_y = pixels(figure, grid.tolist(), at[series.y].tolist())
        # On a log scale a value of 0 is drawn at the bottom.
        line["y"] = [
            _place(frame_of(figure)[3] if value == 0 else y)
            for value, (_, y) in zip(at[series.y], places_y, strict=True)
        ]
        if {"low", "high"} <= set(part.columns) and part["low"].notna().any():
            line["q"] = [
                "" if np.isnan(a) else f"{short(a)}–{short(b)}"
                for a, b in zip(at["low"], at["high"], strict=True)
            ]
        lines.append(line)
    whole = bool((grid == np.rint(grid)).all())
    values = [f"{v:.0f}" if whole else short(v) for v in grid]
    left, top, right, bottom = frame_of(figure)
    across = pixels(figure, grid.tolist(), np.ones(len(grid)).tolist())
    return {
        "frame": [round(v, 1) for v in (left, top, right, bottom)],
        "x": [round(x, 1) for x, _ in across],
        "at": [series.label.replace("{}", v) for v in values],
        "lines": lines,
    }


def _points_hover(figure: Figure, shown: HoverPoints) -> dict[str, Any]:
    scatter: Any = figure.axes[0].collections[0].get_offsets()
    offsets: Any = np.ma.filled(np.ma.asarray(scatter, dtype=np.float64), np.nan)
    left, top, right, bottom = frame_of(figure)
    points = []
    places = pixels(figure, offsets[:, 0].tolist(), offsets[:, 1].tolist())
    for row, (x, y), (px, py) in zip(shown.rows.tolist(), offsets, places, strict=True):
        if left - 1 <= px <= right + 1 and top - 1 <= py <= bottom + 1:
            points.append([round(px, 1), round(py, 1), row, short(x, 4), short(y, 4)])
    points.sort()
    return {
        "frame": [round(v, 1) for v in (left, top, right, bottom)],
        "labels": list(shown.labels),
        "points": points,
    }


def _place(y: float) -> float | None:
    return round(y, 1) if np.isfinite(y) else None
