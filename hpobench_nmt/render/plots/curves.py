"""Means of a quantity of every method against look-ups or time, together and one panel per method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.captions import curves_finding
from hpobench_nmt.analysis.number_text import with_interval
from hpobench_nmt.analysis.run_curves import LOOKUPS, Curves, hypervolume_curves, regret_curves
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import NONE
from hpobench_nmt.render.figure_spec import FigureSpec, HoverSeries, Plot
from hpobench_nmt.render.plots.lines import (
    draw_band,
    draw_line,
    floor_of,
    log_axis,
    parts_of,
    styles_of,
    time_axis,
)
from hpobench_nmt.render.plots.style import (
    Style,
    Styles,
    axes_for,
    legend,
    mark_better,
    method_styles,
    new_panels,
    plain_log_ticks,
    raised,
)
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The opacity of a band, and of all bands together, because the bands of many methods overlap.
_SHADE, _SHADES = 0.15, 0.5
_BANDS = "mean; shaded: the\nmiddle half of the trials"


def plot_regret(results: Results, table: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the mean simple regret of each method against look-ups, on a new figure unless axes are given.

    Args:
        results: results of `hb.run` or `hb.load_results`.
        table: by default, the first table.

    Raises:
        InputError: an unknown table, or results with several objectives.
    """
    return plot_curves(regret_curves(results, table or next(iter(results.instances))), ax=ax)


def plot_luck(losses: Floats, true: Floats, ax: Axes | None = None) -> Figure:
    """Draw what searches with noisy losses believe and what is true, against trainings: means over searches.

    A search believes in its smallest loss, which the noise has usually lowered.

    Args:
        losses: of the trainings of s searches, to be minimised, shape (s, n); NaN if a training failed.
        true: the expected losses of the same configurations, shape (s, n).
        ax: axes to draw on; by default, those of a new figure.
    """
    told = np.where(np.isnan(losses), np.inf, losses)
    least = np.minimum.accumulate(told, axis=1)
    leader = np.maximum.accumulate(np.where(told == least, np.arange(told.shape[1]), 0), axis=1)
    lines = {
        "smallest loss so far": least,
        "expected loss of\nits configuration": np.take_along_axis(true, leader, axis=1),
        "smallest expected loss": np.minimum.accumulate(true, axis=1),
    }
    figure, axes = axes_for(ax)
    styles = method_styles(lines)
    for label, values in lines.items():
        axes.plot(np.arange(1, told.shape[1] + 1), values.mean(axis=0), label=label, **styles[label].line())
    axes.set(xlabel="trainings", ylabel="loss, mean of the searches")
    mark_better(axes, 0, -1)
    legend(axes)
    return figure


def plot_curves(
    curves: Curves, styles: Styles | None = None, *, log: bool | None = None, ax: Axes | None = None
) -> Figure:
    """Means of all methods and of random search against look-ups, with the middle half of trials shaded.

    The scale is logarithmic with `log`, and by default if lower is better. A mean of 0 is then drawn on a
    separate line at the bottom.
    """
    means, floor = _means(curves, log)
    styles = styles_of(curves.frame, styles)
    figure, axes = axes_for(ax)
    parts = parts_of(curves.frame)
    shade = min(_SHADE, _SHADES / len(parts))
    for method, part in parts:
        if method != EXACT:  # the trials of random search already show the same quartiles
            _quartiles(axes, part, method, styles[method], floor, alpha=shade)
    for method, part in parts:
        draw_line(axes, part["lookups"], raised(part["mean"], floor), method, styles[method])
    if floor is not None:
        log_axis(axes, means, floor)
    elif not curves.lower_is_better:
        axes.set_ylim(0, 1.02)
    axes.set(ylabel=f"mean {curves.quantity}", title=curves.table)
    _time_axis(axes, curves)
    mark_better(axes, 0, -1 if curves.lower_is_better else 1)
    legend(axes, _BANDS if _banded(curves) else "")
    return figure


def _banded(curves: Curves) -> bool:
    return bool((curves.frame["low"] < curves.frame["high"]).any())


def _quartiles(
    axes: Axes, part: pd.DataFrame, method: str, style: Style, floor: float | None, **more: Any
) -> None:
    """Shade the middle half of a method's trials, unless there is a single trial."""
    if (part["low"] < part["high"]).any():
        band = part.assign(low=raised(part["low"], floor), high=raised(part["high"], floor))
        draw_band(axes, part["lookups"], band, method, style, **more)


def _means(curves: Curves, log: bool | None) -> tuple[pd.Series[Any], float | None]:
    """The means of all methods, and where 0 is drawn on a log axis. Raises InputError without means."""
    means = curves.frame.loc[curves.frame["method"] != EXACT, "mean"]
    if not len(means):
        reasons = " ".join(curves.notes)
        raise InputError(f"{curves.table}: no method has a curve of {curves.quantity}. {reasons}".rstrip())
    return means, floor_of(means) if (curves.lower_is_better if log is None else log) else None


def _time_axis(axes: Axes, curves: Curves) -> None:
    axes.set_xscale("log")
    of_lookups = curves.unit == LOOKUPS
    if of_lookups:
        axes.set_xlim(1, max(curves.frame["lookups"].max(), 2))
    plain_log_ticks(axes.xaxis)
    shaded = of_lookups and curves.n_initial > 1
    if shaded:
        axes.axvspan(1, curves.n_initial, color="black", alpha=0.05, linewidth=0)
    looked_up = f"configurations looked up{' (shaded: the initial design)' if shaded else ''}"
    axes.set_xlabel(time_axis(curves.unit, looked_up))


