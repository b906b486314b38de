"""Runtimes to targets: their distributions and expected values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.captions import distribution_finding, expected_finding
from hpobench_nmt.analysis.number_text import with_interval
from hpobench_nmt.analysis.run_curves import LOOKUPS, time_in
from hpobench_nmt.analysis.runtimes import (
    RuntimeDistribution,
    expected_runtime_frame,
    runtime_distribution,
    target_runtimes,
)
from hpobench_nmt.core.system.errors import check_known
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.render.figure_spec import FigureSpec, HoverSeries, Plot
from hpobench_nmt.render.plots.lines import draw_band, draw_line, parts_of, styles_of, time_axis
from hpobench_nmt.render.plots.style import Styles, axes_for, legend, mark, mark_better, plain_log_ticks
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Shares of the look-ups, or of the time, that all rows of a table take.
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def plot_runtime_distribution(
    found: RuntimeDistribution, styles: Styles | None = None, ax: Axes | None = None
) -> Figure:
    """Share of targets met against look-ups. After a cross, a line is dotted: it is only a lower bound."""
    styles = styles_of(found.frame, styles)
    figure, axes = axes_for(ax)
    for method, part in parts_of(found.frame):
        style = styles[method]
        known, bound = part[part["exact"]], part[~part["exact"]]
        draw_line(axes, known["budget"], known["share"], method, style, drawstyle="steps-post")
        if len(bound):
            whole = pd.concat([known.tail(1), bound])
            x, y = whole["budget"], whole["share"]
            bounds = axes.plot(x, y, color=style.colour, linestyle=":", linewidth=1.2)
            cross = axes.plot(x.iloc[:1], y.iloc[:1], "x", color=style.colour, ms=8)
            for number, artist in enumerate([*bounds, *cross], start=2):
                mark(artist, method, number)
    tables = found.tables[0] if len(found.tables) == 1 else f"{len(found.tables)} tables"
    xlabel = found.unit if found.per_row else time_axis(found.unit)
    axes.set(xlabel=xlabel, ylabel="share of (trial, target) pairs met", ylim=(0, 1.02))
    axes.set_title(f"{tables}, {counted(found.n_targets, 'target')}")
    axes.set_xscale("log")
    plain_log_ticks(axes.xaxis)
    mark_better(axes, 0, 1)
    legend(axes)
    return figure


def _runtimes(subject: Subject, per_row: bool | None = None) -> Iterator[FigureSpec]:
    """Share of targets met, against look-ups; with `per_row=True` over all tables, against look-ups for each
    row of a table.
    """
    if per_row if per_row is not None else not subject.table:
        found = runtime_distribution(target_runtimes(subject.results), per_row=True, also=_SHARES)
        yield _figure(subject, found, 0.1, _SHARES)
    else:
        rounds = subject.milestones
        found = runtime_distribution(subject.runtimes, [subject.table], also=[subject.at, *rounds])
        yield _figure(subject, found, subject.at, rounds)


def _figure(subject: Subject, found: RuntimeDistribution, at: float, rounds: Sequence[float]) -> FigureSpec:
    frame = found.frame
    met = frame.loc[frame["share"] > 0, "budget"]
    budgets = [b for b in rounds if met.min() <= b <= frame["budget"].max()]
    rows = []
    for method, part in parts_of(frame):
        x, y = part["budget"].to_numpy(), part["share"].to_numpy()
        exact = part["exact"].to_numpy()
        cells = []
        for budget in budgets:
            i = max(int(np.searchsorted(x, budget * (1 + 1e-9), side="right")) - 1, 0)
            cells.append(f"{'' if exact[i] else '≥ '}{y[i]:.0%}")
        rows.append((method, *cells))
    label = f"after {{}} {found.unit}"
    if found.per_row:
        timed = found.unit.startswith("time")
        label = "after {} of the time of all rows" if timed else "after {} look-ups per row of the table"
    bounds = "After a cross, a line is dotted, because some trials had ended and the share is a lower bound."
    return FigureSpec(
        title="Runtime distribution over all tables" if found.per_row else "",
        finding=distribution_finding(found, at),
        draw=partial(plot_runtime_distribution, found, subject.styles),
        head=("share met after", *(f"{b:,.10g}" for b in budgets)),
        rows=rows,
        notes=(*found.notes, *([] if frame["exact"].all() else [bounds])),
        series=HoverSeries(frame.assign(y=frame["share"]), "budget", "y", label),
    )


def plot_expected_runtimes(
    frame: pd.DataFrame, table: str, styles: Styles | None = None, ax: Axes | None = None, unit: str = LOOKUPS
) -> Figure:
    """Expected runtime to each target of a table, from easy to hard; see `expected_runtime_frame`."""
    from matplotlib.ticker import MaxNLocator

    check_known("table", [table], frame["table"].unique().tolist())
    chosen = frame[frame["table"] == table]
    styles = styles_of(chosen, styles)
    figure, axes = axes_for(ax)
    fronts = bool(chosen["on_front"].iloc[0])
    for method, part in parts_of(chosen):
        ert = part["ert"].where(np.isfinite(part["ert"]))
        x = part["value"] if fronts else part["rows"]
        draw_line(axes, x, ert, method, styles[method], even=True)
        draw_band(axes, x, part, method, styles[method], alpha=0.12)
    axes.set_yscale("log")
    plain_log_ticks(axes.yaxis)
    if fronts:
        axes.set_xlabel("rows of the Pareto front to find")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        axes.invert_xaxis()
        axes.set_xlabel("to be among the best rows, this many")
    axes.set(ylabel=f"expected {time_in(unit)}, with 95% interval", title=table)
    mark_better(axes, 0, -1)
    legend(axes)
    return figure


def _expected(subject: Subject) -> Iterator[FigureSpec]:
    """Expected look-ups to each target, with 95% intervals."""
    found, table = subject.runtimes, subject.table
    frame, unit = expected_runtime_frame(found), subject.instance.time_unit
    chosen = frame[frame["table"] == table]
    targets = list(dict.fromkeys(chosen["target"]))
    rows = []
    for method, part in parts_of(chosen):
        by_target = part.set_index("target")
        cells = [with_interval(*map(float, by_target.loc[t, ["ert", "low", "high"]])) for t in targets]
        rows.append((method, *cells))
    fronts = bool(chosen["on_front"].iloc[0])
    series = chosen.assign(y=chosen["ert"].where(np.isfinite(chosen["ert"])))
    label = "to find {} rows of the front" if fronts else "to be among the {} best rows"
    yield FigureSpec(
        finding=expected_finding(chosen, unit),
        draw=partial(plot_expected_runtimes, frame, table, subject.styles, unit=unit),
        head=(f"expected {time_in(unit)} to reach", *targets),
        rows=rows,
        notes=found.notes,
        series=HoverSeries(series, "value" if fronts else "rows", "y", label),
        aside=True,
    )


PLOTS = (
    Plot("runtimes", "Runtime distribution", _runtimes, over_tables=lambda s: len(s.results.instances) > 1),
    Plot("expected", "Expected runtimes", _expected),
)
