r"""Scores as LaTeX tables.

In all tables the best mean is bold, and means that are not shown to be worse are underlined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpobench_nmt.analysis.leaderboard import (
    Cell,
    cells,
    exact_figures,
    file_setting,
    heading,
    interval,
    shown,
)
from hpobench_nmt.analysis.report_content import Board
from hpobench_nmt.analysis.selection import EXACT, methods_on
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.text import printable

_TEX = {"±": r"$\pm$", "≥": r"$\geq$", "–": "--", "≈": r"$\approx$", "★": r"$\star$", "↓": r"$\downarrow$"}
_TEX |= {"↑": r"$\uparrow$", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {c: "\\" + c for c in "&%$#_{}"}
# Without packages, LaTeX prints other characters instead of these.
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}"}
_LIGATURE = re.compile("(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)")  # such as --, printed as one dash

# The cells of a line.
_Row = Sequence[str]


def tex(text: str) -> str:
    """LaTeX that prints a text as it is."""
    apart = _LIGATURE.split(printable(text))
    return "{}".join("".join(_TEX.get(c, c) for c in part) for part in apart)


def run_latex(results: Results) -> str:
    """A run as one tabular that needs no packages: its tables below each other, one row per method.

    The exact values of random search follow below a line, as in the terminal. Comments state the settings.
    """
    found = {(c.table, c.method, c.score): c for c in cells(results)}
    lines = ["% bold: best mean; underlined: not shown to be worse; brackets: 95% interval of the mean"]
    lines += [f"% {tex(file_setting(results, table))}" for table in results.instances]
    lines.append(rf"\begin{{tabular}}{{l{'r' * len(results.suite.scores)}}}")
    for table in results.instances:
        lines += [r"\hline", _line([tex(table), *_heads(results, table)]), r"\hline"]
        for method in results.methods:
            row = [tex(method)]
            for score in results.suite.scores:
                cell = found.get((table, method, score))
                text, limits = _marked(cell) if cell else ("--", "")
                row.append(rf"{text} {{\scriptsize {limits}}}" if limits else text)
            lines.append(_line(row))
        lines += [r"\hline", _line([tex(EXACT), *map(tex, exact_figures(results, table))])]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _heads(results: Results, table: str) -> list[str]:
    """The headings of a table's scores: name, when it is measured, and which direction is better."""
    return [tex(heading(results, table, score)) for score in results.suite.scores]


def table_latex(results: Results, table: str, found: Sequence[Cell]) -> str:
    """A tabular of one table: one row per method, with mean±std and interval of every score."""
    scores = results.suite.scores
    by_cell = {(c.method, c.score): c for c in found}
    rows = [
        [tex(method), *(text for score in scores for text in _marked(by_cell[method, score]))]
        for method in methods_on(results, table)
    ]
    reference = [tex(EXACT)]
    for text in exact_figures(results, table):
        reference += [tex(text), ""]
    head = ["", *(text for score in _heads(results, table) for text in (score, r"95\%"))]
    setting = tex(file_setting(results, table))
    comment = f"{setting}. Bold: best mean; underlined: not shown to be worse. Needs booktabs."
    return _tabular(comment, "l" + "rl" * len(scores), head, rows, [reference])


def overall_latex(board: Board) -> str:
    """A tabular of the leaderboard over all tables."""
    head = ["", *(tex(column.name) for column in board.columns)]
    rows = [[tex(name), *(tex(entry.text) for entry in entries)] for name, entries in board.rows]
    return _tabular("Over all tables. Needs booktabs.", "l" + "r" * len(board.columns), head, rows)


def _marked(cell: Cell) -> tuple[str, str]:
    """A cell's figure, and its interval in brackets; "" if there is no interval."""
    text = tex(shown(cell))
    if cell.best or cell.tied:
        text = rf"\textbf{{{text}}}" if cell.best else rf"\underline{{{text}}}"
    limits = tex(interval(cell))
    return text, f"[{limits}]" if limits else ""


def _tabular(
    comment: str, columns: str, head: _Row, rows: Sequence[_Row], references: Sequence[_Row] = ()
) -> str:
    lines = [f"% {comment}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _line(head), r"\midrule"]
    lines += map(_line, rows)
    if references:
        lines += [r"\midrule", *map(_line, references)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _line(texts: _Row) -> str:
    # The & comes first, because a bracket there would be taken for an argument of the \\ before it.
    return " & ".join(texts) + r" \\"
