"""Scores as tables to read, with intervals and ties with the best: in the terminal, as CSV, JSON or LaTeX."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import (
    ENDLESS_NOTE,
    METHOD_NOTE,
    Statistics,
    number,
    run_statistics,
    trial_notes,
)
from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.suite import load_suite, published_file, suite_files
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import DESCRIPTIONS, LOWER_IS_BETTER, Summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_PUBLISHED_TRIALS = 100


_TEX = {"±": r"$\pm$", "≥": r"$\geq$", "–": "--", "≈": r"$\approx$", "★": r"$\star$", "↓": r"$\downarrow$"}
_TEX |= {"↑": r"$\uparrow$", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {c: "\\" + c for c in "&%$#_{}"}


@dataclass(frozen=True)
class Cell:
    """One score of one method on one table.

    Attributes:
        table, method, score: which.
        summary: ours.
        low, high: 95% interval of the mean, NaN where there is none.
        best: no other method's mean is better.
        tied: not the best, but not shown to be worse.
        published_mean, published_std: figures to compare with, NaN where there are none.
    """

    table: str
    method: str
    score: str
    summary: Summary
    low: float
    high: float
    best: bool
    tied: bool
    published_mean: float
    published_std: float

    @property
    def distance(self) -> float:
        """Ours minus the published mean, in standard errors of the difference."""
        variance = self.summary.stderr**2 + self.published_std**2 / _PUBLISHED_TRIALS
        difference = self.summary.mean - self.published_mean
        if difference == 0.0:
            return 0.0
        return difference / variance**0.5 if variance > 0 else np.nan


def cells(results: Results, statistics: Statistics | None = None) -> Iterator[Cell]:
    """Every cell of the leaderboard, by table, method and score; statistics are computed where left out."""
    statistics = statistics or run_statistics(results)
    published = _published(results)
    columns = (statistics.scores[name] for name in ("table", "method", "score", "low", "high"))
    found = {(t, m, s): (low, high) for t, m, s, low, high in zip(*columns, strict=True)}
    verdicts = {(v.table, v.score): v for v in statistics.verdicts}
    for table in results.instances:
        summaries = {m: results.summary(table, m) for m in results.methods if (table, m) in results.trials}
        for j, score in enumerate(results.suite.scores):
            verdict = verdicts[table, score]
            best = summaries[verdict.best][j].mean if verdict.best else np.nan
            for method, row in summaries.items():
                mean, std = published.get((method, table, score), (np.nan, np.nan))
                low, high = found[table, method, score]
                tied = method in verdict.tied
                # Of equal means each is the best.
                is_best = method == verdict.best or (tied and row[j].mean == best)
                marks = (is_best, tied and not is_best)
                yield Cell(table, method, score, row[j], float(low), float(high), *marks, mean, std)


def exact(results: Results, table: str) -> list[tuple[float, float]]:
    """Mean and standard deviation of each score under random search, without simulation."""
    return [exact_random_search(q, results.suite.n_initial) for q in results.instances[table].questions]


def figure(score: str, mean: float, std: float) -> str:
    """mean±std with as many digits as the paper gives; a dash where there is none."""
    if np.isnan(mean):
        return "–"
    return f"{number(score, mean)}±{number(score, std)}"


def interval(cell: Cell) -> str:
    """The interval of a cell's mean, empty where there is none."""
    return "" if np.isnan(cell.low) else f"{number(cell.score, cell.low)}–{number(cell.score, cell.high)}"


def shown(cell: Cell) -> str:
    """A cell's figure, with what is censored or failed said."""
    s = cell.summary
    if not np.isnan(s.mean):
        text = figure(cell.score, s.mean, s.std)
    elif not np.isnan(s.at_least):
        text = f"≥{s.at_least:.0f}"
    else:
        text = "–"
    notes = []
    if s.unanswered:
        notes.append(f"{s.unanswered} not reached")
    if s.failed:
        notes.append(f"{s.failed} failed")
    return f"{text} ({', '.join(notes)})" if notes else text


