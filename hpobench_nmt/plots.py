"""Figures. Each function takes data and returns a matplotlib Figure; matplotlib is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.errors import InputError, unknown
from hpobench_nmt.experiment import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

# Okabe & Ito's colours, which colour-blind readers can tell apart; black is kept for references.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D1F")


def simple_regret(results: Results, table: str, method: str) -> Floats:
    """Gap between the best value seen and the best of the table, by trial and look-up.

    Args:
        results: of one objective.
        table, method: which.

    Returns:
        shape (trials, longest), NaN before the first value of a trial. A trial that stopped at the best
        value stays at 0; one that stopped earlier (or failed) is NaN from there on.
    """
    if table not in results.instances:
        raise unknown("table", table, results.instances)
    if (table, method) not in results.trials:
        raise unknown("method", method, results.methods, f"(table {table!r})")
    instance = results.instances[table]
    if len(instance.objectives) != 1:
        raise InputError("regret is for one objective.")
    best = np.nanmin(instance.losses[:, 0])
    trials = results.trials[table, method]
    regret = np.full((len(trials), max(len(t.rows) for t in trials)), np.nan)
    for line, trial in zip(regret, trials, strict=True):
        line[: len(trial.rows)] = np.fmin.accumulate(trial.losses[:, 0]) - best
        if line[len(trial.rows) - 1] == 0.0:
            line[len(trial.rows) :] = 0.0
    return regret


def plot_regret(results: Results, table: str | None = None, ax: Axes | None = None) -> Figure:
    """Mean simple regret of each method against look-ups, with the middle half of the trials shaded.

    Drawn as far as all sound trials go, so that the mean is over the same trials everywhere.
    """
    name = table or next(iter(results.instances))
    if name not in results.instances:
        raise unknown("table", name, results.instances)
    figure, axes = _axes(ax)
    for i, method in enumerate(m for m in results.methods if (name, m) in results.trials):
        regret = simple_regret(results, name, method)
        sound = np.array([not t.failure for t in results.trials[name, method]])
        if not sound.any():
            continue
        # The first look-ups may have no value yet; after that all trials must have one.
        known = ~np.isnan(regret[sound]).any(axis=0)
        steps = np.arange(1, regret.shape[1] + 1)[known]
        middle = regret[sound][:, known]
        colour = COLOURS[i % len(COLOURS)]
        style = "-" if i < len(COLOURS) else "--"
        axes.plot(steps, middle.mean(axis=0), color=colour, linestyle=style, label=method)
        low, high = np.quantile(middle, [0.25, 0.75], axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    instance = results.instances[name]
    metric = instance.table.metric(instance.objectives[0].metric)
    unit = f" ({metric.unit})" if metric.unit else ""
    axes.set(xlabel="configurations looked up", ylabel=f"simple regret in {metric.name}{unit}", title=name)
    axes.set_ylim(bottom=0)
    axes.axvspan(0, results.suite.n_initial, color="black", alpha=0.05, linewidth=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    return figure


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
