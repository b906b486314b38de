"""The contents of a report apart from its figures: headline, leaderboards, and pairwise comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.families import family_sentences
from hpobench_nmt.analysis.fewer_trainings import FewerTrainings
from hpobench_nmt.analysis.leaderboard import (
    Cell,
    cells,
    chosen_columns,
    exact,
    exact_figures,
    figure,
    heading,
    interval,
    meaning,
    milliseconds,
    shown,
)
from hpobench_nmt.analysis.report_runs import Run
from hpobench_nmt.analysis.selection import methods_on
from hpobench_nmt.analysis.table_ranks import RankOutcome, rank_sentences
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.text import counted, short
from hpobench_nmt.evaluation.scores import SCORES


@dataclass(frozen=True)
class Bar:
    """A mean, its interval and random search as percentages of a column's range; None if missing."""

    mean: float
    low: float | None
    high: float | None
    reference: float | None


@dataclass(frozen=True)
class Entry:
    """A cell to show: its text, the number by which it is sorted (None comes last), and marks."""

    text: str
    value: float | None = None
    interval: str = ""
    mark: str = ""
    published: str = ""
    distance: str = ""
    bar: Bar | None = None


@dataclass(frozen=True)
class Column:
    """A sortable column: heading, meaning, if small values come first, and if it has published figures."""

    name: str
    title: str
    lower: bool = True
    published: bool = False


