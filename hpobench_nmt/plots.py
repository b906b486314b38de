"""Figures. Each function takes data and returns a matplotlib Figure; matplotlib is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

# Okabe & Ito's colours, which colour-blind readers can tell apart; black is kept for references.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D1F")


def plot_front(
    points: Floats, front: NDArray[np.int64], labels: tuple[str, str], title: str = "", ax: Axes | None = None
) -> Figure:
    """Scatter of two metrics with the Pareto front marked.

    Args:
        points: raw values, shape (N, 2).
        front: row numbers of the front.
        labels: of the two axes.
    """
    figure, axes = _axes(ax)
    axes.scatter(points[:, 0], points[:, 1], s=14, color="#9AA0A6", linewidth=0, label="configurations")
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


def _axes(ax: Axes | None) -> tuple[Figure, Axes]:
    """The axes to draw on: those given, or new ones on a figure that no window manager owns."""
    if ax is not None:
        return ax.get_figure(root=True), ax  # type: ignore[return-value]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
