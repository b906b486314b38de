"""Fronts of a run: the points that the trials of each method attain, and how the front of one trial moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.run_fronts import (
    Attainment,
    Fronts,
    Pair,
    attainment,
    moving_front,
    pairs_of_objectives,
)
from hpobench_nmt.analysis.verdicts import shown_method
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints, Plot
from hpobench_nmt.render.plots.lines import draw_line, frame_around, parts_of, styles_of
from hpobench_nmt.render.plots.style import (
    MARKERS,
    Style,
    axes_for,
    drawn_rows,
    how_many_drawn,
    legend,
    mark_better,
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


def plot_attainment(
    found: Attainment, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """The points that a share of each method's trials attain, as staircases."""
    styles = styles_of(found.frame, styles)
    figure, axes = axes_for(ax)
    shown = found.points[drawn_rows(len(found.points))]
    axes.scatter(shown[:, 0], shown[:, 1], s=10, color="#C5C9CC", linewidth=0)
    for method, part in parts_of(found.frame):
        draw_line(axes, part["x"], part["y"], method, styles[method], even=True)
    axes.set(xlabel=found.labels[0], ylabel=found.labels[1])
    axes.set_title(
        f"{found.table}: attained in {found.level:.0%} of the trials after "
        f"{counted(found.lookups, 'look-up')}"
    )
    # The ends of the staircases lie far away, at the worst values of the table.
    corners = [part[["x", "y"]].to_numpy()[1:-1] for _, part in parts_of(found.frame)]
    if corners:
        frame_around(axes, np.vstack(corners), found.points)
    mark_better(axes, *signs(found.maximised), shown)
    legend(axes)
    return figure


def pairs_asked(subject: Subject, pair: Pair | None) -> list[Pair]:
    """The requested pair of objectives, or those of `pairs_of_objectives`.

    Raises InputError for a wrong pair, or for results on a clock.
    """
    if not subject.counts_lookups:
        raise InputError("these fronts are for look-ups, but the results are on a clock.")
    m = len(subject.instance.objectives)
    if pair is None or m == 1:  # with one objective, the analysis raises a clearer error
        return pairs_of_objectives(max(m, 2))
    if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= j < m for j in pair):
        raise InputError(f"pair must be two different numbers of objectives from 0 to {m - 1}, not {pair!r}.")
    return [pair]


def pair_names(subject: Subject, pair: Pair) -> tuple[str, str]:
    """A pair in the name of a figure's file, and in its title; both are "" if there is only one pair."""
    objectives = subject.instance.objectives
    if len(objectives) < 3:
        return "", ""
    first, second = (objectives[j].metric for j in pair)
    return f"-{pair[0] + 1}-{pair[1] + 1}", f"{first} and {second}"


def fronts_fit(subject: Subject) -> bool:
    """Whether the subject has fronts to show."""
    return subject.several and subject.counts_lookups


def _attained(
    subject: Subject, lookups: int = 0, level: float = 0.5, pair: Pair | None = None
) -> Iterator[FigureSpec]:
    """Points that half of the trials attain in two objectives; options `lookups`, `level`, and `pair`, the
    places of the two, such as (0, 2).
    """
    pairs = pairs_asked(subject, pair)
    if isinstance(lookups, Sequence):
        raise InputError(f"the figure 'attained' is after one number of look-ups, not {lookups!r}.")
    for places in pairs:
        found = attainment(subject.results, subject.table, lookups or int(subject.at), level, places)
        rows = []
        for method, part in parts_of(found.frame):
            # Every other vertex is an attained point. The vertices between them only join them.
            corners = part[["x", "y"]].to_numpy()[1::2]
            points = "; ".join(f"{short(x, 4)}, {short(y, 4)}" for x, y in corners[:_CORNERS])
            rows.append((method, f"{points}{'; …' if len(corners) > _CORNERS else ''}"))
        n_rows = len(found.points)
        grey = f"rows{how_many_drawn(n_rows)}" if how_many_drawn(n_rows) else f"all {n_rows} rows"
        stem, names = pair_names(subject, places)
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
            points=HoverPoints(found.labels, drawn_rows(n_rows)),
        )


def plot_front_moves(fronts: Fronts, ax: Axes | None = None) -> Figure:
    """Pareto fronts of one trial after more and more look-ups (Zhang & Duh 2020, Figure 7)."""
    import matplotlib

    figure, axes = axes_for(ax)
    n_rows = len(fronts.points)
    x, y = fronts.points[drawn_rows(n_rows, fronts.front)].T
    axes.scatter(x, y, s=10, color="#C5C9CC", linewidth=0, label=f"rows of the table{how_many_drawn(n_rows)}")
    colours = matplotlib.colormaps[_STAGES](np.linspace(0.45, 1.0, len(fronts.fronts)))
    for i, (lookups, rows) in enumerate(zip(fronts.lookups, fronts.fronts, strict=True)):
        style: dict[str, Any] = {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]}
        if fronts.n_objectives > 2:  # a front of more objectives is not a staircase in two of them
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
    mark_better(axes, *signs(fronts.maximised), fronts.points)
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
    """One trial's front as it moves; options `method`, `trial`, `lookups` (one or several), `pair`."""
    pairs = pairs_asked(subject, pair)
    method = method or shown_method(subject.results, subject.table, subject.statistics)
    steps = lookups if isinstance(lookups, Sequence) else [lookups]
    for places in pairs:
        found = moving_front(subject.results, subject.table, method, steps, trial, places)
        rows = [
            (str(n), str(len(front)), str(int(np.isin(front, found.front).sum())))
            for n, front in zip(found.lookups, found.fronts, strict=True)
        ]
        true = [row[2] for row in rows]
        stem, names = pair_names(subject, places)
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
            head=("look-ups", "rows on its front", "of these, number on the table's front"),
            rows=rows,
            points=HoverPoints(found.labels, drawn_rows(len(found.points), found.front)),
            files_only=True,  # the page replays trials
        )


PLOTS = (
    Plot("attained", "Fronts attained", _attained, of_table=fronts_fit),
    Plot("front", "One trial's front as it moves", _front, of_table=fronts_fit, stem="front-moves"),
)
