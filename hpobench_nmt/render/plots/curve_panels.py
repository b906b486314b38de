"""How the trials of each method spread, one panel per method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

from hpobench_nmt.analysis.run_curves import Curves
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.curves import refuse_empty
from hpobench_nmt.render.plots.lines import (
    draw_band,
    floor_of,
    log_axis,
    parts_of,
    raised,
    styles_of,
    time_axis,
)
from hpobench_nmt.render.plots.style import Style, new_figure, plain_log_ticks
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_curve_panels(
    curves: Curves, styles: Mapping[str, Style] | None = None, *, log: bool | None = None
) -> Figure:
    """One panel per method: its mean, the middle half of its trials shaded, the others in grey behind it."""
    refuse_empty(curves)
    styles = styles_of(curves.frame, styles)
    log = curves.lower_is_better if log is None else log
    parts = dict(parts_of(curves.frame))
    means = curves.frame.loc[curves.frame["method"] != EXACT, "mean"]
    floor = floor_of(means) if log else None
    exact = parts.pop(EXACT, None)
    figure, panels = _panels(len(parts))
    for axes, method in zip(panels, parts, strict=True):
        for other in parts.values():
            axes.plot(other["lookups"], raised(other["mean"], floor), color="#D0D3D6", linewidth=0.8)
        part, style = parts[method], styles[method]
        if exact is not None:
            axes.plot(exact["lookups"], raised(exact["mean"], floor), **styles[EXACT].line())
        band = part.assign(low=raised(part["low"], floor), high=raised(part["high"], floor))
        draw_band(axes, part["lookups"], band, method, style, alpha=0.25, step="post")
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


def _spread(subject: Subject) -> Iterator[FigureSpec]:
    curves, title = subject.curves, "Hypervolume found" if subject.several else "Simple regret"
    yield FigureSpec(
        title=f"{title}: how trials spread",
        finding="One panel per method: mean and middle half of its trials.",
        draw=partial(plot_curve_panels, curves, subject.styles),
        files_only=True,
    )


PLOTS = (
    Plot(
        "spread",
        "How trials spread",
        'the same as "regret" or "hypervolume", one panel per method, with quartiles',
        _spread,
        one_panel=False,
        stem="panels",
    ),
)
