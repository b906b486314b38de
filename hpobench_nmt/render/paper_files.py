"""The figures and tables of a report as files for a paper: PDF or PNG, and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hpobench_nmt.analysis.leaderboard import Cell, exact, figure, interval, shown, tex
from hpobench_nmt.analysis.report_content import Board, Run, overall_board, score_cells
from hpobench_nmt.analysis.selection import EXACT, methods_on
from hpobench_nmt.core.errors import RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.render.html.page import draw_all, load_runs, run_slugs


def write_figures(folders: Sequence[Path], out: Path, form: str, jobs: int = 2) -> list[Path]:
    """Write every figure of one or more results folders into a folder, as "pdf" or "png"."""
    drawn = draw_all(load_runs(folders), form, jobs)
    return _write(out, ((f"{stem}.{form}", data) for d in drawn for stem, data in d.content if data))


def write_latex(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write the scores as LaTeX tables (they need booktabs): one a table of each run, one over its tables."""
    made: list[tuple[str, bytes]] = []
    runs = load_runs(folders)
    for slug, run in zip(run_slugs(runs), runs, strict=True):
        if len(run.results.instances) > 1 and len(run.results.methods) > 1:
            made.append((f"{slug}.tex", _overall(overall_board(run)).encode()))
        for table, found in score_cells(run).items():
            made.append((f"{slug}-{table}.tex", table_latex(run, table, found).encode()))
    return _write(out, made)


def table_latex(run: Run, table: str, found: Sequence[Cell]) -> str:
    """A tabular of one table: a row a method, for every score its mean±std and interval."""
    scores = run.results.suite.scores
    by_cell = {(c.method, c.score): c for c in found}
    rows = [
        [tex(method), *(text for score in scores for text in _cell(by_cell[method, score]))]
        for method in methods_on(run.results, table)
    ]
    reference = [tex(EXACT)]
    for score, (mean, std) in zip(scores, exact(run.results, table), strict=True):
        reference += [tex(figure(score, mean, std)), ""]
    head = ["", *(text for score in scores for text in (tex(score), r"95\%"))]
    comment = f"% {table}. Bold: best mean; underlined: not shown to be worse. Needs booktabs."
    return _tabular(comment, "l" + "rl" * len(scores), head, rows, [reference])


def _overall(board: Board) -> str:
    head = ["", *(tex(column.name) for column in board.columns)]
    rows = [[tex(name), *(tex(entry.text) for entry in entries)] for name, entries in board.rows]
    return _tabular("% Over all tables. Needs booktabs.", "l" + "r" * len(board.columns), head, rows, [])


def _cell(cell: Cell) -> tuple[str, str]:
    text = tex(shown(cell))
    if cell.best or cell.tied:
        text = rf"\textbf{{{text}}}" if cell.best else rf"\underline{{{text}}}"
    limits = tex(interval(cell))
    return text, f"[{limits}]" if limits else ""


def _tabular(
    comment: str,
    columns: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    last: Sequence[Sequence[str]],
) -> str:
    lines = [comment, rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _line(head), r"\midrule"]
    lines += [_line(row) for row in rows]
    if last:
        lines += [r"\midrule", *(_line(row) for row in last)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _line(texts: Sequence[str]) -> str:
    # A bracket at the start of a line would be taken for an argument of the \\ before it.
    return " & ".join(texts) + r" \\"


def _write(out: Path, made: Iterable[tuple[str, bytes]]) -> list[Path]:
    written = []
    for name, data in made:
        path = out / name
        try:
            write_whole(path, data)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
        written.append(path)
    return written
