"""The Gantt chart of a trial on a clock: one line per worker, one bar per training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.run_workers import WorkerTimes, worker_rows, worker_times, workers_finding
from hpobench_nmt.analysis.verdicts import shown_method
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.style import GREY, new_panels
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCALE = "viridis"
_NO_VALUE = "#B00020"
# A bar that is narrower than this share of the axis has no room for its row's number.
_ROOM = 0.022


def plot_workers(found: WorkerTimes) -> Figure:
    """Which worker trained which row when.

    The lighter a bar, the better the rank of the row's best checkpoint so far among those of the trial. A
    star marks the end of a training that improved the trial's best value. A bar is hatched if it resumes a
    stopped row, and empty if the row has failed or misses a constraint.
    """
    import matplotlib
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    frame = found.frame
    # High enough that the colour scale has room for its label, even with one worker.
    figure, (axes,) = new_panels(1, (7.5, 2.0 + 0.32 * min(max(found.workers, 3), 24)))
    known = frame["value"].to_numpy()
    order = known if not found.lower_is_better else -known
    # Ranks, because one diverged training would leave all others in one colour.
    ranks = np.full(len(order), np.nan)
    there = ~np.isnan(order)
    ranks[there] = np.searchsorted(np.sort(order[there]), order[there], side="right") / max(there.sum(), 1)
    colours = matplotlib.colormaps[_SCALE]
    end = found.end
    inside: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6.5, "clip_on": True}
    for (row, worker, start, finish, again), rank in zip(
        frame[["row", "worker", "start", "finish", "again"]].itertuples(index=False), ranks, strict=True
    ):
        failed = np.isnan(rank)
        face, edge = ("white", _NO_VALUE) if failed else (colours(rank), "white")
        bar: dict[str, Any] = {"left": start, "height": 0.82, "hatch": "////" if again else None}
        axes.barh(worker, finish - start, **bar, color=face, edgecolor=edge, linewidth=0.5)
        if finish - start > _ROOM * end * (1 + len(str(row)) / 3):
            ink = "black" if failed or rank > 0.55 else "white"
            axes.text((start + finish) / 2, worker, str(row), color=ink, **inside)
    best = frame[frame["best"]]
    star: dict[str, Any] = {"marker": "*", "s": 70, "color": "#D55E00", "edgecolor": "black"}
    label = "the trial's best so far"
    axes.scatter(best["finish"], best["worker"], **star, linewidth=0.5, zorder=3, label=label)
    axes.set(
        xlim=(0, end * 1.01),
        ylim=(found.workers - 0.4, -0.6),
        xlabel=f"time on the clock, in {found.unit}",
        ylabel="worker",
        title=f"{found.table}: {found.method}, trial {found.trial}",
    )
    axes.set_yticks(range(found.workers))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    scale = matplotlib.cm.ScalarMappable(Normalize(0, 1), _SCALE)
    beside = figure.colorbar(scale, ax=axes, ticks=[0, 1], fraction=0.04, pad=0.02)
    beside.ax.set_yticklabels(["worst", "best"])
    beside.set_label(f"rank of\n{found.quantity}", fontsize=8)
    handles = axes.get_legend_handles_labels()[0]
    if frame["again"].any():
        handles.append(Patch(facecolor=GREY, edgecolor="white", hatch="////", label="resumes a row"))
    if found.constraints and not there.all():
        label = f"failed, or misses {' or '.join(found.constraints)}"
        handles.append(Patch(facecolor="white", edgecolor=_NO_VALUE, linewidth=0.5, label=label))
    # The layout reserves room for this legend, whatever its number of lines.
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    return figure


def _busy(subject: Subject, method: str = "") -> Iterator[FigureSpec]:
    """What the workers do in one trial on a clock; option `method`."""
    if subject.counts_lookups:
        raise InputError("the figure 'workers' is only for runs on a clock.")
    method = method or shown_method(subject.results, subject.table, subject.statistics)
    found = worker_times(subject.results, subject.table, method)
    yield FigureSpec(
        title=f"What the workers do: {method}",
        finding=workers_finding(found),
        draw=partial(plot_workers, found),
        head=("worker", "trainings", "busy", "first rows"),
        rows=worker_rows(found),
        notes=found.notes,
        aside=True,
        own_size=True,
        on_white=True,
    )


PLOTS = (
    Plot("workers", "What the workers do", _busy, of_table=lambda s: not s.counts_lookups, one_panel=False),
)
