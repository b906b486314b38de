"""A leaderboard as one value: columns of entries, one entry for each method.

The terminal, the page, LaTeX, the data of figures and the leaderboard of an archive draw a `Board` without
knowing its columns by name. `COLUMNS` lists the columns over the tables of a run, and `_table_board` those of
a single table. To add a column, write a function that returns a `Column` here, and name it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from hpobench_nmt.analysis.chosen_rows import choice_score, chosen_rows
from hpobench_nmt.analysis.fewer_trainings import FewerTrainings
from hpobench_nmt.analysis.leaderboard import (
    Cell,
    cells,
    exact,
    figure,
    heading,
    interval,
    meaning,
    milliseconds,
    shown,
)
from hpobench_nmt.analysis.number_text import p_cell, span
from hpobench_nmt.analysis.selection import EXACT, methods_on
from hpobench_nmt.analysis.verdicts import Statistics, decimals
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.text import NONE, counted, short
from hpobench_nmt.evaluation.scores import SCORES

Mark = Literal["", "best", "tied"]

CHOSEN, TIME = "the rows chosen in the end", "ms/step"
# Values that the scale of bars contains in any case.
_ON_SCALE = {"linear": (0.0,), "log": (0.8, 1.25)}


@dataclass(frozen=True)
class Bar:
    """A mean, its interval and random search as percentages of a column's range; None if missing."""

    mean: float
    low: float | None
    high: float | None
    reference: float | None


@dataclass(frozen=True)
class Entry:
    """What a column shows for a method.

    Attributes:
        text: its text.
        value: the number by which it is sorted; NaN comes last.
        interval: the text of the interval of a mean; "" without an interval.
        ends: the ends of that interval, NaN without an interval; None if the value is not a mean.
        mark: "best", or "tied" if it is not shown to be worse than the best.
        published, distance: a figure to compare with, and how far it is off in standard errors.
    """

    text: str = NONE
    value: float = np.nan
    interval: str = ""
    ends: tuple[float, float] | None = None
    mark: Mark = ""
    published: str = ""
    distance: str = ""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a leaderboard.

    Attributes:
        heading: its heading.
        meaning: an explanation in a few words.
        entries: by method; a method without an entry has a dash.
        lower: whether small values come first.
        reference: that of exact random search.
        scale: the scale of the bars that a page draws; "" for no bars.
        published: whether there are published figures.
        score: the score to which it belongs; "" if to none.
        side: what a narrow terminal leaves out with it; "" for a column that it keeps.
        only: where alone it is shown, for a run or in the arena; "" for both.
    """

    heading: str
    meaning: str
    entries: Mapping[str, Entry]
    lower: bool = True
    reference: Entry = Entry("")
    scale: Literal["", "linear", "log"] = ""
    published: bool = False
    score: str = ""
    side: str = ""
    only: Literal["", "run", "arena"] = ""

    def parts(self, intervals: bool = True) -> list[tuple[str, str]]:
        """The columns of text that it consists of: a heading, and the attribute of entries below it."""
        found = [(self.heading, "text")]
        if intervals and (self.scale or any(entry.interval for entry in self.entries.values())):
            found.append(("95%", "interval"))
        return [*found, ("paper", "published"), ("Δ/se", "distance")] if self.published else found

    def bar(self, entry: Entry) -> Bar | None:
        """The bar of an entry; None without a mean or a scale."""
        if not self.scale or entry.ends is None:
            return None
        low, high = self._range

        def place(value: float) -> float | None:
            at = 100 * (self._scaled(value) - low) / max(high - low, 1e-12)
            return None if np.isnan(value) else round(at, 1)

        ends = place(entry.ends[0]), place(entry.ends[1])
        return Bar(place(entry.value) or 0.0, *ends, place(self.reference.value))

    @cached_property
    def _range(self) -> tuple[float, float]:
        values = [self.reference.value, *_ON_SCALE[self.scale]]
        for entry in self.entries.values():
            values += [entry.value, *entry.ends] if entry.ends else []
        known = [self._scaled(value) for value in values if np.isfinite(value)]
        return min(known), max(known)

    def _scaled(self, value: float) -> float:
        return float(np.log(value)) if self.scale == "log" else value


@dataclass(frozen=True, eq=False)
class Board:
    """A leaderboard: the methods in order, the columns, and whether exact random search has a line."""

    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    with_reference: bool = True

    @property
    def rows(self) -> list[tuple[str, list[Entry]]]:
        """Each method with its entries."""
        return [(m, [column.entries.get(m, Entry()) for column in self.columns]) for m in self.methods]

    @property
    def reference(self) -> list[Entry]:
        """The entries of exact random search; empty if it has no line."""
        return [column.reference for column in self.columns] if self.with_reference else []

    def parts(self, intervals: bool = True) -> list[tuple[int, str, str]]:
        """The columns of text: the place of each one's column, its heading, and its attribute of entries."""
        return [(i, *part) for i, column in enumerate(self.columns) for part in column.parts(intervals)]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and lines of text that begin with the method; the last is that of random search."""
        parts = self.parts()
        lines = [*self.rows, *([(EXACT, self.reference)] if self.with_reference else [])]
        rows = [[name, *(getattr(entries[i], of) for i, _, of in parts)] for name, entries in lines]
        return [heading for _, heading, _ in parts], rows

    def best_first(self) -> Board:
        """The methods in the order of the first column; those without a value there come last."""
        sign = 1.0 if self.columns[0].lower else -1.0
        values = np.array([entries[0].value for _, entries in self.rows])
        order = np.argsort(sign * values, kind="stable")  # NaN comes last
        return replace(self, methods=tuple(self.methods[i] for i in order))


def table_boards(results: Results, statistics: Statistics) -> dict[str, Board]:
    """The leaderboard of each table: its scores, the rows that trials choose, and the methods' own time."""
    found: dict[str, list[Cell]] = {table: [] for table in results.instances}
    for cell in cells(results, statistics):
        found[cell.table].append(cell)
    return {table: _table_board(results, table, of_table) for table, of_table in found.items()}


