"""Grids of text, data frames, and the analyses of tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from hpobench_nmt.analysis.number_text import cell_text, column_text
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.core.system.text import printable

if TYPE_CHECKING:  # pandas takes long to import, and a grid of texts does not need it
    import pandas as pd

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_UNBOUNDED = 100_000
# The minimum width of a column whose text may be wrapped.
_WRAPPED = 24
# Blanks between two columns.
_GAP = 2


def plain(text: str, style: str = "") -> Text:
    """Literal text, without markup and without characters that control the terminal."""
    return Text(printable(text), style=style, overflow="fold")


def bars_of(console: Console) -> str:
    """Characters of bars from low to high; ASCII if the terminal has only this."""
    return ASCII_BARS if console.options.ascii_only else BARS


def spark(values: Sequence[float], ends: tuple[float, float], bars: str) -> str:
    """A bar for each value on the scale between the ends; a blank for NaN."""
    low, high = ends
    highest = (len(bars) - 1) / ((high - low) or 1.0)
    return "".join(" " if math.isnan(v) else bars[round((v - low) * highest)] for v in values)


def fits(grid: Grid, console: Console) -> bool:
    """Whether a grid can be printed without cutting or folding a cell."""
    wanted = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), grid).maximum
    return wanted <= console.width


def print_grid(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    console: Console,
    *,
    right: Container[str] = (),
    wrapped: Container[str] = (),
) -> None:
    """Print rows below their headings or, if that is too wide, as blocks with one line per column.

    `right` names the columns that are aligned to the right, and `wrapped` those whose text may be wrapped.
    """
    lines = [[plain(text) for text in line] for line in (head, *rows)]
    widths = [max(text.cell_len for text in column) for column in zip(*lines, strict=True)]
    least = [min(w, _WRAPPED) if name in wrapped else w for name, w in zip(head, widths, strict=True)]
    if sum(least) + _GAP * (len(head) - 1) > console.width:
        _print_blocks(lines, console)
        return
    grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, title, width in zip(head, lines[0], least, strict=True):
        side: Literal["left", "right"] = "right" if name in right else "left"
        grid.add_column(title, justify=side, min_width=width, no_wrap=name not in wrapped, overflow="fold")
    for line in lines[1:]:
        grid.add_row(*line)
    console.print(grid)


def _print_blocks(lines: Sequence[Sequence[Text]], console: Console) -> None:
    """Print blocks: the first line as a column of headings, and as many of the other lines as fit."""
    widths = [max(text.cell_len for text in line) for line in lines]
    start = 1
    while start < len(lines):
        room = console.width - widths[0] - _GAP - widths[start]
        end = start + 1
        while end < len(lines) and room >= _GAP + widths[end]:
            room -= _GAP + widths[end]
            end += 1
        if start > 1:
            console.print()
        block = Grid(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
        # If a single line is too wide, it is folded.
        block.add_column(min_width=min(widths[0], console.width // 2), overflow="fold")
        for width in widths[start:end]:
            block.add_column(min_width=width if room >= 0 else None, overflow="fold")
        for cells in zip(lines[0], *lines[start:end], strict=True):
            block.add_row(*cells)
        console.print(block)
        start = end


def print_frame(
    frame: pd.DataFrame,
    console: Console,
    digits: int | None = None,
    wrapped: Container[str] = (),
    exact: Container[str] = (),
) -> None:
    """Print a frame without its index. `wrapped` names the columns whose text may be wrapped.

    Numbers have `digits` digits. By default, they have at most five, and all numbers of a column have the
    same decimals. The columns `exact` have all digits of their numbers, as hyperparameters need them.
    """
    import pandas as pd

    head = [str(name) for name in frame.columns]
    right = {str(name) for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])}
    columns = [
        column_text(frame[name], name in exact)
        if digits is None
        else [cell_text(value, None if name in exact else digits) for value in frame[name]]
        for name in frame.columns
    ]
    print_grid(head, list(zip(*columns, strict=True)), console, right=right, wrapped=wrapped)


def print_text(text: str, console: Console, style: str = "") -> None:
    """Print a line or a paragraph without markup, wrapped between words."""
    console.print(plain(text, style))


def print_hanging(mark: str, text: str, console: Console, colour: str, style: str = "") -> None:
    """Print a mark and a text whose further lines are indented below its first."""
    grid = Grid.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, colour), plain(text, style))
    console.print(grid)


def print_sections(sections: Sequence[Section], console: Console) -> None:
    """Print the titles, the notes and the main frames of analyses of tables."""
    for i, section in enumerate(sections):
        if i:
            console.print()
        print_text(section.title, console, "bold")
        if section.problem:
            print_text(f"Left out: {section.problem}", console)
        for note in section.notes:
            print_text(f"- {note}", console)
        if section.shown is not None and len(section.shown):
            console.print()
            print_frame(section.shown, console, exact=section.exact)
