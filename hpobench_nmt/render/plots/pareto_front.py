"""The Pareto front of two metrics as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.render.plots.style import COLOURS, GREY, axes_for, drawn_rows, how_many_drawn, staircase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_front(front: Front, title: str = "", ax: Axes | None = None) -> Figure:
    """Scatter of the first two objectives with the Pareto front as a staircase."""
    figure, axes = axes_for(ax, (6.4, 4.2))
    x, y = front.points[:, 0], front.points[:, 1]
    rows = front.rows.index.to_numpy(np.int64)
    shown = drawn_rows(len(x), rows)
    label = f"configurations{how_many_drawn(len(x))}"
    axes.scatter(x[shown], y[shown], s=14, color=GREY, linewidth=0, label=label)
    rows = rows[np.argsort(x[rows], kind="stable")]
    steps = staircase(front.maximised[0])
    axes.plot(x[rows], y[rows], color=COLOURS[1], linewidth=1, zorder=2, drawstyle=steps)
    label = f"Pareto front ({len(rows)})"
    axes.scatter(x[rows], y[rows], s=32, color=COLOURS[1], zorder=3, label=label)
    axes.set(xlabel=front.labels[0], ylabel=front.labels[1], title=title)
    axes.legend(frameon=False)
    return figure
