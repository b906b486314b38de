"""The leaderboard of a run in the terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Container, Iterable, Mapping

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from hpobench_nmt.analysis.failures import grouped_failures
from hpobench_nmt.analysis.families import family_sentences
from hpobench_nmt.analysis.fewer_trainings import TITLE, FewerTrainings, fewer_headline, fewer_sentences
from hpobench_nmt.analysis.leaderboard import (
    Cell,
    cells,
    chosen_columns,
    chosen_meanings,
    exact_figures,
    fewer_answer,
    fewer_heads,
    fewer_rows,
    fewer_setting,
    figure,
    heading,
    interval,
    meaning,
    milliseconds,
    ranked_methods,
    setting,
    shown,
    subject_to,
)
from hpobench_nmt.analysis.run_notes import trial_notes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import ENDLESS_NOTE, METHOD_NOTE, Statistics, run_statistics
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.render.terminal.grids import fits, plain, print_grid, print_text

# The side columns of a table, which it shows if there is room, the least important first.
_TIME, _CHOSEN, _INTERVALS = "time", "chosen", "intervals"
_SIDE = {_TIME: "ms/step", _CHOSEN: "the rows chosen in the end", _INTERVALS: "95% intervals"}


def leaderboard_text(results: Results) -> str:
    """The leaderboard as plain text, as wide as the terminal, for `print(results)`."""
    out = io.StringIO()
    print_leaderboard(results, Console(file=out, width=shutil.get_terminal_size().columns, no_color=True))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def print_leaderboard(results: Results, console: Console, explain: bool = False) -> None:
    """Print tables like those of the paper, with the best method first and in bold, and published figures.

    If a table is too wide for the console, its side columns are left out. If it is still too wide, it is
    printed score by score. With `explain`, notes explain the figures, intervals and tests.
    """
    statistics = run_statistics(results)
    by_cell = {(cell.table, cell.method, cell.score): cell for cell in cells(results, statistics)}
    boards = {}
    for table in results.instances:
        methods, scores = ranked_methods(results, statistics, table), results.suite.scores
        boards[table] = {m: [by_cell[table, m, score] for score in scores] for m in methods}
    grids = {table: _whole_grid(results, table, rows, console) for table, rows in boards.items()}
    left_out = {name for _, dropped in grids.values() for name in dropped}
    print_fewer(results, statistics.fewer, console, explain)
    # Scores are explained before the tables that use them.
    for name in results.suite.scores:
        print_text(f"{name}: {meaning(results.suite, name)}", console, "dim")
    for sentence in chosen_meanings(results) if _CHOSEN not in left_out else ():
        print_text(sentence, console, "dim")
    for table, rows in boards.items():
        print_text(f"{table}: {setting(results, table)}", console, "bold")
        if results.suite.constraints:
            print_text(f"constraints kept, {subject_to(results, table)}", console)
        answer = fewer_answer(results, statistics.fewer, table)
        if answer and len(boards) > 1:  # with one table, `print_fewer` has printed it
            print_text(answer, console)
        counted_to = fewer_setting(results, statistics.fewer, table)
        if counted_to and explain:
            print_text(counted_to, console, "dim")
        grid = grids[table][0]
        if grid:
            console.print(grid)
        else:
            for score in range(len(results.suite.scores)):
                _print_score(results, table, rows, score, console)
    if left_out:
        named = ", ".join(_SIDE[name] for name in _SIDE if name in left_out)
        print_text(f"Left out, because the terminal is narrow: {named}.", console, "dim")
    lines = _explanations(results, statistics) if explain else []
    for line in [*_reading_notes(results, statistics), *lines]:
        print_text(line, console, "dim")
    for group in grouped_failures(results):
        which = f"{group.method} on {group.table}, trial {group.which}"
        print_text(f"failed: {which}: {group.reason}", console, "red")


def print_fewer(results: Results, found: FewerTrainings, console: Console, explain: bool) -> None:
    """Print, at the top, the answer in a sentence and the main figure of each method."""
    if found.reason:
        return
    several = len(results.instances) > 1
    for line in (
        fewer_headline(found) if several else [fewer_answer(results, found, next(iter(results.instances)))]
    ):
        print_text(line, console)
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
    for line in fewer_sentences(results, found) if explain else found.notes:
        print_text(line, console, "dim")


def _whole_grid(
    results: Results, table: str, rows: Mapping[str, list[Cell]], console: Console
) -> tuple[Grid | None, list[str]]:
    """A table's grid without side columns that do not fit, and their names; None if it is still too wide."""
    scores, sides = range(len(results.suite.scores)), _side_columns(results, table)
    for count in range(len(sides) + 1):
        grid = _grid(results, table, rows, scores, sides[:count])
        if fits(grid, console):
            return grid, sides[:count]
    return None, []