def _table_board(results: Results, table: str, found: list[Cell]) -> Board:
    methods = methods_on(results, table)
    columns = [*_scores(results, table, found), *_chosen(results, table)]
    time = time_column(results, [table], methods)
    return Board(tuple(methods), (*columns, *([time] if time else [])))


def _scores(results: Results, table: str, found: list[Cell]) -> list[Column]:
    compared = any(not np.isnan(cell.published_mean) for cell in found)
    several = len({cell.method for cell in found}) > 1
    columns = []
    for score, (mean, std) in zip(results.suite.scores, exact(results, table), strict=True):
        digits, kind = decimals(results.instances[table], score), SCORES[score]
        better = "lower is better" if kind.lower_is_better else "higher is better"
        columns.append(
            Column(
                heading(results, table, score),
                f"{meaning(results.suite, score)}; {better}",
                {cell.method: _entry(cell, several) for cell in found if cell.score == score},
                kind.lower_is_better,
                Entry(figure(mean, std, digits), mean),
                "linear",
                compared,
                score,
            )
        )
    return columns


def _entry(cell: Cell, several: bool) -> Entry:
    mean, known = cell.summary.mean, not np.isnan(cell.published_mean)
    mark: Mark = "best" if cell.best else "tied" if cell.tied else ""
    return Entry(
        shown(cell),
        cell.summary.at_least if np.isnan(mean) else mean,
        interval(cell),
        None if np.isnan(mean) else (cell.low, cell.high),
        mark if several else "",
        figure(cell.published_mean, cell.published_std, cell.decimals) if known else "",
        f"{cell.distance:+.1f}" if known and not np.isnan(cell.distance) else "",
    )


def _chosen(results: Results, table: str) -> list[Column]:
    """The true regret of the rows that trials choose, and their value on test, if the table has these."""
    columns, score = [], choice_score(results)
    told = f"value of the row that a trial chooses by its best value when {score} is measured"
    for found in chosen_rows(results, table):
        digits, entries = decimals(results.instances[table], score), {}
        for method, values in found.values.items():
            mean, std = (values.mean(), values.std()) if len(values) else (np.nan, np.nan)
            entries[method] = Entry(figure(mean, std, digits), mean)
        columns.append(
            Column(
                f"{found.name} {'↓' if found.lower_is_better else '↑'}",
                f"{found.name} {told}",
                entries,
                found.lower_is_better,
                Entry(figure(found.random_search, np.nan, digits), found.random_search),
                score=score,
                side=CHOSEN,
            )
        )
    return columns


