r"""Scores as LaTeX tables.

In all of them the best mean is bold, and means that are not shown to be worse are underlined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpobench_nmt.analysis.leaderboard import Cell, cells, exact_figures, interval, shown
from hpobench_nmt.analysis.report_content import Board
from hpobench_nmt.analysis.selection import EXACT, methods_on
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.text import printable

_TEX = {"±": r"$\pm$", "≥": r"$\geq$", "–": "--", "≈": r"$\approx$", "★": r"$\star$", "↓": r"$\downarrow$"}
_TEX |= {"↑": r"$\uparrow$", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {c: "\\" + c for c in "&%$#_{}"}
# Without packages LaTeX prints other signs for these.
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}"}
_LIGATURE = re.compile("(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)")  # such as --, printed as one dash

# Lines above, between and below the rows.
_BOOKTABS = (r"\toprule", r"\midrule", r"\bottomrule")
_PLAIN = (r"\hline", r"\hline", r"\hline")
# A line's cells.
_Row = Sequence[str]


def tex(text: str) -> str:
    """Text as LaTeX shows it."""
    apart = _LIGATURE.split(printable(text))
    return "{}".join("".join(_TEX.get(c, c) for c in part) for part in apart)


def run_latex(results: Results) -> str:
    """One tabular of a run that needs no package: one row per method, one column per table and score.

    The exact values of random search follow below a line, as in the terminal.
    """
    scores, tables = results.suite.scores, list(results.instances)
    found = {(c.table, c.method, c.score): c for c in cells(results)}
    heads = [
        ["", *(rf"\multicolumn{{{len(scores)}}}{{c}}{{{tex(t)}}}" for t in tables)],
        ["", *(tex(s) for _ in tables for s in scores)],
    ]
    rows = []
    for method in results.methods:
        row = [tex(method)]
        for table in tables:
            for score in scores:
                cell = found.get((table, method, score))
                text, limits = _marked(cell) if cell else ("--", "")
                row.append(rf"{text} {{\scriptsize {limits}}}" if limits else text)
        rows.append(row)
    reference = [tex(EXACT), *(tex(text) for table in tables for text in exact_figures(results, table))]
    comment = "bold: best mean; underlined: not shown to be worse; brackets: 95% interval of the mean"
    columns = "l" + ("r" * len(scores)) * len(tables)
    return _tabular(comment, columns, heads, rows, [reference], _PLAIN)


def table_latex(results: Results, table: str, found: Sequence[Cell]) -> str:
    """A tabular of one table: one row per method, for every score its mean±std and interval."""
    scores = results.suite.scores
    by_cell = {(c.method, c.score): c for c in found}
    rows = [
        [tex(method), *(text for score in scores for text in _marked(by_cell[method, score]))]
        for method in methods_on(results, table)
    ]
    reference = [tex(EXACT)]
    for text in exact_figures(results, table):
        reference += [tex(text), ""]
    head = ["", *(text for score in scores for text in (tex(score), r"95\%"))]
    comment = f"{printable(table)}. Bold: best mean; underlined: not shown to be worse. Needs booktabs."
    return _tabular(comment, "l" + "rl" * len(scores), [head], rows, [reference])


def overall_latex(board: Board) -> str:
    """A tabular of the leaderboard over all tables."""
    head = ["", *(tex(column.name) for column in board.columns)]
    rows = [[tex(name), *(tex(entry.text) for entry in entries)] for name, entries in board.rows]
    return _tabular("Over all tables. Needs booktabs.", "l" + "r" * len(board.columns), [head], rows)


def _marked(cell: Cell) -> tuple[str, str]:
    """A cell's figure and its interval in brackets, empty where there is none."""
    text = tex(shown(cell))
    if cell.best or cell.tied:
        text = rf"\textbf{{{text}}}" if cell.best else rf"\underline{{{text}}}"
    limits = tex(interval(cell))
    return text, f"[{limits}]" if limits else ""


def _tabular(
    comment: str,
    columns: str,
    heads: Sequence[_Row],
    rows: Sequence[_Row],
    references: Sequence[_Row] = (),
    rules: tuple[str, str, str] = _BOOKTABS,
) -> str:
    top, middle, bottom = rules
    lines = [f"% {comment}", rf"\begin{{tabular}}{{{columns}}}", top, *map(_line, heads), middle]
    lines += map(_line, rows)
    if references:
        lines += [middle, *map(_line, references)]
    return "\n".join([*lines, bottom, r"\end{tabular}", ""])


def _line(texts: _Row) -> str:
    # The & comes first, because a bracket there would be taken for an argument of the \\ before it.
    return " & ".join(texts) + r" \\"
