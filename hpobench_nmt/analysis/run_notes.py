"""Sentences on what readers must know about the trials of a run before they read its figures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpobench_nmt.analysis.chosen_rows import choice_score
from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.selection import same_run
from hpobench_nmt.benchmarking.contestants.method_settings import command_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import unfinished
from hpobench_nmt.benchmarking.task.suite_files import published_figures
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.intervals import FEW_TRIALS

_FEW_ROWS = 20


def trial_notes(results: Results) -> list[str]:
    """Sentences on what cannot be compared, or cannot be concluded from so few methods or trials."""
    notes = []
    try:
        published_figures(results.suite)
    except InputError as error:  # such as a file that exists only on the machine of the run
        notes.append(f"Published figures are left out. {error}")
    counts = {len(trials) for trials in results.trials.values()}
    notes += [
        f"{name} is a program: its results are not reproducible. The same seed need not give the same rows."
        for name, entry in (results.manifest.methods if results.manifest else {}).items()
        if command_of(entry.spec) is not None
    ]
    if len({m for _, m in results.trials}) == 1:
        notes.append("Only one method was run, so it can only be compared with random search.")
    if len(counts) > 1:
        notes.append(
            f"Methods have {min(counts)} to {max(counts)} trials. Two methods are compared by the trials "
            f"that both have."
        )
    choice = choice_score(results)
    for (table, method), number in results.without_feasible_row().items():
        of = counted(len(results.trials[table, method]), "trial")
        worst = f" In {choice} they count as the worst feasible row." if choice else ""
        notes.append(f"{method} on {table}: {number} of {of} found no feasible row.{worst}")
    notes += _copies(results)
    notes += _whole_tables(results)
    if small := [name for name, instance in results.instances.items() if len(instance.table) < _FEW_ROWS]:
        notes.append(
            f"{listed(small)}: with fewer than {_FEW_ROWS} rows, even random search soon finds the best, so "
            f"this says little about methods."
        )
    if min(counts) < FEW_TRIALS:
        few = counted(min(counts), "trial")
        notes.append(f"With {few}, intervals are too narrow to trust and tests show little.")
    return notes


def run_notes(results: Results) -> list[str]:
    """Sentences on unfinished methods, failed trials, and too few methods or trials."""
    notes = trial_notes(results)
    if missing := [f"{method} on {table}" for table, method in unfinished(results)]:
        notes.append(f"Not finished, and left out: {listed(missing)}.")
    for (table, method), trials in results.trials.items():
        if failed := sum(bool(t.failure) for t in trials):
            notes.append(
                f"{method} on {table}: {failed} of {counted(len(trials), 'trial')} failed. Means do not "
                f"include them. In comparisons and runtime distributions, targets that they had not reached "
                f"count as never reached."
            )
    return notes


def _copies(results: Results) -> list[str]:
    """Sentences on methods without randomness, whose trials are all the same."""
    return [
        f"All trials of {method} are the same run (on {listed(tables)}). They count as one trial, without "
        f"an interval or a test."
        for method, tables in _where(results, lambda table, method: same_run(results, table, method)).items()
    ]


def _whole_tables(results: Results) -> list[str]:
    """Sentences on methods along curves whose first bracket is the whole table."""
    found = _where(
        results,
        lambda table, method: all(
            _begins_all(trial, len(results.instances[table].table)) for trial in results.trials[table, method]
        ),
    )
    together: dict[str, list[str]] = {}
    for method, tables in found.items():
        together.setdefault(listed(tables), []).append(method)
    return [
        f"{listed(methods)} on {tables}: the first bracket is larger than the table, so all rows start "
        f"before one is resumed. There Hyperband equals successive halving, and trials differ at most in "
        f"the order of the rows. So a standard deviation of 0 does not mean precision."
        for tables, methods in together.items()
    ]


def _begins_all(trial: Trajectory, n_rows: int) -> bool:
    """Whether some row was resumed, and every row had started before the first one was resumed."""
    resumed = trial.resources_before >= 0
    if not resumed.any():
        return False
    starts = trial.timeline.starts
    return len(np.unique(trial.rows[starts <= starts[resumed].min()])) == n_rows


def _where(results: Results, holds: Callable[[str, str], bool]) -> dict[str, list[str]]:
    """The tables where something holds, by method; methods without such a table are left out."""
    found: dict[str, list[str]] = {}
    for table, method in results.trials:
        if holds(table, method):
            found.setdefault(method, []).append(table)
    return found
