"""Means of a quantity against look-ups or time: regret, hypervolume, error of the surrogates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hpobench_nmt.analysis.captions import curves_finding
from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.run_curves import (
    LOOKUPS,
    Curves,
    hypervolume_curves,
    regret_curves,
)
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.figure_spec import FigureSpec, HoverSeries, Plot
from hpobench_nmt.render.plots.lines import (
    draw_line,
    floor_of,
    log_axis,
    parts_of,
    raised,
    styles_of,
    time_axis,
)
from hpobench_nmt.render.plots.style import Style, axes_for, legend, plain_log_ticks
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_regret(results: Results, table: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the mean simple regret of each method against look-ups.

    Args:
        results: of `hb.benchmark` or `hb.load_results`.
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
    refuse_empty(curves)
    styles = styles_of(curves.frame, styles)
    figure, axes = axes_for(ax)
    log = curves.lower_is_better if log is None else log
    means = curves.frame.loc[curves.frame["method"] != EXACT, "mean"]
    floor = floor_of(means) if log else None
    for method, part in parts_of(curves.frame):
        draw_line(axes, part["lookups"], raised(part["mean"], floor), method, styles[method])
    if floor is not None:
        log_axis(axes, means, floor)
    elif not curves.lower_is_better:
        axes.set_ylim(0, 1.02)
    axes.set(ylabel=f"mean {curves.quantity}", title=curves.table)
    _time_axis(axes, curves)
    legend(axes)
    return figure


def refuse_empty(curves: Curves) -> None:
    """Raise InputError where no method has a curve."""
    if is_empty(curves):
        reasons = " ".join(curves.notes)
        raise InputError(f"{curves.table}: no method has a curve of {curves.quantity}. {reasons}".rstrip())


def is_empty(curves: Curves) -> bool:
    """Whether no method has a curve."""
    return not (curves.frame["method"] != EXACT).any()


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
    curves = regret_curves(subject.results, subject.table) if subject.several else subject.curves
    yield curves_figure(subject, curves, log)


def _hypervolume(subject: Subject, log: bool | None = None) -> Iterator[FigureSpec]:
    curves = subject.curves if subject.several else hypervolume_curves(subject.results, subject.table)
    yield curves_figure(subject, curves, log)


def curves_figure(
    subject: Subject,
    curves: Curves,
    log: bool | None,
    empty: str = "No trial has a curve: each has failed, or ended before anything was trained.",
) -> FigureSpec:
    """The figure of some curves with its caption and data; `empty` is the problem where there are none."""
    draw = partial(plot_curves, curves, subject.styles, log=log)
    if is_empty(curves):
        return FigureSpec(draw=draw, problem=" ".join([empty, *curves.notes]))
    head, rows = _columns(curves, subject.milestones)
    return FigureSpec(
        finding=curves_finding(curves, subject.at),
        draw=draw,
        head=head,
        rows=rows,
        notes=curves.notes,
        series=HoverSeries(
            curves.frame, "lookups", "mean", f"after {{}} {curves.unit}", curves.unit == LOOKUPS
        ),
    )


def _columns(curves: Curves, milestones: Sequence[float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Means and quartiles of every method after round numbers of look-ups, or at the times given."""
    known = curves.frame["lookups"].to_numpy()
    longest = float(known.max())
    ends = (curves.n_initial, int(longest)) if curves.unit == LOOKUPS else ()
    wanted = sorted({n for n in (*milestones, *ends) if known.min() <= n <= longest})
    rows = []
    for method, part in parts_of(curves.frame):
        at = part.set_index("lookups")
        cells = []
        for n in wanted:
            if n not in at.index:
                cells.append("–")
                continue
            mean, low, high = map(float, at.loc[n, ["mean", "low", "high"]])
            cells.append(f"{short(mean)} ({short(low)}–{short(high)})" if low == low else short(mean))
        rows.append((method, *cells))
    return ("mean (quartiles) after", *(f"{n:,.10g}" for n in wanted)), rows


PLOTS = (
    Plot(
        "regret",
        "Simple regret",
        "gap to the best value of the table, in the metric's unit, against look-ups",
        _regret,
        of_table=lambda subject: not subject.several,
        stem="curves",
    ),
    Plot(
        "hypervolume",
        "Hypervolume found",
        "share of the table's hypervolume that was found, against look-ups",
        _hypervolume,
        of_table=lambda subject: subject.several,
        stem="curves",
    ),
)
