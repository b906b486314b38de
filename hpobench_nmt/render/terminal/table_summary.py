"""A table at a glance: its provenance, its search space, its metrics, and its best rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from hpobench_nmt.analysis.table_front import with_row_numbers
from hpobench_nmt.analysis.tables.curve_sections import curve_summary
from hpobench_nmt.benchmarking.task.feasibility import feasible_losses, table_violations
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.system.text import NONE, counted
from hpobench_nmt.lookup.baselines import baseline_sentence
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.terminal.grids import plain, print_frame, print_grid, print_text


def print_summary(table: Table, console: Console, n_best: int, constraints: Sequence[str] = ()) -> None:
    """Print the provenance, the search space, the metrics and the best rows that satisfy all constraints."""
    about = f": {counted(len(table), 'row')}, SHA-256 {table.sha256[:12]}…"
    console.print(plain(table.name, "bold") + Text(about))
    for key, text in table.provenance.items():
        if not key.startswith("sha256"):
            print_text(f"  {key}: {text}", console)
    if sentence := baseline_sentence(table):
        print_text(f"  baseline: {sentence}", console)
    console.print()
    of_numbers = all(h.is_numeric for h in table.hyperparameters)
    head = ("hyperparameter", "values", "scale" if of_numbers else "scale or kind", "unit")
    space = [
        (h.name, h.values_text, h.scale if h.is_numeric else h.kind, h.unit) for h in table.hyperparameters
    ]
    print_grid(head, space, console, wrapped=("values",))
    if table.descriptors:
        features = ", ".join(h.name for h in table.descriptors.axes)
        print_text(f"features that are not hyperparameters: {features}", console)
    for h in table.hyperparameters:
        if h.active_if:
            print_text(f"{h.name} is active if {h.condition}", console)
    console.print()
    shown = ("metric", "best is", "unit", "missing", "best", "median", "worst")
    print_grid(shown, [_metric(table, i) for i in range(len(table.metrics))], console, right=shown[3:])
    if table.curves is not None:
        console.print()
        print_text(curve_summary(table), console)
    if not table.objectives:
        return
    violations = table_violations(table, constraints)
    loss = feasible_losses(table.losses(table.objectives[:1]), violations)[:, 0]
    order = np.argsort(loss, kind="stable")[: min(n_best, int((~np.isnan(loss)).sum()))]
    best = with_row_numbers(table.to_frame().iloc[order])
    console.print()
    kept = "" if violations is None else f" of the {int(is_feasible(violations).sum())} rows that keep "
    print_text(f"Best by {table.objectives[0]}{kept}{' and '.join(constraints)}", console, "bold")
    print_frame(best, console, digits=8, exact=table.space.names)


def _metric(table: Table, place: int) -> tuple[str, ...]:
    metric = table.metrics[place]
    values = np.sort(table.column(metric.name))
    known = values[~np.isnan(values)]
    if metric.direction == "max":
        known = known[::-1]
    spread = [NONE] * 3
    if len(known):
        spread = [f"{v:.6g}" for v in (known[0], np.median(known), known[-1])]
    return (metric.name, metric.direction, metric.unit, str(int(np.isnan(values).sum())), *spread)
