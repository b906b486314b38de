"""A replay of a trial: the rows that a method looked up, in order, in the plane of two objectives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.replay import Replay, replay
from hpobench_nmt.analysis.run_fronts import Pair
from hpobench_nmt.analysis.verdicts import shown_method
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.fronts import (
    ON_FRONT,
    frame_plane,
    fronts_fit,
    on_front,
    plane_axes,
    plane_points,
    planes,
    ring_front,
    whole_front,
)
from hpobench_nmt.render.plots.style import mark_still, staircase
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCALE, _STAGES = "viridis_r", 8
# The plane shows the table's front and the rows between these percentiles. A few diverged rows would squeeze
# both.
_SHOWN = (5, 95)


def plot_replay(found: Replay, method: str, ax: Axes | None = None) -> Figure:
    """The rows that a trial looked up, from light to dark in order, and the look-ups that found its front."""
    import matplotlib

    trial = found.trials[method]
    taken = found.points[trial.rows]
    figure, axes = plane_axes(found, f"{found.table}: {method}, trial {trial.trial}", ax)
    ring_front(axes, found)
    stages = [part for part in np.array_split(taken, _STAGES) if len(part)]
    colours = matplotlib.colormaps[_SCALE](np.linspace(0.1, 1.0, len(stages)))
    still: list[Artist] = []
    for number, (part, colour) in enumerate(zip(stages, colours, strict=True), start=1):
        last = f"{counted(len(taken), 'look-up')}, the last the darkest" if number == len(stages) else None
        x, y = part.T
        still.append(axes.scatter(x, y, s=26, color=colour, linewidth=0, zorder=3, label=last))
    held = trial.front_after(len(trial.rows))
    held = held[np.argsort(found.points[held, 0], kind="stable")]
    if found.n_objectives == 2:  # a front of more objectives is not a staircase in two of them
        line: dict[str, Any] = {"color": "#5F6368", "linewidth": 1.2, "label": "the trial's front"}
        still += axes.plot(*found.points[held].T, **line, drawstyle=staircase(found.maximised[0]))
    place = {int(row): number for number, row in enumerate(trial.rows, start=1)}
    for row in held.tolist():
        above: dict[str, Any] = {"xytext": (5, 5), "textcoords": "offset points", "fontsize": 8}
        still.append(axes.annotate(str(place[row]), found.points[row], **above, annotation_clip=True))
    for number, artist in enumerate(still):
        mark_still(artist, number)
    middle = np.nanpercentile(found.points, _SHOWN, axis=0)
    frame_plane(axes, found, np.vstack([found.points[found.front], middle]), margin=0.06)
    return figure


def _replay(
    subject: Subject, method: str = "", trial: int | None = None, lookups: int = 200, pair: Pair | None = None
) -> Iterator[FigureSpec]:
    """The rows that one trial took, in order; options `method`, `trial`, `lookups` (the most), `pair`."""
    for places, stem, names in planes(subject, pair):
        found = replay(subject.results, subject.table, (method,) if method else (), trial, lookups, places)
        shown = method or shown_method(subject.results, subject.table, subject.statistics)
        shown = shown if shown in found.trials else next(iter(found.trials))
        rows = []
        for name, each in found.trials.items():
            n = len(each.rows)
            rows.append((name, str(each.trial), str(n), *on_front(found, each.front_after(n))))
        yield FigureSpec(
            stem=stem,
            title=f"A trial, look-up by look-up{': ' if names else ''}{names}",
            finding=(
                "The rows that a typical trial of each method took, in order. Rings: " + whole_front(found)
            ),
            draw=partial(plot_replay, found, shown),
            head=("method", "trial", "look-ups", *ON_FRONT),
            rows=rows,
            points=plane_points(found),
            replay=found,
            first=shown,
        )


PLOTS = (Plot("replay", "A trial, look-up by look-up", _replay, of_table=fronts_fit),)
