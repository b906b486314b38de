"""What the leaderboard of lm-2026 shows of an archive: each track's figures, each method, each table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.fewer_trainings import (
    SIMULATED,
    FewerTrainings,
    fewer_headline,
    fewer_sentences,
    fewer_trainings,
)
from hpobench_nmt.analysis.leaderboard import fewer_setting, milliseconds
from hpobench_nmt.analysis.method_card import method_card
from hpobench_nmt.analysis.number_text import p_cell
from hpobench_nmt.analysis.report_content import Bar, Board, Column, Entry
from hpobench_nmt.benchmarking.archive import NAME, Archive
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.submissions import archived_results
from hpobench_nmt.benchmarking.suite import tracks
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.text import counted, short
from hpobench_nmt.methods import KNOWN

_SHOWN = 3
_DEVELOPMENT = "the tables of the development half"
# What is known of the tables that were looked at while a method was made. See docs/explanation/auto.md.
_TUNED = {
    "BO_auto": _DEVELOPMENT,
    "BO_levels": "eight tables with curves of the development half",
    **dict.fromkeys(("BO_EI_M", "BO_EI_R", "BO_M", "BO_R"), "the paper's tables, to repeat its figures"),
    **dict.fromkeys(("GB_EI_M", "GB_EI_R", "GB_EIF_M", "GB_EIF_R", "GB_M", "GB_R"), "the paper's tables"),
}
_TITLES = {
    "plain": "whole trainings, one objective, counted in look-ups",
    "early": "trainings that can be stopped, on a clock of costs, 8 workers",
    "early-1": "trainings that can be stopped, on a clock of costs, 1 worker",
    "multi": "two objectives, counted in look-ups",
    "scale": "the table of a smaller model is known",
}


@dataclass(frozen=True, eq=False)
class Track:
    """A track of an archive: its results on the tables that are installed, and the figures of its methods."""

    name: str
    title: str
    results: Results
    found: FewerTrainings

    @property
    def sentences(self) -> list[str]:
        """What the figures show, and what they mean."""
        return [*fewer_headline(self.found), *fewer_sentences(self.results, self.found)]


@dataclass(frozen=True)
class MethodPage:
    """A method: its kind, lines on what it is, and its figure on each table: track, table, figure, rank."""

    name: str
    kinds: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TablePage:
    """A table: facts of its datasheet, and by track the target and the methods that need fewest trainings."""

    name: str
    facts: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, ...], ...]


def arena_tracks(archive: Archive) -> list[Track]:
    """The tracks that the archive has, on the tables that are installed."""
    found = []
    for name in (track for track in tracks(NAME) if track in archive.manifests):
        results = archived_results(archive, name)
        found.append(Track(name, _TITLES[name], results, fewer_trainings(results)))
    return found


def track_board(track: Track) -> Board:
    """The methods of a track, the best first; InputError where no table gives a figure."""
    found = track.found
    if found.reason:
        raise InputError(f"track {track.name}: {found.reason}")
    methods, tests = found.methods, found.tests[found.tests["b"] == ""].set_index("a")
    figures = methods[["times_fewer", "low", "high"]].to_numpy(np.float64)
    low, high = math.log(min(np.nanmin(figures), 0.8)), math.log(max(np.nanmax(figures), 1.25))

    def place(value: float) -> float | None:
        return None if math.isnan(value) else round(100 * (math.log(value) - low) / (high - low), 1)

    halved, volumes = (methods[name].notna().any() for name in ("development", "hypervolume"))
    columns = [Column("times fewer", "trainings than random search, geometric mean over families", False)]
    columns += [Column("by table", "each table weighs the same", False)]
    columns += [Column("p", "signed-rank test against random search over tables, after Holm's correction")]
    columns += [Column("capped", "share of trials that did not reach the target within the budget")]
    columns += [Column("development", "the figure over the development half", False)] if halved else []
    columns += (
        [Column("hypervolume", "its share at the budget, mean over families", False)] if volumes else []
    )
    columns += [Column("ms/step", "processor time of the method a step, in milliseconds")]
    rows = []
    for line in methods.sort_values("times_fewer", ascending=False, kind="stable").to_dict("records"):
        name, value = line["method"], line["times_fewer"]
        mean = place(value)
        bar = None if mean is None else Bar(mean, place(line["low"]), place(line["high"]), place(1.0))
        span = "" if math.isnan(line["low"]) else f"{short(line['low'])} to {short(line['high'])}"
        p = tests.loc[name]["p_holm"] if name in tests.index else math.nan
        entries = [Entry(short(value), _number(value), span, bar=bar)]
        entries += [Entry(short(line["by_tables"]), _number(line["by_tables"])), Entry(p_cell(p), _number(p))]
        entries += [Entry(f"{line['capped']:.0%}", _number(line["capped"]))]
        for shown, key in ((halved, "development"), (volumes, "hypervolume")):
            entries += [Entry(short(line[key]), _number(line[key]))] if shown else []
        seconds = [v for (_, m), v in track.results.step_seconds.items() if m == name]
        cost = float(np.median(seconds)) if seconds else math.nan
        rows.append((name, (*entries, Entry(milliseconds(cost), _number(cost)))))
    return Board(tuple(columns), tuple(rows))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def method_pages(archive: Archive, found: Sequence[Track]) -> list[MethodPage]:
    """The page of each method, in the order of the archive."""
    names = dict.fromkeys(method for track in found for method in track.results.methods)
    return [_method_page(archive, found, name) for name in names]


def _method_page(archive: Archive, found: Sequence[Track], name: str) -> MethodPage:
    own = [track for track in found if name in track.results.methods]
    facts, known = [], KNOWN.get(name)
    card = next((c for t in own if (c := archive.card(t.name, name))), None)
    if known is not None:
        what, *rest = method_card(name)
        facts += [("what", what.partition(": ")[2]), ("about", " ".join(rest[1:2]))]
        facts += [("settings", "; ".join(each.strip() for each in rest if " = " in each) or "none")]
        facts += [("tuned on", _TUNED.get(name, "none of these tables: its settings are its authors'"))]
    if card is not None:
        facts += [("what", card.what), ("source", card.source), ("licence", card.licence)]
        facts += [("hardware", card.hardware), ("tuned on", card.tuned_on)]
    versions = archive.methods(own[0].name)[name].versions
    facts += [("made with", ", ".join(f"{k} {v}" for k, v in versions.items()))]
    facts += [("fingerprint", archive.methods(own[0].name)[name].methods[name].of_sources[:16])]
    lines = []
    for track in own:
        ranks = _ranks(track.found.cells)
        cells = ranks[ranks["method"] == name].sort_values("times_fewer", ascending=False, kind="stable")
        for line in cells.to_dict("records"):
            rank = f"{int(line['rank'])} of {int(line['of'])}"
            lines.append(
                (track.name, line["table"], short(line["times_fewer"]), rank, f"{line['capped']:.0%}")
            )
    return MethodPage(name, _kinds(name), tuple(facts), tuple(lines))


def _kinds(name: str) -> tuple[str, ...]:
    """What a method can be filtered by."""
    known = KNOWN.get(name)
    if known is None:
        return ("submitted",)
    origin = "other libraries" if known.extra or "." in name else "built in"
    return (origin, "stops early" if known.partial else "whole trainings")


def _ranks(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the rank of each method on its table, and the number of methods."""
    groups = cells.groupby("table", sort=False)["times_fewer"]
    return cells.assign(rank=groups.rank(ascending=False, method="min"), of=groups.transform("size")).dropna(
        subset=["rank"]
    )


