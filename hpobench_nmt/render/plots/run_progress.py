"""Figures of a run: curves, fronts and runtime distributions. Each function takes data and returns a Figure.

A method has one style in every figure, if `method_styles` is asked once for all methods of a report: a
colour of `plots.style`, which colour-blind readers can tell apart, and a marker of its own. From the ninth
method on the colours are darker and the lines dashed. Random search as computed (EXACT) is black.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.run_curves import LOOKUPS, Curves, regret_curves, time_in
from hpobench_nmt.analysis.run_fronts import Attainment, Fronts
from hpobench_nmt.analysis.runtimes import RuntimeDistribution
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.text import counted
from hpobench_nmt.render.plots.style import (
    GREY,
    MARKERS,
    Style,
    axes_for,
    drawn_rows,
    how_many_drawn,
    label_floor,
    legend,
    mark,
    method_styles,
    new_figure,
    plain_log_ticks,
    short_ticks,
    staircase,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Four stages of a trial, light to dark, in print too.
_STAGES = "viridis_r"


def plot_regret(results: Results, table: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the mean simple regret of each method against look-ups.

    Args:
        results: of `hb.run` or `hb.load_results`.
        table: which; left out: the first.
        ax: axes to draw on; left out: a new figure.

    Raises:
        InputError: no such table, or results of several objectives.
    """
    return plot_curves(regret_curves(results, table or next(iter(results.instances))), ax=ax)


