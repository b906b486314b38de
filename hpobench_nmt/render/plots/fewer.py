"""The main figure of each method: times fewer trainings than random search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.board import figure_board
from hpobench_nmt.analysis.fewer_trainings import TITLE, FewerTrainings, fewer_headline, fewer_sentences
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import short
from hpobench_nmt.methods import CONTROLS
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.style import Style, axes_for, mark, method_styles
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_fewer(
    found: FewerTrainings, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """The figure of each method with its interval over trials, the best on top, on a logarithmic scale.

    In the shaded area left of 1, a method takes more trainings than random search. Controls are grey. Raises
    InputError if no method has a figure.
    """
    known = found.methods[found.methods["times_fewer"].notna()].sort_values("times_fewer", kind="stable")
    if not len(known):
        raise InputError(f"{TITLE}: {found.reason or 'no method has a figure.'}")
    styles = styles or method_styles(found.methods["method"])
    figure, axes = axes_for(ax, (4.8, 0.32 * len(known) + 0.9))
    axes.axvline(1.0, **styles.get(EXACT, Style("black", "-.", "")).line())
    for y, line in enumerate(known.to_dict("records")):
        style = styles[line["method"]]
        colour = "0.6" if line["method"] in CONTROLS else style.colour
        drawn = axes.plot(line["times_fewer"], y, style.marker, color=colour, markersize=8)
        if not np.isnan(line["low"]):
            drawn += axes.plot([line["low"], line["high"]], [y, y], color=colour, linewidth=3.0)
        end = np.nanmax([line["times_fewer"], line["high"]])
        beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        number_text = axes.annotate(f"{short(line['times_fewer'])}×", (end, y), **beside, fontsize=9)
        for part, artist in enumerate([*drawn, number_text]):
            mark(artist, line["method"], part)
    axes.set_xscale("log")
    _label_the_scale(axes)
    axes.axvspan(axes.get_xlim()[0], 1.0, color="black", alpha=0.05, linewidth=0)
    axes.set_yticks(range(len(known)), known["method"])
    axes.set_ylim(-0.6, len(known) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times fewer trainings than random search (better →)")
    return figure


def _label_the_scale(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    room = (high / low) ** 0.12  # for the number beside the longest interval
    axes.set_xlim(min(low, 0.8), max(high * room, 2.2))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _fewer(subject: Subject) -> Iterator[FigureSpec]:
    """Times fewer trainings than random search, over all tables."""
    found = subject.tests.fewer
    if found.reason:
        raise InputError(found.reason)
    head, rows = figure_board(subject.results, found).texts()
    yield FigureSpec(
        finding=" ".join(fewer_headline(found)) or "No method takes fewer trainings than random search.",
        draw=partial(plot_fewer, found, subject.styles),
        head=("method", *head),
        rows=rows,
        notes=fewer_sentences(subject.results, found),
        own_size=True,
    )


def _has_figures(subject: Subject) -> bool:
    return not subject.tests.fewer.reason


PLOTS = (Plot("fewer", TITLE, _fewer, of_table=None, over_tables=_has_figures),)
