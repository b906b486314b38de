"""The leaderboard of a run in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from hpobench_nmt.analysis.failures import grouped_failures
from hpobench_nmt.analysis.families import family_sentences
from hpobench_nmt.analysis.fewer_trainings import TITLE, FewerTrainings, fewer_sentences
from hpobench_nmt.analysis.leaderboard import (
    Cell,
    cells,
    chosen_columns,
    chosen_meanings,
    exact_figures,
    fewer_heads,
    fewer_rows,
    fewer_setting,
    figure,
    heading,
    interval,
    meaning,
    milliseconds,
    setting,
    shown,
    subject_to,
)
from hpobench_nmt.analysis.run_notes import trial_notes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import ENDLESS_NOTE, METHOD_NOTE, Statistics, run_statistics
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.render.terminal.grids import fits, plain, print_grid, print_text


def print_leaderboard(results: Results, console: Console) -> None:
    """Print tables like the paper's, the best in bold, the published figures beside ours.

    A table too wide for the console is printed score by score.
    """
    scores = range(len(results.suite.scores))
    statistics = run_statistics(results)
    by_row: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells(results, statistics):
        by_row.setdefault((cell.table, cell.method), []).append(cell)
    _print_fewer(results, statistics.fewer, console)
    # Explained before they are used.
    for name in results.suite.scores:
        print_text(f"{name}: {meaning(results.suite, name)}", console, "dim")
    for sentence in chosen_meanings(results):
        print_text(sentence, console, "dim")
    for table in results.instances:
        print_text(f"{table}: {setting(results, table)}", console, "bold")
        if results.suite.constraints:
            print_text(f"constraints kept, {subject_to(results, table)}", console)
        counted_to = fewer_setting(results, statistics.fewer, table)
        if counted_to:
            print_text(counted_to, console, "dim")
        rows = {m: by_row[table, m] for m in results.methods if (table, m) in by_row}
        grid = _grid(results, table, rows, scores)
        if fits(grid, console):
            console.print(grid)
        else:
            for score in scores:
                _print_score(results, table, rows, score, console)
    for line in family_sentences(results, statistics):
        print_text(line, console)
    for line in _reading_notes(results, statistics):
        print_text(line, console, "dim")
    for group in grouped_failures(results):
        which = f"{group.method} on {group.table}, trial {group.which}"
        print_text(f"failed: {which}: {group.reason}", console, "red")


def _print_fewer(results: Results, found: FewerTrainings, console: Console) -> None:
    """The one figure of each method, before all else."""
    if found.reason:
        return
    print_text(TITLE, console, "bold")
    head, rows = ["", *fewer_heads(found)], fewer_rows(found)
    grid = Grid()
    for place, name in enumerate(head):
        grid.add_column(name, justify="right" if place else "left", no_wrap=True, overflow="fold")
    for row in rows[:-1]:
        grid.add_row(*map(plain, row))
    grid.add_section()
    grid.add_row(*(Text(cell, style="dim") for cell in rows[-1]))
    if fits(grid, console):
        console.print(grid)
    else:
        print_grid(head, rows, console)
    for line in fewer_sentences(results, found):
        print_text(line, console, "dim")


def _grid(results: Results, table: str, rows: Mapping[str, list[Cell]], scores: Iterable[int]) -> Grid:
    """One table's cells of some scores."""
    grid = Grid()
    grid.add_column("", no_wrap=True, overflow="fold")
    compared = any(not np.isnan(cell.published_mean) for row in rows.values() for cell in row)
    names = [results.suite.scores[j] for j in scores]
    chosen = chosen_columns(results, table) if "fb" in names else []
    for name in names:
        grid.add_column(heading(results, table, name), justify="right", no_wrap=True, overflow="fold")
        grid.add_column("95%", justify="right", no_wrap=True)
        if compared:
            grid.add_column("paper", justify="right", style="dim", no_wrap=True)
            grid.add_column("Δ/se", justify="right", style="dim", no_wrap=True)
    for column in chosen:
        grid.add_column(column.heading, justify="right", no_wrap=True, overflow="fold")
    timed = any((table, method) in results.step_seconds for method in rows)
    if timed:
        grid.add_column("ms/step", justify="right", style="dim", no_wrap=True)
    for method, row in rows.items():
        line: list[Text] = [plain(method)]
        for cell in (cell for cell in row if cell.score in names):
            mark = "" if len(rows) == 1 else "* " if cell.best else "≈ " if cell.tied else ""
            line.append(Text(mark + shown(cell), style="bold" if cell.best else ""))
            line.append(Text(interval(cell), style="bold" if cell.best else ""))
            if compared:
                known = not np.isnan(cell.published_mean)
                published = figure(cell.published_mean, cell.published_std, cell.decimals)
                line.append(Text(published if known else ""))
                line.append(Text(f"{cell.distance:+.1f}" if known and not np.isnan(cell.distance) else ""))
        line += [Text(column.cells[method]) for column in chosen]
        if timed:
            line.append(Text(milliseconds(results.step_seconds.get((table, method), np.nan))))
        grid.add_row(*line)
    exact_row: list[Text] = [Text(EXACT, style="dim")]
    for name, text in zip(results.suite.scores, exact_figures(results, table), strict=True):
        if name in names:
            exact_row.extend([Text(text, style="dim"), Text()])
            exact_row.extend([Text(), Text()] if compared else [])
    exact_row.extend(Text(column.reference, style="dim") for column in chosen)
    grid.add_section()
    grid.add_row(*exact_row)
    return grid


def _print_score(
    results: Results, table: str, rows: Mapping[str, list[Cell]], score: int, console: Console
) -> None:
    """One table's cells of one score; on a terminal too narrow for a grid, in blocks."""
    grid = _grid(results, table, rows, range(score, score + 1))
    if fits(grid, console):
        console.print(grid)
        return
    head = [str(plain(str(column.header))) for column in grid.columns]
    columns = [[str(cell) for cell in column.cells] for column in grid.columns]
    print_grid(head, list(zip(*columns, strict=True)), console)


def _reading_notes(results: Results, statistics: Statistics) -> list[str]:
    """Sentences on the meaning of the marks, the ranks over tables, and notes on the trials."""
    lines = []
    if len(results.methods) > 1:
        endless = statistics.scores[["unanswered", "failed"]].to_numpy().any()
        note = f"{METHOD_NOTE} {ENDLESS_NOTE}" if endless else METHOD_NOTE
        lines += [f"*: best mean. ≈: not shown to be worse than it. {note}"]
    if len(results.instances) > 1 and len(results.methods) > 2:
        lines += [outcome.sentence for outcome in statistics.ranks]
    if results.step_seconds:
        lines += ["ms/step: processor time of the method a step, without the first trial."]
    return [*lines, *trial_notes(results)]
