"""The figure of a report that shows what the workers did in one trial on a clock."""

from __future__ import annotations

from functools import partial

from hpobench_nmt.analysis.run_workers import worker_rows, worker_times, workers_finding
from hpobench_nmt.analysis.verdicts import Statistics, shown_method
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.render.figure_spec import FigureSpec
from hpobench_nmt.render.plots import run_workers


def workers(results: Results, table: str, stem: str, statistics: Statistics | None) -> FigureSpec:
    """What the workers did in one trial of the table's `shown_method`."""
    method = shown_method(results, table, statistics)
    found = worker_times(results, table, method)
    return FigureSpec(
        f"{stem}-workers",
        f"What the workers do: {method}",
        finding=workers_finding(found),
        draw=partial(run_workers.plot_workers, found),
        head=("worker", "trainings", "busy", "first rows"),
        rows=worker_rows(found),
        notes=found.notes,
        aside=True,
        own_size=True,
        on_white=True,
    )
