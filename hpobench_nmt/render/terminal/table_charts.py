"""A table drawn in characters: the spread of its metrics, the effect of each value, and its front.

All shapes can be distinguished without colour. If the terminal has only ASCII, they are drawn in ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from hpobench_nmt.analysis.table_front import with_row_numbers
from hpobench_nmt.benchmarking.task.feasibility import feasible_losses, table_violations
from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.space import short_label
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.terminal.grids import (
    BARS,
    bars_of,
    plain,
    print_frame,
    print_grid,
    print_text,
    spark,
)

_HEIGHT = 14
_WIDEST = 100
# The minimum width of a scatter's field. On a narrower terminal, its lines are folded.
_NARROWEST = 8
_MOST_VALUES = 12
_MOST_ROWS = 12


def print_charts(
    table: Table, console: Console, objectives: tuple[str, str] | None = None, constraints: Sequence[str] = ()
) -> None:
    """Print the spread of every metric, the median at every value, and two metrics with their front.

    The front is of two objectives, by default the table's first two, and of rows that satisfy the
    constraints. From 50 columns on, no line is folded.
    """
    bars = bars_of(console)
    dash = "-" if console.options.ascii_only else "–"
    print_text("Spread of the metrics, from the lowest value to the highest", console, "bold")
    _print_spreads(table, console, bars, dash)
    goal = table.objective(table.main_metric)
    if not np.isnan(table.column(goal.metric)).all():
        console.print()
        print_text(f"Median {_axis(table.metric(goal.metric), goal)} at each value", console, "bold")
        _print_medians(table, console, goal.metric, bars, dash)
    chosen = [table.objective(spec) for spec in objectives or table.objectives[:2]]
    if len({o.metric for o in chosen}) < 2:
        return
    front = pareto_front(feasible_losses(table.losses(chosen), table_violations(table, constraints)))
    if len(front) == 0:
        return
    across, up = chosen[1], chosen[0]
    console.print()
    for line in scatter(table, across, up, front, min(console.width, _WIDEST), console.options.ascii_only):
        console.print(line)
    console.print()
    front = front[np.argsort(table.losses([up])[front, 0], kind="stable")]
    rows = with_row_numbers(table.to_frame().iloc[front[:_MOST_ROWS]])
    names = [up.metric, across.metric, *(h.name for h in table.hyperparameters)]
    print_text("Rows of the front", console, "bold")
    print_frame(rows[[rows.columns[0], *names]], console, exact=table.space.names)
    if len(front) > _MOST_ROWS:
        print_text(f"and {len(front) - _MOST_ROWS} more.", console)


def histogram(values: Floats, width: int, bars: str = BARS) -> str:
    """A histogram of values (N,), not all NaN: a character of `bars` for each of `width` equal bins.

    An empty bin is blank.
    """
    known = values[~np.isnan(values)]
    low, high = float(known.min()), float(known.max())
    # If values differ only in their last bits, their bins would have no width.
    if high - low <= width * np.spacing(max(abs(low), abs(high))):
        return bars[-1]
    counts, _ = np.histogram(known, bins=width)
    # Every count above 0 is visible, and only the largest has the full height.
    height = np.ceil(counts / counts.max() * len(bars)).astype(int)
    return "".join(" " if h == 0 else bars[h - 1] for h in height)


def scatter(
    table: Table,
    across: Objective,
    up: Objective,
    front: Ints,
    width: int,
    ascii_only: bool = False,
    height: int = _HEIGHT,
) -> list[Text]:
    """Lines of a scatter of two metrics, `width` columns wide, in which rows of the front are marked."""
    one, more, best = (".", ":", "O") if ascii_only else ("·", ":", "●")
    wall, floor, corner = ("|", "-", "+") if ascii_only else ("│", "─", "└")
    x, y = table.column(across.metric), table.column(up.metric)
    known = ~np.isnan(x) & ~np.isnan(y)
    x_ends, y_ends = _ends(x[known]), _ends(y[known])
    labels = [f"{y_ends[1]:.5g}", f"{y_ends[0]:.5g}"]
    margin = max(map(len, labels))
    columns = max(width - margin - 2, _NARROWEST)
    at = np.full((height, columns), " ")
    i, j = _cells(y, y_ends, height), _cells(x, x_ends, columns)
    for row in np.flatnonzero(known):
        at[i[row], j[row]] = one if at[i[row], j[row]] == " " else more
    at[i[front], j[front]] = best
    lines = [plain(_axis(table.metric(up.metric), up), "bold")]
    for line in range(height - 1, -1, -1):
        label = {height - 1: labels[0], 0: labels[1]}.get(line, "")
        text = Text(f"{label:>{margin}} {wall}")
        for cell in at[line]:
            text.append(cell, "bold yellow" if cell == best else None)
        lines.append(text)
    lines.append(Text(f"{'':>{margin}} {corner}{floor * columns}"))
    low, high = f"{x_ends[0]:.5g}", f"{x_ends[1]:.5g}"
    name = printable(_axis(table.metric(across.metric), across))
    room = columns - len(low) - len(high)
    middle = name.center(room) if len(name) + 2 <= room else " " * room
    lines.append(Text(f"{'':>{margin}}  {low}{middle}{high}"))
    if not middle.strip():
        lines.append(Text(name.rjust(width)))
    lines.append(Text(f"{one} a row   {more} several   {best} on the Pareto front ({len(front)})"))
    return lines


def _print_spreads(table: Table, console: Console, bars: str, dash: str) -> None:
    rows = []
    for metric in table.metrics:
        values = table.column(metric.name)
        spread = (dash, dash, dash)
        if not np.isnan(values).all():
            low, high = _ends(values[~np.isnan(values)])
            spread = (f"{low:.5g}", histogram(values, 24, bars), f"{high:.5g}")
        rows.append((metric.label, *spread, metric.direction))
    print_grid(("metric", "lowest", "spread", "highest", "best"), rows, console, right=("lowest",))


def _print_medians(table: Table, console: Console, metric: str, bars: str, dash: str) -> None:
    rows = []
    values = table.column(metric)
    per_axis = []
    for j, h in enumerate(table.hyperparameters):
        # If there are too many values, neighbours share a cell. Categories are neighbours if they are listed
        # side by side.
        stretches = np.array_split(np.array(h.numbers), min(len(h.values), _MOST_VALUES))
        spans = [(short_label(h.value(s[0])), short_label(h.value(s[-1]))) for s in stretches]
        labels = [first if first == last else f"{first} to {last}" for first, last in spans]
        if np.isnan(table.configs[:, j]).any():
            stretches.append(np.array([np.nan]))
            labels.append("inactive")
        places = h.places(table.configs[:, j])
        groups = [values[np.isin(places, h.places(s)) & ~np.isnan(values)] for s in stretches]
        per_axis.append((labels, [float(np.median(g)) if len(g) else np.nan for g in groups]))
    every = np.concatenate([medians for _, medians in per_axis])
    # All hyperparameters have the same scale, so that a flat line means that one has little effect.
    ends = _ends(every[~np.isnan(every)])
    for h, (labels, medians) in zip(table.hyperparameters, per_axis, strict=True):
        told = [dash if np.isnan(m) else f"{m:.4g}" for m in medians]
        rows.append((h.name, spark(medians, ends, bars), ", ".join(map("{}: {}".format, labels, told))))
    head = ("hyperparameter", "", "value: median")
    print_grid(head, rows, console, wrapped=head[-1:])


def _axis(metric: Metric, objective: Objective) -> str:
    better = f"{'higher' if objective.direction == 'max' else 'lower'} is better"
    return f"{metric.name} ({metric.unit + ', ' if metric.unit else ''}{better})"


def _ends(values: Floats) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _cells(values: Floats, ends: tuple[float, float], n: int) -> Ints:
    """The cell, out of n, of each value; 0 for NaN, and for all values if the ends are equal."""
    low, high = ends
    share = (values - low) / ((high - low) or 1.0)
    return np.clip(np.nan_to_num(share) * n, 0, n - 1).astype(np.int64)