def print_leaderboard(results: Results, console: Console) -> None:
    """Tables like the paper's, the best in bold, the published figures beside ours.

    A table too wide for the console is printed score by score.
    """
    from rich.markup import escape

    from hpobench_nmt.render.terminal import fits

    scores = range(len(results.suite.scores))
    statistics = run_statistics(results)
    by_row: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells(results, statistics):
        by_row.setdefault((cell.table, cell.method), []).append(cell)
    for table, instance in results.instances.items():
        objectives = ", ".join(str(o) for o in instance.objectives)
        title = f"{table}: {len(instance.table)} rows, {objectives}, {results.suite.trials} trials"
        console.print(escape(title), style="bold", highlight=False)
        rows = {m: by_row[table, m] for m in results.methods if (table, m) in by_row}
        grid = _grid(results, table, rows, scores)
        if fits(grid, console):
            console.print(grid)
        else:
            for score in scores:
                console.print(_grid(results, table, rows, range(score, score + 1)))
    for name in results.suite.scores:
        console.print(f"[dim]{name}: {DESCRIPTIONS[name]}[/dim]", highlight=False)
    _print_statistics(results, statistics, console)
    _print_failures(results, console)


def _grid(results: Results, table: str, rows: Mapping[str, list[Cell]], scores: Iterable[int]) -> Grid:
    """One table's cells of some scores."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid()
    grid.add_column("", no_wrap=True)
    compared = any(not np.isnan(cell.published_mean) for row in rows.values() for cell in row)
    names = [results.suite.scores[j] for j in scores]
    for name in names:
        grid.add_column(_heading(results, table, name), justify="right", no_wrap=True)
        grid.add_column("95%", justify="right", no_wrap=True)
        if compared:
            grid.add_column("paper", justify="right", style="dim", no_wrap=True)
            grid.add_column("Δ/se", justify="right", style="dim", no_wrap=True)
    for method, row in rows.items():
        line: list[Text] = [Text(method)]
        for cell in (cell for cell in row if cell.score in names):
            mark = "" if len(rows) == 1 else "* " if cell.best else "≈ " if cell.tied else ""
            line.append(Text(mark + shown(cell), style="bold" if cell.best else ""))
            line.append(Text(interval(cell), style="bold" if cell.best else ""))
            if compared:
                known = not np.isnan(cell.published_mean)
                line.append(
                    Text(figure(cell.score, cell.published_mean, cell.published_std) if known else "")
                )
                line.append(Text(f"{cell.distance:+.1f}" if known and not np.isnan(cell.distance) else ""))
        grid.add_row(*line)
    exact_row: list[Text] = [Text(EXACT, style="dim")]
    for name, (mean, std) in zip(results.suite.scores, exact(results, table), strict=True):
        if name in names:
            exact_row.extend([Text(figure(name, mean, std), style="dim"), Text()])
            exact_row.extend([Text(), Text()] if compared else [])
    grid.add_section()
    grid.add_row(*exact_row)
    return grid


def _heading(results: Results, table: str, score: str) -> str:
    budget = results.suite.budget_for(table) if score in ("fb", "fbp") else None
    arrow = "↓" if LOWER_IS_BETTER[score] else "↑"
    return f"{score}{f' @{budget}' if budget else ''} {arrow}"


def _print_statistics(results: Results, statistics: Statistics, console: Console) -> None:
    """What the marks mean, what ranks over tables show, and what must be known of the trials."""
    from rich.markup import escape

    lines = []
    if len(results.methods) > 1:
        endless = statistics.scores[["unanswered", "failed"]].to_numpy().any()
        note = f"{METHOD_NOTE} {ENDLESS_NOTE}" if endless else METHOD_NOTE
        lines += [f"*: best mean. ≈: not shown to be worse than it. {note}"]
    if len(results.instances) > 1 and len(results.methods) > 2:
        lines += [outcome.sentence for outcome in statistics.ranks]
    for line in [*lines, *trial_notes(results)]:
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)


def _print_failures(results: Results, console: Console) -> None:
    from rich.markup import escape

    grouped: dict[tuple[str, str, str], list[int]] = {}
    for table, method, trial, reason in results.failures():
        grouped.setdefault((table, method, reason), []).append(trial)
    for (table, method, reason), trials in grouped.items():
        which = ", ".join(map(str, trials[:5])) + (", …" if len(trials) > 5 else "")
        text = (
            f"failed: {method} on {table}, trial {which} ({len(trials)} of {results.suite.trials}): {reason}"
        )
        console.print(f"[red]{escape(text)}[/red]", highlight=False, soft_wrap=True)


def as_csv(results: Results) -> str:
    """A line a cell, with the exact random-search value beside it."""
    rows = _records(results)
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    return out.getvalue()


def as_json(results: Results) -> str:
    """The cells as a JSON list; what is not known is null."""
    return json.dumps(_records(results), indent=1) + "\n"


def as_latex(results: Results) -> str:
    """One tabular, a row a method and a column a table and score.

    The best mean is bold, means that are not shown to be worse are underlined, intervals stand beside.
    """
    scores, tables = results.suite.scores, list(results.instances)
    found = {(c.table, c.method, c.score): c for c in cells(results)}
    lines = [
        "% bold: best mean; underlined: not shown to be worse; brackets: 95% interval of the mean",
        r"\begin{tabular}{l" + ("r" * len(scores)) * len(tables) + "}",
        r"\hline",
        " & " + " & ".join(rf"\multicolumn{{{len(scores)}}}{{c}}{{{tex(t)}}}" for t in tables) + r" \\",
        " & " + " & ".join(tex(s) for _ in tables for s in scores) + r" \\",
        r"\hline",
    ]
    for method in results.methods:
        row = [tex(method)]
        for table in tables:
            for score in scores:
                cell = found.get((table, method, score))
                row.append(_tex_cell(cell) if cell else "--")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _tex_cell(cell: Cell) -> str:
    text = tex(shown(cell))
    if cell.best or cell.tied:
        text = rf"\textbf{{{text}}}" if cell.best else rf"\underline{{{text}}}"
    limits = tex(interval(cell))
    return rf"{text} {{\scriptsize [{limits}]}}" if limits else text


def tex(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(_TEX.get(c, c) for c in text)


def _records(results: Results) -> list[dict[str, Any]]:
    exact_by_table = {table: exact(results, table) for table in results.instances}
    records = []
    for cell in cells(results):
        s = cell.summary
        mean, std = exact_by_table[cell.table][results.suite.scores.index(cell.score)]
        values = {
            "mean": s.mean,
            "std": s.std,
            "stderr": s.stderr,
            "ci_low": cell.low,
            "ci_high": cell.high,
            "at_least": s.at_least,
            "random_search_mean": mean,
            "random_search_std": std,
            "published_mean": cell.published_mean,
            "published_std": cell.published_std,
            "distance_se": cell.distance,
        }
        records.append(
            {"table": cell.table, "method": cell.method, "score": cell.score, "best": cell.best}
            | {"trials": s.trials, "not_reached": s.unanswered, "failed": s.failed, "tied": cell.tied}
            | {key: None if np.isnan(value) else float(value) for key, value in values.items()}
        )
    return records


def _published(results: Results) -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """Figures to compare with: of a user's own suite all, of the paper's only those of the same task."""
    path = published_file(results.suite)
    if path is None:
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        figures = {
            (row["method"], row["table"], row["metric"]): (float(row["mean"]), float(row["std"]))
            for row in csv.DictReader(file)
        }
    if Path(results.suite.published).is_absolute():
        return figures
    comparable = {name for name, instance in results.instances.items() if _is_the_papers(results, instance)}
    return {key: figure for key, figure in figures.items() if key[1] in comparable}


def _is_the_papers(results: Results, instance: Instance) -> bool:
    """Whether a table is asked what a suite of the paper asks of it."""
    suite, name = results.suite, instance.table.name
    for paper in map(load_suite, suite_files()):
        if paper.published == suite.published and paper.scores == suite.scores:
            return (
                instance.table.claims.get("collection") == "nmthpo"
                and tuple(str(o) for o in instance.objectives) == paper.objectives
                and (suite.ties, suite.n_initial, suite.lookups) == (paper.ties, paper.n_initial, None)
                and suite.tolerance_for(name) == paper.tolerance_for(name)
                and suite.budget_for(name) == paper.budget_for(name)
            )
    return False