def table_pages(found: Sequence[Track]) -> list[TablePage]:
    """The page of each table, in the order of the tracks."""
    installed = {n: i.installed for track in found for n, i in track.results.instances.items()}
    return [_table_page(found, name) for name in installed]


def _table_page(found: Sequence[Track], name: str) -> TablePage:
    own = [track for track in found if name in track.results.instances]
    table = own[0].results.instances[name].installed
    facts = [("rows", str(len(table))), ("hyperparameters", ", ".join(table.space.names))]
    facts += [
        (k, str(table.provenance[k])) for k in ("title", "licence", "seed_noise") if k in table.provenance
    ]
    facts += [("sha256", table.sha256)]
    lines = []
    for track in own:
        half = track.found.tables.set_index("table")["half"].get(name, "")
        halved = bool(track.results.suite.development)
        cells = track.found.cells[(track.found.cells["table"] == name)].dropna(subset=["times_fewer"])
        cells = cells[cells["method"] != SIMULATED].sort_values("times_fewer", ascending=False, kind="stable")
        best = ", ".join(
            f"{line['method']} {short(line['times_fewer'])}" for line in cells.head(_SHOWN).to_dict("records")
        )
        target = fewer_setting(track.results, track.found, name).removeprefix("times fewer: ")
        lines.append((f"{track.name}, {half}" if halved else track.name, best or "–", target))
    return TablePage(name, tuple(facts), tuple(lines))


def arena_lead(archive: Archive, found: Sequence[Track]) -> str:
    """What the page is made of, in a sentence."""
    methods = {m for track in found for m in track.results.methods}
    tables = {t for track in found for t in track.results.instances}
    trials = sorted({track.results.suite.trials for track in found})
    sizes = f"{counted(len(methods), 'method')} on {counted(len(tables), 'table')}"
    return (
        f"{sizes} in {counted(len(found), 'track')}, {' or '.join(map(str, trials))} trials each. Archive "
        f"{archive.sha256[:16]}…"
    )
