"""The Pareto front of one trial as it moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.run_fronts import Fronts, Pair, moving_front
from hpobench_nmt.analysis.verdicts import shown_method
from hpobench_nmt.core.text import counted
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints, Plot
from hpobench_nmt.render.plots.attained import check_pair, fronts_fit, names_of
from hpobench_nmt.render.plots.lines import frame_around
from hpobench_nmt.render.plots.style import MARKERS, axes_for, drawn_rows, how_many_drawn, legend, staircase
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Four stages of a trial, light to dark, in print too.
_STAGES = "viridis_r"


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
    frame_around(axes, np.vstack([whole, *fronts_rows]), fronts.points)
    axes.set(xlabel=fronts.labels[0], ylabel=fronts.labels[1])
    axes.set_title(f"{fronts.table}: {fronts.method}, trial {fronts.trial}")
    legend(axes)
    return figure


def _front(
    subject: Subject,
    method: str = "",
    trial: int | None = None,
    lookups: int | Sequence[int] = (10, 20, 50, 100),
    pair: Pair | None = None,
) -> Iterator[FigureSpec]:
    pairs = check_pair(subject, pair)
    method = method or shown_method(subject.results, subject.table, subject.statistics)
    steps = lookups if isinstance(lookups, Sequence) else [lookups]
    for places in pairs:
        found = moving_front(subject.results, subject.table, method, steps, trial, places)
        rows = [
            (str(n), str(len(front)), str(int(np.isin(front, found.front).sum())))
            for n, front in zip(found.lookups, found.fronts, strict=True)
        ]
        true = [row[2] for row in rows]
        stem, names = names_of(subject, places)
        seen = f" Fronts of all {found.n_objectives} objectives, seen in two of them." if names else ""
        yield FigureSpec(
            stem=stem,
            title=f"One trial's front as it moves: {method}{', ' + names if names else ''}",
            finding=(
                f"A typical trial of {method} (number {found.trial}): after "
                f"{', '.join(map(str, found.lookups))} look-ups it holds {', '.join(true)} of the "
                f"{counted(len(found.front), 'row')} of the table's front.{seen}"
            ),
            draw=partial(plot_front_moves, found),
            head=("look-ups", "rows on its front", "of these on the table's front"),
            rows=rows,
            points=HoverPoints(found.labels, drawn_rows(len(found.points), found.front)),
            aside=True,
            own_size=True,
            on_white=True,
        )


PLOTS = (
    Plot(
        "front",
        "One trial's front as it moves",
        "one trial's front as it moves; options `method`, `trial`, `lookups` (one or several), `pair`",
        _front,
        of_table=fronts_fit,
        stem="front-moves",
    ),
)
