r"""Leaderboards as LaTeX tables.

In all tables the best mean is bold, and means that are not shown to be worse are underlined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version

from hpobench_nmt.analysis.board import Board, Entry, figure_board, table_boards
from hpobench_nmt.analysis.leaderboard import file_setting
from hpobench_nmt.analysis.number_text import listed
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import Statistics, run_statistics
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.text import counted, printable

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


def latex_tables(results: Results, statistics: Statistics) -> dict[str, str]:
    """LaTeX tables of a run by name: the figure over its tables, named "", and the scores of each table.

    Their captions name the tables, the trials, the seed and the version.
    """
    suite, found, package = results.suite, statistics.fewer, f"hpobench-nmt {version('hpobench-nmt')}"
    how = f"{counted(suite.trials, 'trial')}, seed {results.seed}, {package}"
    made = {}
    if not found.reason:
        tables = listed(sorted(results.instances))
        caption = f"Times fewer trainings than random search until {found.aim}. Tables: {tables}. {how}."
        made[""] = board_latex(figure_board(results, found), tex(caption))
    for table, board in table_boards(results, statistics).items():
        marks = "Bold: best mean; underlined: not shown to be worse."
        made[table] = board_latex(board, f"{tex(file_setting(results, table))}. {marks} {tex(how)}.")
    return made


def run_latex(results: Results) -> str:
    """The LaTeX tables of a run, below each other."""
    return "\n".join(latex_tables(results, run_statistics(results)).values())


def board_latex(board: Board, caption: str) -> str:
    """A leaderboard as a table that needs the package booktabs, with intervals in columns of their own."""
    parts = board.parts()
    sides = "".join("l" if of == "interval" else "r" for _, _, of in parts)

    def line(name: str, entries: Sequence[Entry]) -> str:
        return _line([tex(name), *(_cell(entries[i], of) for i, _, of in parts)])

    lines = ["% Needs booktabs.", r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]
    lines += [rf"\begin{{tabular}}{{l{sides}}}", r"\toprule"]
    lines += [_line(["", *(tex(heading) for _, heading, _ in parts)]), r"\midrule"]
    lines += [line(*row) for row in board.rows]
    if board.reference:
        lines += [r"\midrule", line(EXACT, board.reference)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _cell(entry: Entry, of: str) -> str:
    """A cell of a method's line. Intervals are in brackets."""
    text = tex(getattr(entry, of))
    if of == "interval":
        return f"[{text}]" if text else ""
    return _MARKS[entry.mark].format(text) if of == "text" else text


def _line(texts: Sequence[str]) -> str:
    # The & comes first, because a bracket there would be taken for an argument of the \\ before it.
    return " & ".join(texts) + r" \\"
