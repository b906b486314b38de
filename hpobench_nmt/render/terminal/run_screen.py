"""What a run shows at its end, on one screen: the answer, the methods in order, and a line for each table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from hpobench_nmt.analysis.board import figure_board
from hpobench_nmt.analysis.failures import grouped_failures
from hpobench_nmt.analysis.fewer_trainings import (
    FewerTrainings,
    fewer_answer,
    fewer_trainings,
    reference_text,
)
from hpobench_nmt.analysis.paired import Paired
from hpobench_nmt.analysis.run_notes import trial_notes
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.text import NONE, short, some_of
from hpobench_nmt.render.terminal.grids import print_grid, print_text
from hpobench_nmt.render.terminal.leaderboard import print_board

_MOST_NAMES = 2
_MOST_LINES = 4  # of notes, and of failures
_HEAD = ("", "fastest", "after", "random search", "not shown to be slower")


def print_run(results: Results, console: Console) -> None:
    """Print the headline, the figure of each method, and the fastest method on each table."""
    found = fewer_trainings(results)
    if found.paired is not None:
        for line in fewer_answer(found):
            print_text(line, console)
        print_board(figure_board(results, found), console)
        rows = [_line(found, found.paired, table) for table in found.paired.runtimes]
        print_grid(_HEAD, rows, console, right=_HEAD[2:4], wrapped=_HEAD[4:])
    _print_some([*found.notes, *filter(None, [found.reason]), *trial_notes(results)], "notes", console, "dim")
    failed = [
        f"failed: {group.method} on {group.table}, trial {group.which}: {group.reason}"
        for group in grouped_failures(results)
    ]
    _print_some(failed, "failures", console, "red")


def _print_some(lines: Sequence[str], what: str, console: Console, style: str) -> None:
    """Print the first lines, and how many more `score` prints."""
    for line in lines[:_MOST_LINES]:
        print_text(line, console, style)
    if len(lines) > _MOST_LINES:
        print_text(f"{len(lines) - _MOST_LINES} more {what}: see score.", console, style)


def _line(found: FewerTrainings, paired: Paired, table: str) -> tuple[str, ...]:
    """A table's line: the method with the smallest mean, the means, and the methods that are as fast."""
    reference = reference_text(found.tables[found.tables["table"] == table].iloc[0])
    ranked = paired.ranked_on(table)
    if not ranked:
        return table, NONE, NONE, reference, ""
    best = paired.methods.index(ranked[0])
    mean = short(float(np.mean(paired.runtimes[table][best])), commas=True)
    return table, ranked[0], mean, reference, some_of(paired.as_fast_on(table), _MOST_NAMES)