def _side_columns(results: Results, table: str) -> list[str]:
    """The side columns that a table has, the least important first."""
    has = {
        _TIME: any(name == table for name, _ in results.step_seconds),
        _CHOSEN: "fb" in results.suite.scores and bool(chosen_columns(results, table)),
        _INTERVALS: True,
    }
    return [name for name in _SIDE if has[name]]


def _grid(
    results: Results,
    table: str,
    rows: Mapping[str, list[Cell]],
    scores: Iterable[int],
    dropped: Container[str] = (),
) -> Grid:
    """One table's cells for some scores, without the dropped side columns."""
    grid = Grid()
    grid.add_column("", no_wrap=True, overflow="fold")
    compared = any(not np.isnan(cell.published_mean) for row in rows.values() for cell in row)
    names = [results.suite.scores[j] for j in scores]
    with_chosen = "fb" in names and _CHOSEN not in dropped
    chosen = chosen_columns(results, table) if with_chosen else []
    intervals = _INTERVALS not in dropped
    for name in names:
        grid.add_column(heading(results, table, name), justify="right", no_wrap=True, overflow="fold")
        if intervals:
            grid.add_column("95%", justify="right", no_wrap=True)
        if compared:
            grid.add_column("paper", justify="right", style="dim", no_wrap=True)
            grid.add_column("Δ/se", justify="right", style="dim", no_wrap=True)
    for column in chosen:
        grid.add_column(column.heading, justify="right", no_wrap=True, overflow="fold")
    timed = _TIME not in dropped and any((table, method) in results.step_seconds for method in rows)
    if timed:
        grid.add_column("ms/step", justify="right", style="dim", no_wrap=True)
    for method, row in rows.items():
        line: list[Text] = [plain(method)]
        for cell in (cell for cell in row if cell.score in names):
            mark = "" if len(rows) == 1 else "* " if cell.best else "≈ " if cell.tied else ""
            line.append(Text(mark + shown(cell), style="bold" if cell.best else ""))
            if intervals:
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
            exact_row.append(Text(text, style="dim"))
            exact_row.extend([Text()] * (intervals + 2 * compared))
    exact_row.extend(Text(column.reference, style="dim") for column in chosen)
    grid.add_section()
    grid.add_row(*exact_row)
    return grid


def _print_score(
    results: Results, table: str, rows: Mapping[str, list[Cell]], score: int, console: Console
) -> None:
    """Print one table's cells for one score, in blocks if the terminal is too narrow for a grid."""
    grid = _grid(results, table, rows, range(score, score + 1))
    if fits(grid, console):
        console.print(grid)
        return
    head = [str(plain(str(column.header))) for column in grid.columns]
    columns = [[str(cell) for cell in column.cells] for column in grid.columns]
    print_grid(head, list(zip(*columns, strict=True)), console)


def _reading_notes(results: Results, statistics: Statistics) -> list[str]:
    """Lines on the meaning of the marks, the ranks over tables, and the trials."""
    lines = []
    if len(results.methods) > 1:
        lines += ["*: best mean. ≈: not shown to be worse than the best."]
    if len(results.instances) > 1 and len(results.methods) > 2:
        lines += [outcome.sentence for outcome in statistics.ranks]
    return [*lines, *trial_notes(results)]


def _explanations(results: Results, statistics: Statistics) -> list[str]:
    """Lines on how intervals and tests were computed, and the mean ranks over the tables of each family."""
    lines = family_sentences(results, statistics)
    if len(results.methods) > 1:
        endless = statistics.scores[["unanswered", "failed"]].to_numpy().any()
        lines += [METHOD_NOTE, ENDLESS_NOTE] if endless else [METHOD_NOTE]
        lines += ["Methods are in the order of their mean rank in the scores of the table."]
    if results.step_seconds:
        lines += ["ms/step: processor time of the method for a step, without the first trial."]
    return lines
