"""Grids of text and data frames in the terminal."""

from __future__ import annotations

from collections.abc import Container, Sequence

import pandas as pd
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from hpobench_nmt.analysis.number_text import NONE, column_text

_UNBOUNDED = 100_000
# The least width that is left to a column whose text may be wrapped.
_WRAPPED = 24


def fits(grid: Grid, console: Console) -> bool:
    """Whether a grid can be printed without cutting or folding a cell, other than one that may be wrapped."""
    wanted = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), grid).minimum
    return wanted <= console.width


def print_grid(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    console: Console,
    *,
    right: Container[str] = (),
    wrapped: Container[str] = (),
) -> None:
    """Print rows below their headings; where that is too wide, blocks with one line per column.

    Args:
        head: of the columns.
        rows: cells as text.
        console: where to print.
        right: headings of the columns that are aligned to the right.
        wrapped: headings of the columns whose text may be wrapped.
    """
    grid = Grid(box=None, pad_edge=False)
    for name in head:
        grid.add_column(
            Text(name),
            justify="right" if name in right else "left",
            no_wrap=name not in wrapped,
            min_width=_WRAPPED if name in wrapped else None,
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*map(Text, row))
    if fits(grid, console):
        console.print(grid)
        return

    def block(start: int, end: int) -> Grid:
        lines = Grid(box=None, pad_edge=False, show_header=False)
        lines.add_column(no_wrap=True)
        for _ in range(start, end):
            lines.add_column(no_wrap=end > start + 1, overflow="fold")
        for i, name in enumerate(head):
            lines.add_row(Text(name), *(Text(row[i]) for row in rows[start:end]))
        return lines

    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and fits(block(start, end + 1), console):
            end += 1
        if start:
            console.print()
        console.print(block(start, end))
        start = end


def print_frame(frame: pd.DataFrame, console: Console, digits: int | None = None) -> None:
    """Print a frame without its index.

    Args:
        frame: any.
        console: where to print.
        digits: of each number; where left out, five at most and the same decimals in a column.
    """
    head = [str(name) for name in frame.columns]
    right = {str(name) for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])}
    columns = [
        column_text(frame[name])
        if digits is None
        else [v if isinstance(v, str) else NONE if pd.isna(v) else f"{v:.{digits}g}" for v in frame[name]]
        for name in frame.columns
    ]
    print_grid(head, list(zip(*columns, strict=True)), console, right=right)


def print_text(text: str, console: Console, style: str = "") -> None:
    """Print a line or a paragraph as it is, wrapped between words."""
    console.print(Text(text, style=style, overflow="fold"))
