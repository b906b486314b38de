"""The Pareto front of two metrics as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.analysis.number_text import cell_text
from hpobench_nmt.analysis.run_fronts import pairs_of_objectives
from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.render.figure_spec import HoverPoints, TablePlot
from hpobench_nmt.render.plots.style import (
    COLOURS,
    GREY,
    axes_for,
    drawn_rows,
    how_many_drawn,
    legend,
    mark_better,
    new_figure,
    plain,
    set_tooltips,
    short_ticks,
    signs,
    staircase,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_front(front: Front, title: str = "", ax: Axes | None = None) -> Figure:
    """A scatter of the first two objectives, with the Pareto front as a staircase."""
    figure, axes = axes_for(ax, (6.4, 4.2))
    x, y = front.points[:, 0], front.points[:, 1]
    rows = front.places
    shown = drawn_rows(len(x), rows)
    label = f"configurations{how_many_drawn(len(x))}"
    axes.scatter(x[shown], y[shown], s=14, color=GREY, linewidth=0, label=label)
    rows = rows[np.argsort(x[rows], kind="stable")]
    steps = staircase(front.maximised[0])
    axes.plot(x[rows], y[rows], color=COLOURS[1], linewidth=1, zorder=2, drawstyle=steps)
    label = f"Pareto front ({len(rows)})"
    points = axes.scatter(x[rows], y[rows], s=32, color=COLOURS[1], zorder=3, label=label)
    named = dict(zip(front.places.tolist(), _configurations(front), strict=True))
    set_tooltips(points, [named[row] for row in rows.tolist()])
    axes.set(xlabel=front.labels[0], ylabel=front.labels[1], title=title)
    short_ticks(axes)
    mark_better(axes, *signs(front.maximised), front.points[:, :2])
    legend(axes)
    return figure


def _configurations(front: Front) -> list[str]:
    """A text for each row of the front: its number, configuration and objectives."""
    cells = [
        # The Series itself would widen float32.
        [f"{name} {cell_text(value, None if name in front.exact else 6)}" for value in column.array]
        for name, column in front.shown.items()
    ]
    return [", ".join(line) for line in zip(*cells, strict=True)]


def plot_front_pairs(front: Front, title: str = "") -> Figure:
    """The front of three or more objectives, one panel for each pair of `pairs_of_objectives`.

    The front of a pair alone is a staircase. A row of the whole front may look dominated in a pair, because
    it is better in another objective.
    """
    pairs = pairs_of_objectives(front.points.shape[1])
    columns = min(len(pairs), 3)
    lines = -(-len(pairs) // columns)
    figure = new_figure((3.9 * columns, 3.5 * lines + 0.7))
    panels = figure.subplots(lines, columns, squeeze=False).flat
    rows = front.places
    shown = drawn_rows(len(front.points), rows)
    kept = np.where(front.kept[:, None], front.points, np.nan)
    for pair, axes in zip(pairs, panels, strict=False):  # in this order, no panel is taken without a pair
        x, y = front.points[:, pair].T
        label = f"configurations{how_many_drawn(len(x))}"
        axes.scatter(x[shown], y[shown], s=12, color=GREY, linewidth=0, label=label)
        axes.scatter(x[rows], y[rows], s=30, color=COLOURS[1], zorder=3, label=f"Pareto front ({len(rows)})")
        maximised = [front.maximised[j] for j in pair]
        own = pareto_front(np.where(maximised, -kept[:, pair], kept[:, pair]))
        own = own[np.argsort(x[own], kind="stable")]
        style = {"color": COLOURS[0], "linewidth": 1.2, "drawstyle": staircase(maximised[0])}
        axes.plot(x[own], y[own], zorder=4, label="front of these two alone", **style)
        axes.set(xlabel=front.labels[pair[0]], ylabel=front.labels[pair[1]])
        short_ticks(axes)
        mark_better(axes, *signs(maximised), front.points[:, pair])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    for axes in panels:
        axes.set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    return figure


def _points(section: Section) -> HoverPoints:
    front: Front = section.analysis
    rows = drawn_rows(len(front.points), front.places)
    return HoverPoints((front.metrics[0], front.metrics[1]), rows)


def _draw(section: Section) -> Figure:
    return plain(plot_front(section.analysis, f"{section.table}: scatter and Pareto front"))


TABLE_PLOTS = (TablePlot("front", _draw, points=_points),)
