"""Fronts of a run: the points that the trials of each method attain, and how the front of one trial moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.replay import Fronts, moving_front
from hpobench_nmt.analysis.run_fronts import Attainment, Pair, Plane, attainment, pairs_of_objectives
from hpobench_nmt.analysis.verdicts import shown_method
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints, Plot
from hpobench_nmt.render.plots.lines import draw_line, parts_of, styles_of
from hpobench_nmt.render.plots.style import (
    MARKERS,
    Styles,
    axes_for,
    drawn_rows,
    how_many_drawn,
    legend,
    mark_better,
    short_ticks,
    signs,
    staircase,
)
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The number of a staircase's corners that the figure's data table has.
_CORNERS = 8
# Colours of a trial's stages, from light to dark, which can also be distinguished in print.
_STAGES = "viridis_r"


def plot_attainment(found: Attainment, styles: Styles | None = None, ax: Axes | None = None) -> Figure:
    """The points that a share of each method's trials attain, as staircases."""
    styles = styles_of(found.frame, styles)
    after = counted(found.lookups, "look-up")
    title = f"{found.table}: attained in {found.level:.0%} of the trials after {after}"
    figure, axes = plane_axes(found, title, ax)
    for method, part in parts_of(found.frame):
        draw_line(axes, part["x"], part["y"], method, styles[method], even=True)
    # The ends of the staircases lie far away, at the worst values of the table.
    corners = [part[["x", "y"]].to_numpy()[1:-1] for _, part in parts_of(found.frame)]
    frame_plane(axes, found, np.vstack(corners) if corners else found.points)
    return figure


def plane_axes(plane: Plane, title: str, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """The figure and axes of two objectives, with the rows of the table in grey."""
    figure, axes = axes_for(ax)
    n_rows = len(plane.points)
    x, y = plane.points[drawn_rows(n_rows, plane.front)].T
    axes.scatter(x, y, s=10, color="#C5C9CC", linewidth=0, label=f"rows of the table{how_many_drawn(n_rows)}")
    axes.set(xlabel=plane.labels[0], ylabel=plane.labels[1], title=title)
    return figure, axes


def ring_front(axes: Axes, plane: Plane) -> None:
    """Draw rings around the rows of the table's front."""
    x, y = plane.points[plane.front].T
    hollow: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "linewidth": 0.8}
    axes.scatter(x, y, s=90, **hollow, label="the table's front")


def frame_plane(axes: Axes, plane: Plane, shown: Floats, margin: float = 0.15) -> None:
    """Set limits that show these points well, mark the direction of better values, and add the legend.

    Points farther off are not shown. If the points nearly coincide, the limits span a twentieth of the
    table's range.
    """
    low, high = shown.min(axis=0), shown.max(axis=0)
    spans = np.nanmax(plane.points, axis=0) - np.nanmin(plane.points, axis=0)
    reach = np.maximum(margin * (high - low), 0.025 * np.where(spans > 0, spans, 1.0))
    axes.set(xlim=(low[0] - reach[0], high[0] + reach[0]), ylim=(low[1] - reach[1], high[1] + reach[1]))
    short_ticks(axes)
    mark_better(axes, *signs(plane.maximised), plane.points)
    legend(axes)


def plane_points(plane: Plane) -> HoverPoints:
    """The grey points of `plane_axes`, for tooltips."""
    return HoverPoints(plane.labels, drawn_rows(len(plane.points), plane.front))


def planes(subject: Subject, pair: Pair | None) -> list[tuple[Pair, str, str]]:
    """The requested pair of objectives, or those of `pairs_of_objectives`, with their names.

    The names are the end of the names of files, and a part of the title; both are "" if there is only one
    pair. Raises InputError for a wrong pair, or for results on a clock.
    """
    if not subject.counts_lookups:
        raise InputError("these fronts are for look-ups, but the results are on a clock.")
    metrics = [goal.metric for goal in subject.instance.objectives]
    m = len(metrics)
    if pair is None or m == 1:  # with one objective, the analysis raises a clearer error
        pairs = pairs_of_objectives(max(m, 2))
    elif len(pair) == 2 and pair[0] != pair[1] and all(0 <= j < m for j in pair):
        pairs = [pair]
    else:
        raise InputError(f"pair must be two different numbers of objectives from 0 to {m - 1}, not {pair!r}.")
    if m < 3:
        return [(pair, "", "") for pair in pairs]
    return [((i, j), f"-{i + 1}-{j + 1}", f"{metrics[i]} and {metrics[j]}") for i, j in pairs]


def fronts_fit(subject: Subject) -> bool:
    """Whether the subject has fronts to show."""
    return subject.several and subject.counts_lookups


