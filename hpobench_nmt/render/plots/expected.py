"""Expected running times to targets, from easy to hard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.captions import expected_finding
from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.run_curves import LOOKUPS, time_in
from hpobench_nmt.analysis.runtimes import expected_runtime_frame
from hpobench_nmt.core.errors import unknown
from hpobench_nmt.render.figure_spec import FigureSpec, HoverSeries, Plot
from hpobench_nmt.render.plots.lines import draw_band, draw_line, parts_of, styles_of
from hpobench_nmt.render.plots.style import Style, axes_for, legend, plain_log_ticks
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_expected_runtimes(
    frame: pd.DataFrame,
    table: str,
    styles: Mapping[str, Style] | None = None,
    ax: Axes | None = None,
    unit: str = LOOKUPS,
) -> Figure:
    """Expected running time to each target of a table, from easy to hard.

    Args:
        frame: from analysis.runtimes.expected_runtime_frame.
        unit: of the running times.
    """
    from matplotlib.ticker import MaxNLocator

    chosen = frame[frame["table"] == table]
    if not len(chosen):
        raise unknown("table", table, frame["table"].unique())
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
        axes.set_xlabel("to be among so many best rows")
    axes.set(ylabel=f"expected {time_in(unit)}, with 95% interval", title=table)
    legend(axes)
    return figure


def _expected(subject: Subject) -> Iterator[FigureSpec]:
    found, table = subject.runtimes, subject.table
    frame, unit = expected_runtime_frame(found), subject.instance.time_unit
    chosen = frame[frame["table"] == table]
    targets = list(dict.fromkeys(chosen["target"]))
    rows = []
    for method, part in parts_of(chosen):
        by_target = part.set_index("target")
        cells = []
        for target in targets:
            ert, low, high = by_target.loc[target, ["ert", "low", "high"]].to_numpy(np.float64).tolist()
            interval = "" if np.isnan(low) else f" ({short(low)}–{short(high)})"
            cells.append(f"{short(ert)}{interval}")
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
    Plot(
        "expected",
        "Expected runtimes",
        "expected look-ups to each target, with 95% intervals",
        _expected,
    ),
)
