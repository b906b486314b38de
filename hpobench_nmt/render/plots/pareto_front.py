"""The Pareto front of two metrics as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.number_text import cell_text
from hpobench_nmt.analysis.run_fronts import Pair, pairs_of_objectives
from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.core.arrays import Rows
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
    new_panels,
    plain,
    set_tooltips,
    short_ticks,
    signs,
    staircase,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure


def plot_front(front: Front, title: str = "", ax: Axes | None = None) -> Figure:
    """A scatter of the first two objectives, with the Pareto front as a staircase."""
    figure, axes = axes_for(ax, (6.4, 4.2))
    set_tooltips(_draw_points(axes, front, (0, 1)), _configurations(front))
    line: dict[str, Any] = {"color": COLOURS[1], "linewidth": 1, "zorder": 2}
    _draw_steps(axes, front, (0, 1), front.places, **line)
    axes.set_title(title)
    legend(axes)
    return figure


def _draw_points(axes: Axes, front: Front, pair: Pair) -> PathCollection:
    """Draw all configurations and the front in two objectives. Returns the points of the front."""
    x, y = front.points[:, pair].T
    places, kept = front.places, _filled(front)
    label = f"configurations{how_many_drawn(len(x))}"
    axes.scatter(x[kept], y[kept], s=14, color=GREY, linewidth=0, label=label)
    label = f"Pareto front ({len(places)})"
    points = axes.scatter(x[places], y[places], s=32, color=COLOURS[1], zorder=3, label=label)
    if front.constraints:
        rules = " and ".join(map(str, front.constraints))
        broken = np.setdiff1d(drawn_rows(len(x), places), kept)
        hollow: dict[str, Any] = {"facecolor": "none", "edgecolor": GREY, "linewidth": 0.7}
        axes.scatter(x[broken], y[broken], s=12, **hollow, label=f"break {rules}")
    axes.set(xlabel=front.labels[pair[0]], ylabel=front.labels[pair[1]])
    short_ticks(axes)
    mark_better(axes, *signs([front.maximised[j] for j in pair]), front.points[:, pair])
    return points


def _filled(front: Front) -> Rows:
    """The rows that are drawn as filled points: those that keep the bounds."""
    rows = drawn_rows(len(front.points), front.places)
    return rows[front.kept[rows]] if front.constraints else rows


def _draw_steps(axes: Axes, front: Front, pair: Pair, rows: Rows, **line: Any) -> None:
    """Draw rows of a front of two objectives as a staircase."""
    values = front.points[rows][:, pair]
    values = values[np.argsort(values[:, 0], kind="stable")]
    axes.plot(*values.T, drawstyle=staircase(front.maximised[pair[0]]), **line)


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
    size = (3.9 * columns, 3.5 * -(-len(pairs) // columns) + 0.7)
    figure, panels = new_panels(len(pairs), size, columns, "both")
    kept = np.where(front.kept[:, None], front.points, np.nan)
    losses = np.where(front.maximised, -kept, kept)
    line: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.2, "zorder": 4}
    for pair, axes in zip(pairs, panels, strict=True):
        _draw_points(axes, front, pair)
        own = pareto_front(losses[:, pair])
        _draw_steps(axes, front, pair, own, **line, label="front of these two alone")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    return figure


def _points(section: Section) -> HoverPoints:
    front: Front = section.analysis
    return HoverPoints((front.metrics[0], front.metrics[1]), _filled(front))


def _draw(section: Section) -> Figure:
    return plain(plot_front(section.analysis, f"{section.table}: scatter and Pareto front"))


TABLE_PLOTS = (TablePlot("front", _draw, points=_points),)