def _attained(
    subject: Subject, lookups: int = 0, level: float = 0.5, pair: Pair | None = None
) -> Iterator[FigureSpec]:
    """Points that half of the trials attain in two objectives; options `lookups`, `level`, and `pair`, the
    places of the two, such as (0, 2).
    """
    wanted = planes(subject, pair)
    if isinstance(lookups, Sequence):
        raise InputError(f"the figure 'attained' is after one number of look-ups, not {lookups!r}.")
    for places, stem, names in wanted:
        found = attainment(subject.results, subject.table, lookups or int(subject.at), level, places)
        rows = []
        for method, part in parts_of(found.frame):
            # Every other vertex is an attained point. The vertices between them only join them.
            corners = part[["x", "y"]].to_numpy()[1::2]
            points = "; ".join(f"{short(x, 4)}, {short(y, 4)}" for x, y in corners[:_CORNERS])
            rows.append((method, f"{points}{'; …' if len(corners) > _CORNERS else ''}"))
        n_rows = len(found.points)
        grey = f"rows{how_many_drawn(n_rows)}" if how_many_drawn(n_rows) else f"all {n_rows} rows"
        alone = ", in only these two objectives" if names else ""
        half = "half" if level == 0.5 else f"{level:.0%}"
        yield FigureSpec(
            stem=stem,
            title=f"Fronts attained: {names}" if names else "",
            finding=(
                f"Points that {half} of each method's trials attain after "
                f"{counted(found.lookups, 'look-up')}{alone}. The nearer a staircase is to the best corner, "
                f"the better. Grey: {grey} of the table."
            ),
            draw=partial(plot_attainment, found, subject.styles),
            head=("method", f"corners attained ({found.labels[0]}, {found.labels[1]})"),
            rows=rows,
            notes=found.notes,
            points=plane_points(found),
        )


def plot_front_moves(fronts: Fronts, ax: Axes | None = None) -> Figure:
    """Pareto fronts of one trial after more and more look-ups (Zhang & Duh 2020, Figure 7)."""
    import matplotlib

    figure, axes = plane_axes(fronts, f"{fronts.table}: {fronts.method}, trial {fronts.trial}", ax)
    colours = matplotlib.colormaps[_STAGES](np.linspace(0.45, 1.0, len(fronts.fronts)))
    for i, (lookups, rows) in enumerate(zip(fronts.lookups, fronts.fronts, strict=True)):
        style: dict[str, Any] = {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]}
        if fronts.n_objectives > 2:  # a front of more objectives is not a staircase in two of them
            style["linestyle"] = ""
        else:
            style["drawstyle"] = staircase(fronts.maximised[0])
        x, y = fronts.points[rows[np.argsort(fronts.points[rows, 0], kind="stable")]].T
        axes.plot(x, y, linewidth=1.4, markersize=6, **style, label=f"after {lookups}")
    ring_front(axes, fronts)
    frame_plane(axes, fronts, fronts.points[np.concatenate([fronts.front, *fronts.fronts])])
    return figure


ON_FRONT = ("rows on its front", "of these, number on the table's front")
"""Headings of the cells of `on_front`."""


def on_front(plane: Plane, front: Rows) -> tuple[str, str]:
    """How many rows a front has, and how many of these are on the table's front."""
    return str(len(front)), str(int(np.isin(front, plane.front).sum()))


def whole_front(plane: Plane) -> str:
    """The end of a caption, which gives the size of the table's front."""
    several = plane.n_objectives > 2
    seen = f" Fronts of all {plane.n_objectives} objectives, seen in two of them." if several else ""
    return f"the {counted(len(plane.front), 'row')} of the table's front.{seen}"


def _front(
    subject: Subject,
    method: str = "",
    trial: int | None = None,
    lookups: int | Sequence[int] = (10, 20, 50, 100),
    pair: Pair | None = None,
) -> Iterator[FigureSpec]:
    """One trial's front as it moves; options `method`, `trial`, `lookups` (one or several), `pair`."""
    wanted = planes(subject, pair)
    method = method or shown_method(subject.results, subject.table, subject.statistics)
    steps = lookups if isinstance(lookups, Sequence) else [lookups]
    for places, stem, names in wanted:
        found = moving_front(subject.results, subject.table, method, steps, trial, places)
        rows = [(str(n), *on_front(found, own)) for n, own in zip(found.lookups, found.fronts, strict=True)]
        after, true = (", ".join(row[column] for row in rows) for column in (0, 2))
        yield FigureSpec(
            stem=stem,
            title=f"One trial's front as it moves: {method}{', ' + names if names else ''}",
            finding=(
                f"A typical trial of {method} (number {found.trial}): after {after} look-ups it holds {true} "
                f"of {whole_front(found)}"
            ),
            draw=partial(plot_front_moves, found),
            head=("look-ups", *ON_FRONT),
            rows=rows,
            points=plane_points(found),
            files_only=True,  # the page replays trials
        )


PLOTS = (
    Plot("attained", "Fronts attained", _attained, of_table=fronts_fit),
    Plot("front", "One trial's front as it moves", _front, of_table=fronts_fit, stem="front-moves"),
)
