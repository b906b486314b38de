"""What is printed to a terminal must fit it."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid

_UNBOUNDED = 10_000


def fits(grid: Grid, console: Console) -> bool:
    """Whether a grid can be printed without cutting or folding a cell."""
    wanted = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), grid).maximum
    return wanted <= console.width
