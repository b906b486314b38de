"""Means of all scores with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.errors import unknown
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.style import Style, method_styles, new_figure
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_scores(
    scores: pd.DataFrame, table: str, styles: Mapping[str, Style] | None = None, *, timed: bool = False
) -> Figure:
    """Every method's mean and interval in each score on a table, one panel per score.

    The best is filled, and so is what is not shown to be worse; the others are hollow. A method without a
    mean, because trials failed or ended without an answer, has a note instead.

    Args:
        scores: of Statistics.
        timed: whether time is anything else than the number of look-ups.
    """
    chosen = scores[scores["table"] == table]
    if not len(chosen):
        raise unknown("table", table, scores["table"].unique())
    methods = list(chosen["method"].unique())
    styles = styles or method_styles(methods)
    names = list(chosen["score"].unique())
    figure = new_figure((2.9 * len(names) + 1.4, 0.32 * len(methods) + 1.6))
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
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
        axes.axvline(part["random_search"].iloc[0], **styles.get(EXACT, Style("black", "-.", "")).line())
        arrow = "lower is better" if SCORES[name].lower_is_better else "higher is better"
        axes.set_title(f"{name} ({arrow})", fontsize=10)
        axes.set_xlabel(fill(SCORES[name].meaning(timed), 40), fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.25, linewidth=0.6)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    line = "" if chosen["random_search"].isna().all() else f"; line: {EXACT}"
    figure.suptitle(
        f"{table}: means with 95% intervals; filled: best or not shown to be worse{line}", fontsize=10
    )
    return figure


def _scores(subject: Subject) -> Iterator[FigureSpec]:
    timed = not subject.counts_lookups
    draw = partial(plot_scores, subject.tests.scores, subject.table, subject.styles, timed=timed)
    yield FigureSpec(draw=draw, files_only=True)  # the page has them as a table


PLOTS = (Plot("scores", "Scores", "means of all scores, with 95% intervals", _scores, one_panel=False),)
