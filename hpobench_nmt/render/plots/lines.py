"""Lines, bands and axes, which all figures of several methods share.

If `method_styles` is called once for all methods of a report, a method has the same style in every figure: a
colour of `plots.style`, which colour-blind readers can distinguish, and a marker. From the ninth method on,
lines are dashed, and colours are darker. Computed random search (EXACT) is black.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.run_curves import LOOKUPS
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.errors import check_known
from hpobench_nmt.render.plots.style import (
    GREY,
    MARKERS,
    Style,
    Styles,
    axes_for,
    label_floor,
    mark,
    method_styles,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Column = pd.Series[Any]


def parts_of(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each method, in the order of the frame."""
    return [(str(method), part) for method, part in frame.groupby("method", sort=False)]


def styles_of(frame: pd.DataFrame, styles: Styles | None) -> Styles:
    """The given styles, or new styles. Raises InputError if the given styles lack a method of the frame."""
    methods = list(frame["method"].unique())
    if styles is None:
        return method_styles(methods)
    check_known("method", methods, styles, "(in the styles of a figure)")
    return styles


def time_axis(unit: str, of_lookups: str = LOOKUPS) -> str:
    """The label of an axis of time: a number of look-ups, or the time on a clock."""
    return of_lookups if unit == LOOKUPS else f"time on the clock, in {unit}"


def draw_line(
    axes: Axes, x: Column, y: Column, method: str, style: Style, even: bool = False, **more: Any
) -> None:
    """A line with some markers, which are evenly spaced on the log scale of x, or among the points."""
    line = style.line() | more
    if len(x) and style.marker:
        line |= {"marker": style.marker, "markersize": 5}
        line["markevery"] = max(1, len(x) // 8) if even else _log_spaced(x.to_numpy(np.float64), style.marker)
    mark(axes.plot(x, y, **line, label=method)[0], method)


def _log_spaced(x: Any, marker: str) -> list[int]:
    """Positions of five markers. Methods with other markers usually have other positions."""
    low, high = np.log(max(x[0], 1e-9)), np.log(max(x[-1], 1e-9))
    offset = (MARKERS.index(marker) % 5) / 5
    wanted = np.exp(low + (high - low) * (np.arange(5) + offset) / 5)
    return sorted({int(i) for i in np.minimum(np.searchsorted(x, wanted), len(x) - 1)})


def draw_band(axes: Axes, x: Column, part: pd.DataFrame, method: str, style: Style, **more: Any) -> None:
    """Shade the band between the columns low and high where they are finite."""
    low, high = (part[side].where(np.isfinite(part[side])).to_numpy() for side in ("low", "high"))
    # A point between two equal points adds nothing to the picture, but much to the size of a page.
    same = (np.diff(low) == 0) & (np.diff(high) == 0)
    needed = ~np.concatenate([[False], same[:-1] & same[1:], [False]])[: len(low)]
    x, low, high = x.to_numpy()[needed], low[needed], high[needed]
    mark(axes.fill_between(x, low, high, color=style.colour, linewidth=0, **more), method, "band")


def floor_of(values: Column) -> float:
    """Where 0 is drawn on a log axis: below the smallest positive value."""
    positive = values[values > 0]
    return float(positive.min()) * 0.4 if len(positive) else 1.0


def log_axis(axes: Axes, values: Column, floor: float) -> None:
    """Set a log scale for the values. If there is a 0 among them, the floor has a tick with the label 0.

    The values must not include computed random search, which reaches far below the trials.
    """
    axes.set_yscale("log")
    positive = values[values > 0]
    lowest = float(positive.min()) if len(positive) else floor
    zero = bool((values == 0).any())
    bottom = floor * 0.8 if zero else lowest * 0.7
    highest = float(positive.max()) if len(positive) else floor
    axes.set_ylim(bottom, max(highest * 1.4, floor * 10))
    plain_log_ticks(axes.yaxis)
    if zero:
        axes.axhline(floor, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
        label_floor(axes.yaxis, floor, lowest * 0.95)


def draw_ranking(
    values: pd.DataFrame, reference: float, text: Callable[[float], str], styles: Styles, ax: Axes | None
) -> tuple[Figure, Axes]:
    """Each method's value with its interval and a text, the first at the bottom; random search is a line.

    The frame has the columns method, value, low and high; intervals may be NaN, and so may the reference.
    """
    figure, axes = axes_for(ax, (4.8, 0.32 * len(values) + 0.9))
    if not np.isnan(reference):
        axes.axvline(reference, **styles[EXACT].line())
    beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
    for y, (method, value, low, high) in enumerate(values.itertuples(index=False, name=None)):
        style = styles[method]
        drawn = axes.plot(value, y, style.marker, color=style.colour, markersize=8)
        if not np.isnan(low):
            drawn += axes.plot([low, high], [y, y], color=style.colour, linewidth=3.0)
        number = axes.annotate(text(value), (np.nanmax([value, high]), y), **beside)
        for part, artist in enumerate([*drawn, number]):
            mark(artist, method, part)
    axes.set_yticks(range(len(values)), values["method"])
    axes.set_ylim(-0.6, len(values) - 0.4)
    axes.grid(axis="y", visible=False)
    return figure, axes