def plot_curves(
    curves: Curves,
    styles: Mapping[str, Style] | None = None,
    *,
    log: bool | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Means of all methods against look-ups, with random search as the reference.

    Args:
        log: whether the quantity is on a log scale; where left out, if less of it is better. A mean of 0 is
            then drawn on a line of its own at the bottom.
    """
    _refuse_empty(curves)
    styles = _styles(curves.frame, styles)
    figure, axes = axes_for(ax)
    log = curves.lower_is_better if log is None else log
    means = curves.frame.loc[curves.frame["method"] != EXACT, "mean"]
    floor = _floor(means) if log else None
    for method, part in _parts(curves.frame):
        _line(axes, part["lookups"], _raised(part["mean"], floor), method, styles[method])
    if floor is not None:
        _log_axis(axes, means, floor)
    elif not curves.lower_is_better:
        axes.set_ylim(0, 1.02)
    axes.set(ylabel=f"mean {curves.quantity}", title=curves.table)
    if curves.unit == LOOKUPS:
        _lookup_axis(axes, curves.n_initial, curves.frame["lookups"].max())
    else:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        axes.set_xlabel(f"time on the clock, in {curves.unit}")
    legend(axes)
    return figure


def plot_curve_panels(
    curves: Curves, styles: Mapping[str, Style] | None = None, *, log: bool | None = None
) -> Figure:
    """One panel per method: its mean, the middle half of its trials shaded, the others in grey behind it."""
    _refuse_empty(curves)
    styles = _styles(curves.frame, styles)
    log = curves.lower_is_better if log is None else log
    parts = dict(_parts(curves.frame))
    means = curves.frame.loc[curves.frame["method"] != EXACT, "mean"]
    floor = _floor(means) if log else None
    exact = parts.pop(EXACT, None)
    figure, panels = _panels(len(parts))
    for axes, method in zip(panels, parts, strict=True):
        for other in parts.values():
            axes.plot(other["lookups"], _raised(other["mean"], floor), color="#D0D3D6", linewidth=0.8)
        part, style = parts[method], styles[method]
        if exact is not None:
            axes.plot(exact["lookups"], _raised(exact["mean"], floor), **styles[EXACT].line())
        band = part.assign(low=_raised(part["low"], floor), high=_raised(part["high"], floor))
        _band(axes, part["lookups"], band, method, style, alpha=0.25, step="post")
        axes.plot(part["lookups"], _raised(part["mean"], floor), **(style.line() | {"linewidth": 2}))
        axes.set_title(method, fontsize=10, color=style.colour, fontweight="bold")
        axes.set_xscale("log")
        if floor is not None:
            axes.set_yscale("log")
    if floor is not None:
        _log_axis(panels[0], means, floor)
    plain_log_ticks(panels[0].xaxis)
    timed = curves.unit != LOOKUPS
    figure.supxlabel(f"time, in {curves.unit}" if timed else "configurations looked up")
    figure.supylabel(fill(curves.quantity, 24))
    reference = "" if exact is None or exact["mean"].isna().all() else f" {EXACT} dash-dotted,"
    figure.suptitle(f"{curves.table}: mean, middle half of the trials;{reference} others grey")
    return figure


def plot_front_moves(fronts: Fronts, ax: Axes | None = None) -> Figure:
    """Pareto fronts of one trial after more and more look-ups (Zhang & Duh 2020, Figure 7)."""
    import matplotlib

    figure, axes = axes_for(ax)
    n_rows = len(fronts.points)
    x, y = fronts.points[drawn_rows(n_rows, fronts.front)].T
    axes.scatter(
        x,
        y,
        s=10,
        color="#C5C9CC",
        linewidth=0,
        label=f"rows of the table{how_many_drawn(n_rows)}",
    )
    colours = matplotlib.colormaps[_STAGES](np.linspace(0.45, 1.0, len(fronts.fronts)))
    for i, (lookups, rows) in enumerate(zip(fronts.lookups, fronts.fronts, strict=True)):
        style: dict[str, Any] = {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]}
        if fronts.n_objectives > 2:  # a front of more objectives is no staircase in two of them
            style["linestyle"] = ""
        else:
            style["drawstyle"] = staircase(fronts.maximised[0])
        x, y = fronts.points[rows[np.argsort(fronts.points[rows, 0], kind="stable")]].T
        axes.plot(x, y, linewidth=1.4, markersize=6, **style, label=f"after {lookups}")
    whole = fronts.points[fronts.front]
    hollow: dict[str, Any] = {"facecolor": "none", "edgecolor": "black"}
    axes.scatter(whole[:, 0], whole[:, 1], s=90, **hollow, label="the table's front")
    fronts_rows = [fronts.points[rows] for rows in fronts.fronts]
    _frame_around(axes, np.vstack([whole, *fronts_rows]), fronts.points)
    axes.set(xlabel=fronts.labels[0], ylabel=fronts.labels[1])
    axes.set_title(f"{fronts.table}: {fronts.method}, trial {fronts.trial}")
    legend(axes)
    return figure


def plot_attainment(
    found: Attainment, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """The points that a share of the trials of each method attain, as staircases."""
    styles = _styles(found.frame, styles)
    figure, axes = axes_for(ax)
    shown = found.points[drawn_rows(len(found.points))]
    axes.scatter(shown[:, 0], shown[:, 1], s=10, color="#C5C9CC", linewidth=0)
    for method, part in _parts(found.frame):
        _line(axes, part["x"], part["y"], method, styles[method], even=True)
    axes.set(xlabel=found.labels[0], ylabel=found.labels[1])
    axes.set_title(
        f"{found.table}: attained in {found.level:.0%} of the trials after "
        f"{counted(found.lookups, 'look-up')}"
    )
    # The staircases' ends lie at the worst of the table, far away.
    corners = [part[["x", "y"]].to_numpy()[1:-1] for _, part in _parts(found.frame)]
    if corners:
        _frame_around(axes, np.vstack(corners), found.points)
    legend(axes)
    return figure


def plot_runtime_distribution(
    found: RuntimeDistribution, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """Share of targets met against look-ups; dotted where it is only a lower bound, from a cross on."""
    styles = _styles(found.frame, styles)
    figure, axes = axes_for(ax)
    for method, part in _parts(found.frame):
        style = styles[method]
        known, bound = part[part["exact"]], part[~part["exact"]]
        _line(axes, known["budget"], known["share"], method, style, drawstyle="steps-post")
        if len(bound):
            whole = pd.concat([known.tail(1), bound])
            bounds = axes.plot(
                whole["budget"], whole["share"], color=style.colour, linestyle=":", linewidth=1.2
            )
            cross = axes.plot(
                whole["budget"].iloc[:1], whole["share"].iloc[:1], "x", color=style.colour, ms=8
            )
            for number, artist in enumerate([*bounds, *cross], start=2):
                mark(artist, method, number)
    tables = found.tables[0] if len(found.tables) == 1 else f"{len(found.tables)} tables"
    timed = not found.per_row and found.unit != LOOKUPS
    xlabel = f"time on the clock, in {found.unit}" if timed else found.unit
    axes.set(xlabel=xlabel, ylabel="share of (trial, target) pairs met", ylim=(0, 1.02))
    axes.set_title(f"{tables}, {counted(found.n_targets, 'target')}")
    axes.set_xscale("log")
    plain_log_ticks(axes.xaxis)
    legend(axes)
    return figure


def plot_expected_runtimes(
    frame: pd.DataFrame,
    table: str,
    styles: Mapping[str, Style] | None = None,
    ax: Axes | None = None,
    unit: str = LOOKUPS,
) -> Figure:
    """Expected running time to each target of a table, from easy to hard.

    Args:
        frame: from analysis.runtimes.expected_runtime_frame.
        unit: of the running times.
    """
    from matplotlib.ticker import MaxNLocator

    chosen = frame[frame["table"] == table]
    if not len(chosen):
        raise unknown("table", table, frame["table"].unique())
    styles = _styles(chosen, styles)
    figure, axes = axes_for(ax)
    fronts = bool(chosen["on_front"].iloc[0])
    for method, part in _parts(chosen):
        ert = part["ert"].where(np.isfinite(part["ert"]))
        x = part["value"] if fronts else part["rows"]
        _line(axes, x, ert, method, styles[method], even=True)
        _band(axes, x, part, method, styles[method], alpha=0.12)
    axes.set_yscale("log")
    plain_log_ticks(axes.yaxis)
    if fronts:
        axes.set_xlabel("rows of the Pareto front to find")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        axes.invert_xaxis()
        axes.set_xlabel("to be among so many best rows")
    axes.set(ylabel=f"expected {time_in(unit)}, with 95% interval", title=table)
    legend(axes)
    return figure


def _refuse_empty(curves: Curves) -> None:
    if not (curves.frame["method"] != EXACT).any():
        reasons = " ".join(curves.notes)
        raise InputError(f"{curves.table}: no method has a curve of {curves.quantity}. {reasons}".rstrip())


def _parts(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(method), part) for method, part in frame.groupby("method", sort=False)]


def _styles(frame: pd.DataFrame, styles: Mapping[str, Style] | None) -> Mapping[str, Style]:
    methods = list(frame["method"].unique())
    if styles is None:
        return method_styles(methods)
    for method in methods:
        if method not in styles:
            raise unknown("method", method, styles, "(in the styles of a figure)")
    return styles


def _line(
    axes: Axes,
    x: pd.Series[Any],
    y: pd.Series[Any],
    method: str,
    style: Style,
    even: bool = False,
    **more: Any,
) -> None:
    """A line with some markers: on the log scale of x, or evenly over the points."""
    line = style.line() | more
    if len(x) and style.marker:
        line |= {"marker": style.marker, "markersize": 5}
        line["markevery"] = max(1, len(x) // 8) if even else _log_spaced(x.to_numpy(np.float64), style.marker)
    mark(axes.plot(x, y, **line, label=method)[0], method)


def _log_spaced(x: Any, marker: str) -> list[int]:
    """Positions of five markers; those of other methods lie elsewhere."""
    low, high = np.log(max(x[0], 1e-9)), np.log(max(x[-1], 1e-9))
    offset = (MARKERS.index(marker) % 5) / 5
    wanted = np.exp(low + (high - low) * (np.arange(5) + offset) / 5)
    return sorted({int(i) for i in np.minimum(np.searchsorted(x, wanted), len(x) - 1)})


def _band(axes: Axes, x: pd.Series[Any], part: pd.DataFrame, method: str, style: Style, **more: Any) -> None:
    """The columns low to high, shaded as far as they are finite."""
    low, high = (part[side].where(np.isfinite(part[side])) for side in ("low", "high"))
    mark(axes.fill_between(x, low, high, color=style.colour, linewidth=0, **more), method, 1)


def _frame_around(axes: Axes, points: Any, table: Any, margin: float = 0.15) -> None:
    """Limits that show these points well; what lies farther off is not shown.

    Points that nearly agree are shown within a twentieth of what the table spans.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    spans = np.nanmax(table, axis=0) - np.nanmin(table, axis=0)
    reach = np.maximum(margin * (high - low), 0.025 * np.where(spans > 0, spans, 1.0))
    axes.set_xlim(low[0] - reach[0], high[0] + reach[0])
    axes.set_ylim(low[1] - reach[1], high[1] + reach[1])
    short_ticks(axes)


def _floor(values: pd.Series[Any]) -> float:
    """Where 0 is drawn on a log axis: below the least value above it."""
    positive = values[values > 0]
    return float(positive.min()) * 0.4 if len(positive) else 1.0


def _raised(values: pd.Series[Any], floor: float | None) -> pd.Series[Any]:
    """Values for an axis; on a log axis, where floor is given, 0 becomes the floor."""
    return values if floor is None else values.mask(values == 0, floor)


def _log_axis(axes: Axes, values: pd.Series[Any], floor: float) -> None:
    """A log scale over the values; where one of them is 0, the floor is its tick and is labelled so.

    Random search as computed is no part of the values: it goes on far below what trials show.
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


def _lookup_axis(axes: Axes, n_initial: int, longest: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(1, max(longest, 2))
    plain_log_ticks(axes.xaxis)
    shaded = n_initial > 1
    if shaded:
        axes.axvspan(1, n_initial, color="black", alpha=0.05, linewidth=0)
    axes.set_xlabel(f"configurations looked up{' (shaded: the initial design)' if shaded else ''}")


def _panels(n: int) -> tuple[Figure, Sequence[Axes]]:
    columns = min(n, 4)
    rows = -(-n // columns)
    figure = new_figure((2.5 * columns + 0.6, 2.1 * rows + 0.8))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    flat = list(grid.flat)
    for axes in flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    for axes in flat[n:]:
        axes.set_visible(False)
    for axes in flat[max(0, n - columns) : n]:  # the lowest of each column
        axes.tick_params(which="both", labelbottom=True)
    return figure, flat[:n]
