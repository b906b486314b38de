"""Scores of a run: their means, and who beats whom."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.report_content import win_shares
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import short
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.style import Styles, draw_matrix, method_styles, new_panels
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_scores(
    scores: pd.DataFrame, table: str, styles: Styles | None = None, *, timed: bool = False
) -> Figure:
    """Every method's mean and interval in each score on a table, one panel per score.

    The best method, and methods that are not shown to be worse, are filled. The others are hollow. A method
    without a mean, because trials failed or ended without an answer, has a note instead. The scores come from
    Statistics. `timed` means that time is not the number of look-ups.
    """
    check_known("table", [table], scores["table"].unique().tolist())
    chosen = scores[scores["table"] == table]
    methods = list(chosen["method"].unique())
    styles = styles or method_styles(methods)
    names = list(chosen["score"].unique())
    size = (2.9 * len(names) + 1.4, 0.32 * len(methods) + 1.6)
    figure, panels = new_panels(len(names), size, grid="x", sharey=True)
    for axes, name in zip(panels, names, strict=True):
        part = chosen[chosen["score"] == name].set_index("method")
        for y, method in enumerate(methods):
            row, style = part.loc[method], styles[method]
            if np.isnan(row["mean"]):
                bound = f"≥ {short(row['at_least'])}, " if row["at_least"] > 0 else ""
                text = f"{bound}{row['unanswered']} not reached, {row['failed']} failed"
                axes.text(0.02, y, text, transform=axes.get_yaxis_transform(), fontsize=8, va="center")
                continue
            axes.plot([row["low"], row["high"]], [y, y], color=style.colour, linewidth=2)
            face = style.colour if row["best"] or row["tied"] else "white"
            axes.plot(row["mean"], y, style.marker, color=style.colour, markerfacecolor=face, markersize=8)
        axes.axvline(part["random_search"].iloc[0], **styles[EXACT].line())
        arrow = "lower is better" if SCORES[name].lower_is_better else "higher is better"
        axes.set_title(f"{name} ({arrow})", fontsize=10)
        axes.set_xlabel(fill(SCORES[name].meaning(timed), 40), fontsize=8)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    line = "" if chosen["random_search"].isna().all() else f"; line: {EXACT}"
    figure.suptitle(
        f"{table}: means with 95% intervals; filled: best or not shown to be worse{line}", fontsize=10
    )
    return figure


def _scores(subject: Subject) -> Iterator[FigureSpec]:
    """Means of all scores, with 95% intervals."""
    timed = not subject.counts_lookups
    draw = partial(plot_scores, subject.tests.scores, subject.table, subject.styles, timed=timed)
    yield FigureSpec(draw=draw, files_only=True)  # the page shows them as a table


def plot_wins(comparisons: pd.DataFrame, table: str, score: str) -> Figure:
    """Chance that a row's method beats a column's in a trial. A star marks differences that are shown.

    The comparisons come from Statistics.
    """
    names, share, shown = win_shares(comparisons, table, score)
    if not names:
        raise InputError(f"no two methods were compared in {score!r} on table {table!r}.")
    size = 0.62 * len(names)
    figure, (axes,) = new_panels(1, (size + 2.4, size + 1.6))
    cells = zip(*np.nonzero(~np.isnan(share)), strict=True)
    texts = {at: f"{100 * share[at]:.0f}{'*' if shown[at] else ''}" for at in cells}
    image = draw_matrix(axes, share, names, (0, 1), texts)
    axes.set_title(
        f"{score} on {table}: percentage of trials that the row's method wins\n(*: shown to differ)"
    )
    axes.title.set_fontsize(10)
    figure.colorbar(image, ax=axes, shrink=0.7, format=lambda value, _: f"{100 * value:.0f}")
    return figure


def _wins(subject: Subject, score: str = "") -> Iterator[FigureSpec]:
    """Who beats whom in a score; option `score`."""
    for name in subject.scores(score):
        draw = partial(plot_wins, subject.tests.comparisons, subject.table, name)
        title = f"Who beats whom in {name}"
        yield FigureSpec(f"-{name}", title, draw=draw, files_only=True)  # the page shows them as a table


PLOTS = (
    Plot("scores", "Scores", _scores, one_panel=False),
    Plot("wins", "Who beats whom", _wins, one_panel=False),
)
