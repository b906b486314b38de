"""The leaderboard of a run in the terminal."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from hpobench_nmt.analysis.board import CHOSEN, TIME, Board, Entry, figure_board, table_boards
from hpobench_nmt.analysis.failures import grouped_failures
from hpobench_nmt.analysis.fewer_trainings import TITLE, FewerTrainings, fewer_answer, fewer_sentences
from hpobench_nmt.analysis.leaderboard import (
    chosen_meanings,
    fewer_setting,
    first_on,
    meaning,
    ranked_methods,
    setting,
    subject_to,
)
from hpobench_nmt.analysis.run_notes import trial_notes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import ENDLESS_NOTE, METHOD_NOTE, Statistics, run_statistics
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.render.terminal.grids import fits, plain, print_grid, print_text

_INTERVALS = "95% intervals"
# What a narrow terminal leaves out, the least important first.
_SIDES = (TIME, CHOSEN, _INTERVALS)
_DIM = ("published", "distance")
_MARKS = {"best": "* ", "tied": "≈ ", "": ""}


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
    boards = {
        table: replace(board, methods=tuple(ranked_methods(results, statistics, table)))
        for table, board in table_boards(results, statistics).items()
    }
    grids = {table: _fitting(board, console) for table, board in boards.items()}
    left_out = {name for _, dropped in grids.values() for name in dropped}
    print_fewer(results, statistics.fewer, console, explain)
    # Scores are explained before the tables that use them.
    for name in results.suite.scores:
        print_text(f"{name}: {meaning(results.suite, name)}", console, "dim")
    for sentence in chosen_meanings(results) if CHOSEN not in left_out else ():
        print_text(sentence, console, "dim")
    for table, board in boards.items():
        print_text(f"{table}: {setting(results, table)}", console, "bold")
        if results.suite.constraints:
            print_text(f"constraints kept, {subject_to(results, table)}", console)
        if answer := first_on(results, statistics.fewer, table):
            print_text(f"{statistics.fewer.aim}: {answer}", console)
        counted_to = fewer_setting(results, statistics.fewer, table)
        if counted_to and explain:
            print_text(counted_to, console, "dim")
        if grid := grids[table][0]:
            console.print(grid)
        else:
            for score in results.suite.scores:
                of_score = tuple(column for column in board.columns if column.score in ("", score))
                print_board(replace(board, columns=of_score), console)
    if left_out:
        named = ", ".join(name for name in _SIDES if name in left_out)
        print_text(f"Left out, because the terminal is narrow: {named}.", console, "dim")
    marks = ["*: best mean. ≈: not shown to be worse than the best."] * (len(results.methods) > 1)
    lines = _explanations(results, statistics) if explain else []
    for line in [*marks, *trial_notes(results), *lines]:
        print_text(line, console, "dim")
    for group in grouped_failures(results):
        which = f"{group.method} on {group.table}, trial {group.which}"
        print_text(f"failed: {which}: {group.reason}", console, "red")


def print_fewer(results: Results, found: FewerTrainings, console: Console, explain: bool) -> None:
    """Print, at the top, the answer in a sentence and the main figure of each method."""
    if found.reason:
        return
    for line in fewer_answer(found):
        print_text(line, console)
    print_text(TITLE, console, "bold")
    print_board(figure_board(results, found), console)
    for line in fewer_sentences(results, found) if explain else found.notes:
        print_text(line, console, "dim")


def _fitting(board: Board, console: Console) -> tuple[Grid | None, tuple[str, ...]]:
    """A table's grid without the sides that do not fit, and their names; None if it is still too wide."""
    sides = tuple(s for s in _SIDES if s == _INTERVALS or any(s == column.side for column in board.columns))
    for count in range(len(sides) + 1):
        kept = tuple(column for column in board.columns if column.side not in sides[:count])
        grid = _grid(replace(board, columns=kept), intervals=_INTERVALS not in sides[:count])
        if fits(grid, console):
            return grid, sides[:count]
    return None, ()


def print_board(board: Board, console: Console) -> None:
    """Print a leaderboard, in blocks if the terminal is too narrow for a grid."""
    grid = _grid(board)
    if fits(grid, console):
        console.print(grid)
    else:
        head = [str(plain(str(column.header))) for column in grid.columns]
        columns = [[str(cell) for cell in column.cells] for column in grid.columns]
        print_grid(head, list(zip(*columns, strict=True)), console)


def _grid(board: Board, intervals: bool = True) -> Grid:
    """A leaderboard as a grid, with marks of the best methods, and random search below a line."""
    grid = Grid()
    grid.add_column("", no_wrap=True, overflow="fold")
    parts = board.parts(intervals)
    for i, heading, of in parts:
        style = "dim" if of in _DIM or board.columns[i].side == TIME else ""
        grid.add_column(heading, justify="right", style=style, no_wrap=True, overflow="fold")
    for method, entries in board.rows:
        grid.add_row(plain(method), *(_cell(entries[i], of) for i, _, of in parts))
    grid.add_section()
    grid.add_row(EXACT, *(getattr(board.reference[i], of) for i, _, of in parts), style="dim")
    return grid


def _cell(entry: Entry, of: str) -> Text:
    mark = _MARKS[entry.mark] if of == "text" else ""
    best = entry.mark == "best" and of not in _DIM
    return Text(f"{mark}{getattr(entry, of)}", style="bold" if best else "")


def _explanations(results: Results, statistics: Statistics) -> list[str]:
    """Lines on how intervals and tests were computed."""
    lines = []
    if len(results.methods) > 1:
        endless = statistics.scores[["unanswered", "failed"]].to_numpy().any()
        lines += [METHOD_NOTE, ENDLESS_NOTE] if endless else [METHOD_NOTE]
        lines += ["Methods are in the order of their mean rank in the scores of the table."]
    if results.step_seconds:
        lines += ["ms/step: processor time of the method for a step, without the first trial."]
    return lines
