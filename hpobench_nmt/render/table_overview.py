"""A table at a glance, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Table as Grid

from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.terminal import fits

if TYPE_CHECKING:
    from rich.console import Console


def print_table(table: Table, console: Console, n_best: int) -> None:
    """Print the search space, the metrics, the provenance and the best rows."""
    console.print(
        f"[bold]{escape(table.name)}[/bold]: {len(table):,} rows, SHA-256 {table.sha256[:12]}…",
        highlight=False,
    )
    for key, text in table.provenance.items():
        if not key.startswith("sha256"):
            console.print(f"  {key}: {text}", markup=False, highlight=False, soft_wrap=True)
    space = Grid("hyperparameter", "values", "scale", "unit", box=None, pad_edge=False, title_justify="left")
    for h in table.hyperparameters:
        space.add_row(*map(escape, (h.name, ", ".join(f"{v:g}" for v in h.values), h.scale, h.unit)))
    console.print()
    console.print(space)
    metrics = Grid("metric", "best is", "unit", "missing", box=None, pad_edge=False)
    for heading in ("best", "median", "worst"):
        metrics.add_column(heading, justify="right")
    for m in table.metrics:
        values = np.sort(table.column(m.name))
        known = values[~np.isnan(values)]
        if m.direction == "max":
            known = known[::-1]
        spread = [f"{v:.6g}" for v in (known[0], np.median(known), known[-1])] if len(known) else ["–"] * 3
        metrics.add_row(
            escape(m.name), m.direction, escape(m.unit), str(int(np.isnan(values).sum())), *spread
        )
    console.print()
    console.print(metrics)
    if not table.objectives:
        return
    loss = table.losses(table.objectives[:1])[:, 0]
    order = np.argsort(loss, kind="stable")[: min(n_best, int((~np.isnan(loss)).sum()))]
    frame = table.to_frame().iloc[order]
    best = Grid("row", box=None, pad_edge=False)
    for column in frame.columns:
        best.add_column(escape(str(column)), justify="right")
    for row, values in zip(frame.index, frame.to_numpy(), strict=True):
        best.add_row(str(row), *["–" if np.isnan(v) else f"{v:.8g}" for v in values])
    console.print()
    console.print(f"Best by {escape(table.objectives[0])}", highlight=False)
    if not fits(best, console):
        # Too wide: a line a column instead.
        best = Grid("row", *map(str, frame.index), box=None, pad_edge=False)
        for column in frame.columns:
            cells = ["–" if np.isnan(v) else f"{v:.8g}" for v in frame[column]]
            best.add_row(escape(str(column)), *cells)
    console.print(best)
