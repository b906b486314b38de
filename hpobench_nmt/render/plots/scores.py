"""Scores of a run: their means, who beats whom, and mean ranks over tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.report_content import win_shares
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.table_ranks import RankOutcome, rank_outcome
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.text import short
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.render.figure_spec import FigureSpec, Plot, always
from hpobench_nmt.render.plots.style import Style, axes_for, draw_matrix, mark, method_styles, new_panels
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_scores(
    scores: pd.DataFrame, table: str, styles: Mapping[str, Style] | None = None, *, timed: bool = False
) -> Figure:
    """Every method's mean and interval in each score on a table, one panel per score.

    The best method, and methods that are not shown to be worse, are filled. The others are hollow. A method
    without a mean, because trials failed or ended without an answer, has a note instead. The scores come from
    Statistics. `timed` means that time is not the number of look-ups.
    """
    chosen = scores[scores["table"] == table]
    if not len(chosen):
        raise unknown("table", table, scores["table"].unique())
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
        axes.axvline(part["random_search"].iloc[0], **styles.get(EXACT, Style("black", "-.", "")).line())
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


def plot_critical_difference(
    outcome: RankOutcome, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """Mean ranks over tables. A bar joins methods that are not shown to differ (Demsar 2006).

    Raises InputError, with the reason, if there is no ranking.
    """
    test = outcome.test
    if test is None:
        raise InputError(outcome.sentence)
    styles = styles or method_styles(outcome.methods)
    k = len(outcome.methods)
    order = np.argsort(test.mean_ranks, kind="stable")
    levels = -(-k // 2)
    bars = 0.35 * len(test.groups) + 0.4
    figure, axes = axes_for(ax, (5.4, 0.3 * levels + 0.28 * len(test.groups) + 1.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_xlim(0.35, k + 0.65)
    axes.set_ylim(-(bars + levels), 1.7)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.plot([1, k], [0, 0], color="black", linewidth=1)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom", fontsize=9)
    axes.plot([1, min(1 + test.critical_difference, k + 0.6)], [1.2, 1.2], color="black", linewidth=2)
    axes.text(1, 1.3, f"critical difference {test.critical_difference:.2f}", va="bottom", fontsize=9)
    for i, group in enumerate(test.groups):
        ends = test.mean_ranks[[group[0], group[-1]]]
        y = -0.35 * (i + 1)
        axes.plot([ends[0] - 0.04, ends[1] + 0.04], [y, y], color="#5F6368", linewidth=4)
    for place, position in enumerate(order):
        left = place < levels
        y = -(bars + (place if left else k - 1 - place) + 0.5)
        rank, end = test.mean_ranks[position], (0.9 if left else k + 0.1)
        name = outcome.methods[position]
        style = styles[name]
        drawn = axes.plot([rank, rank, end], [0, y, y], color=style.colour, linewidth=1.2)
        drawn += axes.plot(rank, 0, style.marker, color=style.colour, markersize=7, clip_on=False)
        where: dict[str, Any] = {"ha": "right" if left else "left", "va": "center", "fontsize": 9}
        text = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        label = axes.text(end - 0.05 if left else end + 0.05, y, text, **where)
        for number, artist in enumerate([*drawn, label]):
            mark(artist, name, number)
    axes.set_title(f"{outcome.score}: mean rank over {test.n_tables} tables (1 is best)", fontsize=10)
    return figure


def _ranks(subject: Subject, score: str = "") -> Iterator[FigureSpec]:
    """Mean ranks over all tables; option `score`."""
    cells, scores = subject.tests.scores, subject.scores(score)
    outcomes = [
        rank_outcome(subject.results, name, cells) for name in subject.results.suite.scores if name in scores
    ]
    # If no ranks at all could show a difference, a report leaves the figure out. `hb.plot` draws it.
    idle = [outcome for outcome in outcomes if outcome.test is None or not outcome.test.can_show]
    for outcome in outcomes:
        draw = partial(plot_critical_difference, outcome, subject.styles)
        if outcome in idle:
            if outcome is idle[0]:
                yield FigureSpec(draw=draw, problem=" ".join(dict.fromkeys(each.sentence for each in idle)))
            continue
        assert outcome.test is not None
        ranks = outcome.test.mean_ranks
        yield FigureSpec(
            stem=f"-{outcome.score}",
            title=f"Mean ranks in {outcome.score}",
            finding=outcome.sentence,
            draw=draw,
            head=("method", "mean rank"),
            rows=[(outcome.methods[i], f"{ranks[i]:.2f}") for i in np.argsort(ranks, kind="stable")],
            aside=outcome.test.p >= 1 - CONFIDENCE,
            own_size=True,
        )


PLOTS = (
    Plot("scores", "Scores", _scores, one_panel=False),
    Plot("wins", "Who beats whom", _wins, one_panel=False),
    Plot("ranks", "Mean ranks", _ranks, of_table=None, over_tables=always),
)