def time_column(results: Results, tables: Iterable[str], methods: Iterable[str]) -> Column | None:
    """The methods' own time, the median over tables; None if it was not measured."""
    entries = {}
    for method in methods:
        known = [results.step_seconds[t, method] for t in tables if (t, method) in results.step_seconds]
        seconds = float(np.median(known)) if known else np.nan
        entries[method] = Entry(milliseconds(seconds), 1e3 * seconds)
    if all(np.isnan(entry.value) for entry in entries.values()):
        return None
    return Column(TIME, "processor time of the method for a step, in milliseconds", entries, side=TIME)


def figure_board(results: Results, found: FewerTrainings, where: Literal["run", "arena"] = "run") -> Board:
    """The leaderboard over the tables of a run, or of a track in the arena, the best method first."""
    columns = [column for make in COLUMNS if (column := make(results, found)) is not None]
    shown_there = tuple(column for column in columns if column.only in ("", where))
    return Board(tuple(found.methods["method"]), shown_there, where == "run").best_first()


def times_fewer(results: Results, found: FewerTrainings) -> Column:
    """Times fewer trainings than random search, with the interval over trials."""
    names = ["method", "times_fewer", "low", "high", "failed"]
    entries = {
        method: Entry(
            "failed" if failed else short(value),
            value,
            span(low, high),
            None if np.isnan(value) else (low, high),
        )
        for method, value, low, high, failed in found.methods[names].itertuples(index=False, name=None)
    }
    told = "trainings of random search over those of the method, geometric mean over families, over"
    told += f" {counted(len(found.tables), 'table')}; higher is better"
    return Column("times fewer", told, entries, False, Entry("1", 1.0), "log")


def _other_families(results: Results, found: FewerTrainings) -> Column | None:
    against = found.tests[(found.tests["b"] == "") & found.tests["families_p_page"].notna()]
    if not len(against):
        return None
    entries = {
        line["a"]: Entry(
            f"{short(line['families_ratio'])}, p {p_cell(line['families_p_page'])}", line["families_ratio"]
        )
        for line in against.to_dict("records")
    }
    told = "the figure over families that did not tune the method, and the test over their means"
    return Column("other families", told, entries, False)


def _places(results: Results, found: FewerTrainings) -> Column | None:
    places = found.paired.places() if found.paired is not None else {}
    if not places:
        return None
    entries = {m: Entry(f"{a}–{b}" if a < b else str(a), a) for m, (a, b) in places.items()}
    return Column("places", "its best and worst place when one family is left out", entries)


def _capped(results: Results, found: FewerTrainings) -> Column:
    told = "share of trials that did not reach the target within the budget"
    return Column("capped", told, _of_methods(found, "capped", _percent), reference=Entry(""))


def _hypervolume(results: Results, found: FewerTrainings) -> Column | None:
    entries = _of_methods(found, "hypervolume")
    known = found.methods["hypervolume"].notna().any()
    told = "share of the hypervolume found at the budget, mean over families"
    return Column("hypervolume", told, entries, False) if known else None


def _time(results: Results, found: FewerTrainings) -> Column | None:
    column = time_column(results, results.instances, found.methods["method"])
    return column and replace(column, only="arena")


COLUMNS: tuple[Callable[[Results, FewerTrainings], Column | None], ...] = (
    times_fewer,
    _other_families,
    _places,
    _capped,
    _hypervolume,
    _time,
)
"""The columns over the tables of a run, in order; one of them is None where it has nothing to show."""


def _of_methods(found: FewerTrainings, name: str, text: Callable[[float], str] = short) -> dict[str, Entry]:
    """Entries with the values of a column of `FewerTrainings.methods`."""
    values = zip(found.methods["method"], found.methods[name].tolist(), strict=True)
    return {method: Entry(text(value), value) for method, value in values}


def _percent(share: float) -> str:
    return NONE if np.isnan(share) else f"{share:.0%}"
