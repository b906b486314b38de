"""The main figure of each method: times fewer trainings than random search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hpobench_nmt.analysis.board import figure_board
from hpobench_nmt.analysis.fewer_trainings import TITLE, FewerTrainings, fewer_answer, fewer_sentences
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import short
from hpobench_nmt.methods import CONTROLS
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.lines import draw_ranking
from hpobench_nmt.render.plots.style import Styles, method_styles
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_fewer(found: FewerTrainings, styles: Styles | None = None, ax: Axes | None = None) -> Figure:
    """The figure of each method with its interval over trials, the best on top, on a logarithmic scale.

    In the shaded area left of 1, a method takes more trainings than random search. Controls are grey. Raises
    InputError if no method has a figure.
    """
    known = found.methods[["method", "times_fewer", "low", "high"]].dropna(subset=["times_fewer"])
    known = known.sort_values("times_fewer", kind="stable")
    if not len(known):
        raise InputError(f"{TITLE}: {found.reason or 'no method has a figure.'}")
    styles = styles or method_styles(found.methods["method"])
    grey = {name: replace(styles[name], colour="0.6") for name in known["method"] if name in CONTROLS}
    figure, axes = draw_ranking(known, 1.0, lambda value: f"{short(value)}×", {**styles, **grey}, ax)
    axes.set_xscale("log")
    _label_the_scale(axes)
    axes.axvspan(axes.get_xlim()[0], 1.0, color="black", alpha=0.05, linewidth=0)
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
        finding=" ".join(fewer_answer(found)),
        draw=partial(plot_fewer, found, subject.styles),
        head=("method", *head),
        rows=rows,
        notes=fewer_sentences(subject.results, found),
        own_size=True,
    )


def _has_figures(subject: Subject) -> bool:
    return not subject.tests.fewer.reason


PLOTS = (Plot("fewer", TITLE, _fewer, of_table=None, over_tables=_has_figures),)