def _regret(subject: Subject, log: bool | None = None) -> Iterator[FigureSpec]:
    """Gap to the best value of the table, in the metric's unit, against look-ups."""
    curves = regret_curves(subject.results, subject.table) if subject.several else subject.curves
    yield curves_figure(subject, curves, log)


def _hypervolume(subject: Subject, log: bool | None = None) -> Iterator[FigureSpec]:
    """Share of the table's hypervolume that was found, against look-ups."""
    curves = subject.curves if subject.several else hypervolume_curves(subject.results, subject.table)
    yield curves_figure(subject, curves, log)


# Why a report has no curves.
_NONE = "No trial has a curve: each has failed, or ended before anything was trained."
_SHADED = " Shaded: the middle half of the trials."


def curves_figure(subject: Subject, curves: Curves, log: bool | None, none: str = _NONE) -> FigureSpec:
    """The figure of some curves with its caption and data, or, without curves, with the problem `none`."""
    draw = partial(plot_curves, curves, subject.styles, log=log)
    if not (curves.frame["method"] != EXACT).any():
        return FigureSpec(draw=draw, problem=" ".join([none, *curves.notes]))
    head, rows = _columns(curves, subject.milestones)
    return FigureSpec(
        finding=curves_finding(curves, subject.at) + (_SHADED if _banded(curves) else ""),
        draw=draw,
        head=head,
        rows=rows,
        notes=curves.notes,
        series=HoverSeries(curves.frame, "lookups", "mean", f"after {{}} {curves.unit}"),
    )


def _columns(curves: Curves, milestones: Sequence[float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Means and quartiles of every method after round numbers of look-ups, or at the given times."""
    first, longest = curves.frame["lookups"].min(), curves.frame["lookups"].max()
    ends = (curves.n_initial, int(longest)) if curves.unit == LOOKUPS else ()
    wanted = sorted({n for n in (*milestones, *ends) if first <= n <= longest})
    rows = []
    for method, part in parts_of(curves.frame):
        at = part.set_index("lookups")
        cells = [
            with_interval(*map(float, at.loc[n, ["mean", "low", "high"]])) if n in at.index else NONE
            for n in wanted
        ]
        rows.append((method, *cells))
    return ("mean (quartiles) after", *(f"{n:,.10g}" for n in wanted)), rows


def plot_curve_panels(curves: Curves, styles: Styles | None = None, *, log: bool | None = None) -> Figure:
    """One panel per method: its mean, the middle half of its trials shaded, and other methods in grey."""
    means, floor = _means(curves, log)
    styles = styles_of(curves.frame, styles)
    parts = dict(parts_of(curves.frame))
    exact = parts.pop(EXACT, None)
    columns = min(len(parts), 4)
    size = (2.5 * columns + 0.6, 2.1 * -(-len(parts) // columns) + 0.8)
    figure, panels = new_panels(len(parts), size, columns, "both", sharex=True, sharey=True)
    for axes in panels[-columns:]:  # the lowest panel of each column
        axes.tick_params(which="both", labelbottom=True)
    for axes, method in zip(panels, parts, strict=True):
        for other in parts.values():
            axes.plot(other["lookups"], raised(other["mean"], floor), color="#D0D3D6", linewidth=0.8)
        part, style = parts[method], styles[method]
        if exact is not None:
            axes.plot(exact["lookups"], raised(exact["mean"], floor), **styles[EXACT].line())
        _quartiles(axes, part, method, style, floor, alpha=0.25, step="post")
        axes.plot(part["lookups"], raised(part["mean"], floor), **(style.line() | {"linewidth": 2}))
        axes.set_title(method, fontsize=10, color=style.colour, fontweight="bold")
        axes.set_xscale("log")
        if floor is not None:
            axes.set_yscale("log")
    if floor is not None:
        log_axis(panels[0], means, floor)
    plain_log_ticks(panels[0].xaxis)
    figure.supxlabel(time_axis(curves.unit, "configurations looked up"))
    figure.supylabel(fill(curves.quantity, 24))
    reference = "" if exact is None or exact["mean"].isna().all() else f" {EXACT} dash-dotted,"
    figure.suptitle(f"{curves.table}: mean, middle half of the trials;{reference} others grey")
    return figure


def _spread(subject: Subject) -> Iterator[FigureSpec]:
    """The same as "regret" or "hypervolume", one panel per method, with quartiles."""
    curves, title = subject.curves, "Hypervolume found" if subject.several else "Simple regret"
    yield FigureSpec(
        title=f"{title}: how trials spread",
        finding="One panel per method: mean and middle half of its trials.",
        draw=partial(plot_curve_panels, curves, subject.styles),
        files_only=True,
    )


PLOTS = (
    Plot("regret", "Simple regret", _regret, of_table=lambda subject: not subject.several, stem="curves"),
    Plot("hypervolume", "Hypervolume found", _hypervolume, of_table=lambda s: s.several, stem="curves"),
    Plot("spread", "How trials spread", _spread, one_panel=False, stem="panels"),
)