@dataclass(frozen=True)
class Board:
    """A leaderboard with one row per method; `reference` is exact random search, empty without one."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    reference: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """Who beats whom in one score: (text, percent or None, whether shown) by row and column."""

    score: str
    methods: tuple[str, ...]
    lines: tuple[tuple[str, tuple[tuple[str, int | None, bool], ...]], ...]
    head: tuple[str, ...]
    pairs: tuple[tuple[str, ...], ...]


def table_board(run: Run, table: str, found: Sequence[Cell]) -> Board:
    """The leaderboard of one table; `found` are its cells."""
    results, scores = run.results, run.results.suite.scores
    references = dict(zip(scores, exact(results, table), strict=True))
    by_score = {s: [c for c in found if c.score == s] for s in scores}
    ranges = {s: _range(by_score[s], references[s][0]) for s in scores}
    compared = any(not np.isnan(c.published_mean) for c in found)
    several = len({c.method for c in found}) > 1
    columns = tuple(_column(results, table, s, compared) for s in scores)
    rows = []
    for method in methods_on(results, table):
        own = {c.score: c for c in found if c.method == method}
        rows.append((method, tuple(_entry(own[s], ranges[s], references[s][0], several) for s in scores)))
    reference = tuple(
        Entry(text, None if np.isnan(references[s][0]) else references[s][0])
        for s, text in zip(scores, exact_figures(results, table), strict=True)
    )
    for chosen in chosen_columns(results, table):
        meaning_of = "value of the row that a trial chooses by its best value when fb is measured"
        columns = (*columns, Column(chosen.heading, f"{chosen.name} {meaning_of}", chosen.lower_is_better))
        rows = [
            (m, (*entries, Entry(chosen.cells[m], None if np.isnan(chosen.means[m]) else chosen.means[m])))
            for m, entries in rows
        ]
        reference = (*reference, Entry(chosen.reference))
    if any((table, method) in results.step_seconds for method, _ in rows):
        columns = (*columns, Column("ms/step", "processor time of the method for a step, in milliseconds"))
        rows = [(method, (*entries, _time(results, table, method))) for method, entries in rows]
        reference = (*reference, Entry("–"))
    return Board(columns, _best_first(rows, columns), reference)


def _time(results: Results, table: str, method: str) -> Entry:
    seconds = results.step_seconds.get((table, method), np.nan)
    return Entry(milliseconds(seconds), None if np.isnan(seconds) else 1e3 * seconds)


def overall_board(run: Run) -> Board:
    """The leaderboard over all tables, in the order of its first column.

    Times fewer trainings than random search, mean ranks, and how often a method is best or shown to differ.
    Ranks over only some of the tables come last, so that the order does not depend on them.
    """
    results, statistics, n_tables = run.results, run.statistics, len(run.results.instances)
    ranks = [(*_ranks_column(o, n_tables), len(o.tables) == n_tables) for o in statistics.ranks if o.test]
    columns = [
        *_fewer_column(statistics.fewer),
        *((column, of) for column, of, whole in ranks if whole),
        *_counts_columns(run),
        *((column, of) for column, of, whole in ranks if not whole),
    ]
    rows = [(m, tuple(of.get(m, Entry("–")) for _, of in columns)) for m in results.methods]
    heads = tuple(column for column, _ in columns)
    return Board(heads, _best_first(rows, heads))


def _fewer_column(found: FewerTrainings) -> list[tuple[Column, dict[str, Entry]]]:
    """Times fewer trainings than random search, with intervals; empty if the run has no such figure."""
    if found.reason:
        return []
    over = f"trainings of random search over those of the method, over {counted(len(found.counted), 'table')}"
    lines = found.methods[["method", "times_fewer", "low", "high"]].itertuples(index=False)
    entries = {
        method: Entry(short(value), value, "" if np.isnan(low) else f"{short(low)}–{short(high)}")
        for method, value, low, high in lines
        if not np.isnan(value)
    }
    return [(Column("times fewer ↑", f"{over}; higher is better", False), entries)]


def _ranks_column(outcome: RankOutcome, n_tables: int) -> tuple[Column, dict[str, Entry]]:
    """Mean ranks in a score; the heading shows if they are over fewer tables than the run has."""
    assert outcome.test is not None
    over = len(outcome.tables)
    some = f", {over} of {n_tables} tables" if over < n_tables else ""
    title = f"mean rank in {outcome.score} over {counted(over, 'table')}, 1 is best"
    ranks = zip(outcome.methods, outcome.test.mean_ranks.tolist(), strict=True)
    return Column(f"{outcome.score} rank{some} ↓", title), {m: Entry(f"{r:.2f}", r) for m, r in ranks}


def _counts_columns(run: Run) -> list[tuple[Column, dict[str, Entry]]]:
    """On how many tables and scores a method is best, and how many comparisons it wins and loses."""
    judged = [v for v in run.statistics.verdicts if v.best]
    won, lost = _against(run.statistics.comparisons)
    pairs = "number of comparisons, over tables and scores, in which it is shown to be"
    methods, n = run.results.methods, len(judged)
    may = {m: sum(m == v.best or m in v.tied for v in judged) for m in methods}
    alone = {m: sum(m == v.best and v.alone for v in judged) for m in methods}
    columns = (
        (
            "may be best",
            "tables and scores on which it is not shown to be worse than the best",
            False,
            may,
            f"/{n}",
        ),
        (
            "alone best",
            "tables and scores on which it is shown to be better than all others",
            False,
            alone,
            f"/{n}",
        ),
        ("pairs won", f"{pairs} better", False, won, ""),
        ("pairs lost", f"{pairs} worse", True, lost, ""),
    )
    return [
        (Column(name, title, lower), {m: Entry(f"{of.get(m, 0)}{out_of}", of.get(m, 0)) for m in methods})
        for name, title, lower, of, out_of in columns
    ]


def _best_first(
    rows: Iterable[tuple[str, tuple[Entry, ...]]], columns: Sequence[Column]
) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
    """The rows in the order of the first column; rows without a value there come last."""
    sign = 1.0 if columns[0].lower else -1.0

    def key(row: tuple[str, tuple[Entry, ...]]) -> tuple[bool, float]:
        value = row[1][0].value
        return (value is None, 0.0 if value is None else sign * value)

    return tuple(sorted(rows, key=key))


def headline(run: Run) -> list[str]:
    """The main results of a run in sentences, and the limits of its statistics."""
    statistics, suite = run.statistics, run.results.suite
    judged = [v for v in statistics.verdicts if v.best]
    lines = []
    if judged:
        alone = [v for v in judged if v.alone]
        where, n_all = f"{len(judged)} table-and-score pairs", len(statistics.verdicts)
        if n_all == 1:
            where = "the one table and score"
        elif len(judged) < n_all:
            where = f"the {len(judged)} of {n_all} table-and-score pairs in which some method has a best mean"
        if alone:
            named = "; ".join(f"{v.best} ({v.score} on {v.table})" for v in alone)
            lines.append(
                f"Of {where}, {len(alone)} {'has' if len(alone) == 1 else 'have'} a method that is shown to "
                f"be better than every other: {named}. Each was tested at 5%, without a correction over all "
                f"{len(judged)}."
                if len(judged) > 1
                else f"In {where}, {alone[0].best} is shown to be better than every other method."
            )
        else:
            lines.append(f"In {where}, no method is shown to be better than every other.")
        rest = [1 + len(v.tied) for v in judged if v.tied]
        if rest and len(judged) > 1:
            span = f"{min(rest)}" if min(rest) == max(rest) else f"{min(rest)} to {max(rest)}"
            elsewhere = "Elsewhere" if alone else "There,"
            lines.append(
                f"{elsewhere} {span} methods share the lead: none is shown to be worse than the best."
            )
    if len(run.results.instances) > 1 and len(run.results.methods) > 2:
        lines += rank_sentences(statistics.ranks)
    lines += family_sentences(run.results, statistics)
    if len(judged) <= len(suite.scores):
        lines += [v.sentence for v in statistics.verdicts]
    return lines or [v.sentence for v in statistics.verdicts]


def winners(run: Run) -> list[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    """By table: (score, best method, methods not shown to be worse) for every score."""
    by_table: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
    for v in run.statistics.verdicts:
        by_table.setdefault(v.table, []).append((v.score, v.best, v.tied))
    return list(by_table.items())


def matrices(run: Run, table: str) -> list[Matrix]:
    """Who beats whom on a table: one matrix per score."""
    comparisons = run.statistics.comparisons
    found = []
    for score in run.results.suite.scores:
        chosen = comparisons[(comparisons["table"] == table) & (comparisons["score"] == score)]
        if not len(chosen):
            continue
        names = methods_on(run.results, table)
        share: dict[tuple[str, str], tuple[float, bool]] = {}
        columns = (chosen[c].tolist() for c in ("a", "b", "p_a_better", "better"))
        for a, b, p, better in zip(*columns, strict=True):
            share[a, b], share[b, a] = (p, bool(better)), (1.0 - p, bool(better))
        lines = [(a, tuple(_win(share.get((a, b))) for b in names)) for a in names]
        pairs = tuple(map(_pair, chosen.to_dict("records")))
        found.append(Matrix(score, tuple(names), tuple(lines), _HEAD, pairs))
    return found


_HEAD = ("pair", "mean difference (95%)", "p, Holm", "first wins (95%)", "effect size", "shown to be better")


def score_cells(run: Run) -> dict[str, list[Cell]]:
    """All cells of the leaderboard, by table."""
    by_table: dict[str, list[Cell]] = {table: [] for table in run.results.instances}
    for cell in cells(run.results, run.statistics):
        by_table[cell.table].append(cell)
    return by_table


def _column(results: Results, table: str, score: str, published: bool) -> Column:
    lower = SCORES[score].lower_is_better
    return Column(
        heading(results, table, score),
        f"{meaning(results.suite, score)}; {'lower' if lower else 'higher'} is better",
        lower,
        published,
    )


def _range(found: Sequence[Cell], reference: float) -> tuple[float, float]:
    values = [v for c in found for v in (c.low, c.high, c.summary.mean) if np.isfinite(v)]
    values += [reference] if np.isfinite(reference) else []
    return (min([0.0, *values]), max(values, default=1.0))


def _entry(cell: Cell, limits: tuple[float, float], reference: float, several: bool) -> Entry:
    mean = cell.summary.mean
    mark = "" if not several else "best" if cell.best else "tied" if cell.tied else ""
    known = not np.isnan(cell.published_mean)
    bar = None
    if not np.isnan(mean):
        width = max(limits[1] - limits[0], 1e-12)

        def place(value: float) -> float:
            return round(100 * (value - limits[0]) / width, 1)

        there = not np.isnan(cell.low)
        low, high = (place(cell.low), place(cell.high)) if there else (None, None)
        bar = Bar(place(mean), low, high, None if np.isnan(reference) else place(reference))
    value = mean if not np.isnan(mean) else cell.summary.at_least
    return Entry(
        text=shown(cell),
        value=None if np.isnan(value) else float(value),
        interval=interval(cell),
        mark=mark,
        published=figure(cell.published_mean, cell.published_std, cell.decimals) if known else "",
        distance=f"{cell.distance:+.1f}" if known and not np.isnan(cell.distance) else "",
        bar=bar,
    )


def _against(comparisons: pd.DataFrame) -> tuple[dict[str, int], dict[str, int]]:
    """In how many pairs a method is shown to be better, and worse."""
    won: dict[str, int] = {}
    lost: dict[str, int] = {}
    for a, b, better in zip(comparisons["a"], comparisons["b"], comparisons["better"], strict=True):
        if better:
            worse = b if better == a else a
            won[better] = won.get(better, 0) + 1
            lost[worse] = lost.get(worse, 0) + 1
    return won, lost


def _win(found: tuple[float, bool] | None) -> tuple[str, int | None, bool]:
    if found is None or np.isnan(found[0]):
        return ("", None, False)
    percent = round(100 * found[0])
    return (f"{percent}", percent, found[1])


def _pair(row: Mapping[Any, Any]) -> tuple[str, ...]:
    difference = "–"
    if not np.isnan(row["difference"]):
        difference = short(row["difference"])
        if not np.isnan(row["low"]):
            difference += f" ({short(row['low'])} to {short(row['high'])})"
    p = row["p_holm"]
    wins = "–"
    if not np.isnan(row["p_a_better"]):
        wins = f"{row['p_a_better']:.0%} ({row['p_low']:.0%} to {row['p_high']:.0%})"
    return (
        f"{row['a']} and {row['b']}",
        difference,
        "–" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.2g}",
        wins,
        "–" if np.isnan(row["rank_biserial"]) else f"{row['rank_biserial']:+.2f}",
        str(row["better"]) or "neither",
    )
