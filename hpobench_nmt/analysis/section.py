"""One analysis, ready to be printed, written to files, or put into a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hpobench_nmt.core.errors import RunError
from hpobench_nmt.render.plots.figure import save
from hpobench_nmt.render.terminal import fits

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

FIGURE_FORMATS = ("png", "pdf")
_DPI = 150


@dataclass(frozen=True, eq=False)
class Section:
    """One analysis.

    Attributes:
        table: what it is about; "" for several tables together.
        kind: of analysis: "correlation", "importance", "front", "sensitivity" or "noise".
        title: for people.
        notes: what was found, in sentences.
        shown: the frame that a reader wants to see; None for none.
        files: all frames, by the stem of a file name.
        figures: functions that draw, by the stem of a file name.
        problem: why there is nothing of the above; "" where there is.
    """

    table: str
    kind: str
    title: str
    notes: tuple[str, ...] = ()
    shown: pd.DataFrame | None = None
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    problem: str = ""


def print_sections(sections: Sequence[Section], console: Console) -> None:
    """Print titles, notes and the frames worth seeing."""
    for i, section in enumerate(sections):
        if i:
            console.print()
        console.print(section.title, style="bold", markup=False, highlight=False)
        if section.problem:
            console.print(f"Left out: {section.problem}", markup=False, highlight=False)
        for note in section.notes:
            console.print(f"- {note}", markup=False, highlight=False)
        if section.shown is not None and len(section.shown):
            console.print()
            print_frame(section.shown, console)


def print_frame(frame: pd.DataFrame, console: Console) -> None:
    """Print a frame without its index: a line a row, or where that is too wide, blocks of a line a column."""
    from rich.markup import escape
    from rich.table import Table as Grid

    columns = {str(name): column_text(frame[name]) for name in frame.columns}
    grid = Grid(box=None, pad_edge=False)
    for name in columns:
        text = not pd.api.types.is_numeric_dtype(frame[name])
        grid.add_column(escape(name), justify="left" if text else "right")
    for row in zip(*columns.values(), strict=True):
        grid.add_row(*map(escape, row))
    if fits(grid, console):
        console.print(grid)
        return

    def block(start: int, end: int) -> Grid:
        lines = Grid(box=None, pad_edge=False, show_header=False)
        for name, cells in columns.items():
            lines.add_row(escape(name), *map(escape, cells[start:end]))
        return lines

    start = 0
    while start < len(frame):
        end = start + 1
        while end < len(frame) and fits(block(start, end + 1), console):
            end += 1
        if start:
            console.print()
        console.print(block(start, end))
        start = end


def column_text(values: pd.Series) -> list[str]:
    """Values of a column for people: five figures, the same number of decimals, and a dash for none."""
    if not pd.api.types.is_float_dtype(values):
        return [str(v) for v in values]
    known = values.dropna().abs()
    short = [f"{v:.5g}" for v in known if v < 1e5]
    decimals = max((len(text.partition(".")[2]) for text in short if "e" not in text), default=0)
    # A tiny value among large ones must not drag all of its decimals into every line.
    decimals = min(decimals, 4) if len(known) and known.max() >= 0.01 else decimals
    tiny = any("e" in text for text in short)
    return ["–" if np.isnan(v) else f"{v:.5g}" if tiny else f"{v:.{decimals}f}" for v in values]


def write_sections(
    sections: Sequence[Section], out: Path, formats: Sequence[str] = FIGURE_FORMATS
) -> list[Path]:
    """Write the frames as CSV files and the figures in each format; returns the files in order.

    Files of the same name are replaced. About a fifth of a second a figure.
    """
    written = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for stem, frame in section.files.items():
                path = out / f"{stem}.csv"
                path.write_text(frame.to_csv(index=False, lineterminator="\n"), encoding="utf-8", newline="")
                written.append(path)
            for stem, draw in section.figures.items():
                figure = draw()
                for suffix in formats:
                    path = out / f"{stem}.{suffix}"
                    save(figure, path, suffix, _DPI)
                    written.append(path)
    except OSError as error:
        raise RunError(f"{error.filename or out}: cannot be written: {error.strerror}.") from error
    return written
