"""The figures of fronts that a report has of a run on a table: one for each pair of objectives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.run_fronts import Pair, attainment, moving_front, pairs_of_objectives
from hpobench_nmt.analysis.verdicts import Statistics, shown_method
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.text import counted
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints
from hpobench_nmt.render.plots import run_progress
from hpobench_nmt.render.plots.style import Style, drawn_rows, how_many_drawn

_STEPS = (10, 20, 50, 100)
_CORNERS = 8


def attained(
    results: Results, table: str, stem: str, at: int, styles: Mapping[str, Style]
) -> list[FigureSpec]:
    """What the methods attain after `at` look-ups, in each two of the objectives."""
    pairs = pairs_of_objectives(len(results.instances[table].objectives))
    return [_attained(results, table, stem, at, styles, pair, len(pairs) > 1) for pair in pairs]


def _attained(
    results: Results,
    table: str,
    stem: str,
    at: int,
    styles: Mapping[str, Style],
    pair: Pair,
    several: bool,
) -> FigureSpec:
    found = attainment(results, table, at, pair=pair)
    rows = []
    for method, part in found.frame.groupby("method", sort=False):
        # Every other vertex is a point that is attained; the others join them.
        corners = part[["x", "y"]].to_numpy()[1::2]
        points = "; ".join(f"{short(x, 4)}, {short(y, 4)}" for x, y in corners[:_CORNERS])
        rows.append((str(method), f"{points}{'; …' if len(corners) > _CORNERS else ''}"))
    n_rows = len(found.points)
    grey = f"rows{how_many_drawn(n_rows)}" if how_many_drawn(n_rows) else f"all {n_rows} rows"
    alone = ", in these two objectives alone" if several else ""
    return FigureSpec(
        f"{stem}-attained{_suffix(pair, several)}",
        f"Fronts attained{': ' + _in_two(results, table, pair) if several else ''}",
        finding=(
            f"Points that half of each method's trials attain after {counted(at, 'look-up')}{alone}: the "
            f"nearer a staircase is to the best corner, the better. Grey: {grey} of the table."
        ),
        draw=partial(run_progress.plot_attainment, found, styles),
        head=("method", f"corners attained ({found.labels[0]}, {found.labels[1]})"),
        rows=rows,
        notes=found.notes,
        points=HoverPoints(found.labels, drawn_rows(n_rows)),
    )


def front_moves(results: Results, table: str, stem: str, statistics: Statistics | None) -> list[FigureSpec]:
    """One trial's front as it moves, in each two of the objectives."""
    method = shown_method(results, table, statistics)
    pairs = pairs_of_objectives(len(results.instances[table].objectives))
    return [_front_moves(results, table, stem, method, pair, len(pairs) > 1) for pair in pairs]


def _front_moves(
    results: Results, table: str, stem: str, method: str, pair: Pair, several: bool
) -> FigureSpec:
    found = moving_front(results, table, method, _STEPS, pair=pair)
    rows = [
        (str(n), str(len(front)), str(int(np.isin(front, found.front).sum())))
        for n, front in zip(found.lookups, found.fronts, strict=True)
    ]
    true = [row[2] for row in rows]
    seen = f" Fronts of all {found.n_objectives} objectives, seen in two of them." if several else ""
    return FigureSpec(
        f"{stem}-front-moves{_suffix(pair, several)}",
        f"One trial's front as it moves: {method}{', ' + _in_two(results, table, pair) if several else ''}",
        finding=(
            f"A typical trial of {method} (number {found.trial}): after {', '.join(map(str, found.lookups))} "
            f"look-ups it holds {', '.join(true)} of the {counted(len(found.front), 'row')} of the table's "
            f"front.{seen}"
        ),
        draw=partial(run_progress.plot_front_moves, found),
        head=("look-ups", "rows on its front", "of these on the table's front"),
        rows=rows,
        points=HoverPoints(found.labels, drawn_rows(len(found.points), found.front)),
        aside=True,
        own_size=True,
        on_white=True,
    )


def _suffix(pair: Pair, several: bool) -> str:
    return f"-{pair[0] + 1}-{pair[1] + 1}" if several else ""


def _in_two(results: Results, table: str, pair: Pair) -> str:
    first, second = (results.instances[table].objectives[j].metric for j in pair)
    return f"{first} and {second}"
