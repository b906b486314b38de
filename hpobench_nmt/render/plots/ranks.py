"""Mean ranks over tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.verdicts import RankOutcome
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.figure_spec import FigureSpec, Plot, always
from hpobench_nmt.render.plots.style import Style, axes_for, mark, method_styles
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_critical_difference(
    outcome: RankOutcome, styles: Mapping[str, Style] | None = None, ax: Axes | None = None
) -> Figure:
    """Mean ranks over tables; a bar joins methods that are not shown to differ (Demsar 2006).

    Raises:
        InputError: there is no ranking; the message is why.
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
    scores = subject.scores(score)
    for outcome in subject.tests.ranks:
        if outcome.score in scores:
            found = FigureSpec(
                stem=f"-{outcome.score}",
                title=f"Mean ranks in {outcome.score}",
                draw=partial(plot_critical_difference, outcome, subject.styles),
            )
            test = outcome.test
            if test is None:
                yield replace(found, problem=outcome.sentence)
                continue
            order = np.argsort(test.mean_ranks, kind="stable")
            yield replace(
                found,
                finding=outcome.sentence,
                head=("method", "mean rank"),
                rows=[(outcome.methods[i], f"{test.mean_ranks[i]:.2f}") for i in order],
                own_size=True,
            )


PLOTS = (
    Plot(
        "ranks",
        "Mean ranks",
        "mean ranks over all tables; option `score`",
        _ranks,
        of_table=None,
        over_tables=always,
    ),
)
