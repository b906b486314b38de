"""The Pareto front of two metrics as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.render.plots.figure import COLOURS, GREY, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


def plot_front(
    points: Floats, front: NDArray[np.int64], labels: tuple[str, str], title: str = "", ax: Axes | None = None
) -> Figure:
    """Scatter of two metrics with the Pareto front marked.

    Args:
        points: raw values, shape (N, 2).
        front: row numbers of the front.
        labels: of the two axes.
    """
    figure, axes = axes_for(ax, (6.4, 4.2))
    axes.scatter(points[:, 0], points[:, 1], s=14, color=GREY, linewidth=0, label="configurations")
    ordered = front[np.argsort(points[front, 0], kind="stable")]
    axes.plot(points[ordered, 0], points[ordered, 1], color=COLOURS[1], linewidth=1, zorder=2)
    axes.scatter(
        points[ordered, 0],
        points[ordered, 1],
        s=32,
        color=COLOURS[1],
        zorder=3,
        label=f"Pareto front ({len(front)})",
    )
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    axes.legend(frameon=False)
    return figure
