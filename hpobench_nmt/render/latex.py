r"""Leaderboards as LaTeX tables.

In all tables the best mean is bold, and means that are not shown to be worse are underlined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hpobench_nmt.analysis.board import Board, Entry, table_boards
from hpobench_nmt.analysis.leaderboard import file_setting
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.text import printable

_TEX = {"±": r"$\pm$", "≥": r"$\geq$", "–": "--", "≈": r"$\approx$", "★": r"$\star$", "↓": r"$\downarrow$"}
_TEX |= {"↑": r"$\uparrow$", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"Δ": r"$\Delta$", **{c: "\\" + c for c in "&%$#_{}"}}
# Without packages, LaTeX prints other characters instead of these.
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}"}
_LIGATURE = re.compile("(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)")  # such as --, printed as one dash
_MARKS = {"": "{}", "best": r"\textbf{{{}}}", "tied": r"\underline{{{}}}"}


def tex(text: str) -> str:
    """LaTeX that prints a text as it is."""
    apart = _LIGATURE.split(printable(text))
    return "{}".join("".join(_TEX.get(c, c) for c in part) for part in apart)


def run_latex(results: Results) -> str:
    """A run as one tabular that needs no packages: its tables below each other, one row per method.

    The exact values of random search follow below a line, as in the terminal. Comments state the settings.
    """
    boards = table_boards(results, run_statistics(results))
    width = max(len(_heads(board, apart=False)) for board in boards.values())
    lines = ["% bold: best mean; underlined: not shown to be worse; brackets: 95% interval of the mean"]
    lines += [f"% {tex(file_setting(results, table))}" for table in boards]
    lines.append(rf"\begin{{tabular}}{{l{'r' * width}}}")
    for table, board in boards.items():
        every = replace(board, methods=tuple(results.methods))
        lines += [r"\hline", _line([tex(table), *_heads(board, apart=False)]), r"\hline"]
        lines += [_line(_cells(board, *row, apart=False)) for row in every.rows]
        lines += [r"\hline", _line(_cells(board, EXACT, board.reference, apart=False))]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def board_latex(board: Board, comment: str) -> str:
    """A leaderboard as a tabular that needs the package booktabs, with intervals in columns of their own."""
    sides = ["l" if of == "interval" else "r" for column in board.columns for _, of in column.parts()]
    lines = [f"% {comment} Needs booktabs.", rf"\begin{{tabular}}{{l{''.join(sides)}}}", r"\toprule"]
    lines += [_line(["", *_heads(board)]), r"\midrule"]
    lines += [_line(_cells(board, *row)) for row in board.rows]
    if board.reference:
        lines += [r"\midrule", _line(_cells(board, EXACT, board.reference))]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _heads(board: Board, apart: bool = True) -> list[str]:
    return [tex(heading) for column in board.columns for heading, _ in column.parts(apart)]


def _cells(board: Board, name: str, entries: Sequence[Entry], apart: bool = True) -> list[str]:
    """The cells of a line. Intervals are in brackets, `apart` or behind the mean."""
    found = [tex(name)]
    for column, entry in zip(board.columns, entries, strict=True):
        interval = f"[{tex(entry.interval)}]" if entry.interval else ""
        text = _MARKS[entry.mark].format(tex(entry.text))
        if interval and not apart:
            text = rf"{text} {{\scriptsize {interval}}}"
        shown = {"text": text, "interval": interval, "published": tex(entry.published)}
        shown["distance"] = tex(entry.distance)
        found += [shown[of] for _, of in column.parts(apart)]
    return found


def _line(texts: Sequence[str]) -> str:
    # The & comes first, because a bracket there would be taken for an argument of the \\ before it.
    return " & ".join(texts) + r" \\"
