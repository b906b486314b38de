"""Who beats whom in a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.style import axes_for
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_wins(comparisons: pd.DataFrame, table: str, score: str, methods: Sequence[str] = ()) -> Figure:
    """Probability that the method of a row beats that of a column in a trial; a star where shown to.

    Args:
        comparisons: of Statistics.
        methods: their order; as compared where left out.
    """
    chosen = comparisons[(comparisons["table"] == table) & (comparisons["score"] == score)]
    if not len(chosen):
        raise InputError(f"no two methods were compared in {score!r} on table {table!r}.")
    names = list(methods) or list(dict.fromkeys([*chosen["a"], *chosen["b"]]))
    place = {name: i for i, name in enumerate(names)}
    share = np.full((len(names), len(names)), np.nan)
    better = np.zeros_like(share, dtype=bool)
    columns = (chosen[name].tolist() for name in ("a", "b", "p_a_better", "better"))
    for first, second, p, winner in zip(*columns, strict=True):
        if first in place and second in place:
            a, b = place[first], place[second]
            share[a, b], share[b, a] = p, 1.0 - p
            better[a, b], better[b, a] = winner == first, winner == second
    size = 0.62 * len(names)
    figure, axes = axes_for(None, (size + 2.4, size + 1.6))
    image = axes.imshow(share, cmap="PuOr_r", vmin=0, vmax=1)
    axes.grid(False)
    for i, j in zip(*np.nonzero(~np.isnan(share)), strict=True):
        dark = abs(share[i, j] - 0.5) > 0.3
        shown = better[i, j] or better[j, i]
        axes.text(
            j,
            i,
            f"{100 * share[i, j]:.0f}" + ("*" if shown else ""),
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontsize=9,
            fontweight="bold" if shown else "normal",
        )
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title(f"{score} on {table}: trials in 100 that the row's method wins\n(*: shown to differ)")
    axes.title.set_fontsize(10)
    figure.colorbar(image, ax=axes, shrink=0.7, format=lambda value, _: f"{100 * value:.0f}")
    return figure


def _wins(subject: Subject, score: str = "") -> Iterator[FigureSpec]:
    for name in subject.scores(score):
        draw = partial(plot_wins, subject.tests.comparisons, subject.table, name)
        title = f"Who beats whom in {name}"
        yield FigureSpec(f"-{name}", title, draw=draw, files_only=True)  # the page has them as a table


PLOTS = (Plot("wins", "Who beats whom", "who beats whom in a score; option `score`", _wins, one_panel=False),)
