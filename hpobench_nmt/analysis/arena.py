"""The leaderboard of lm-2026: the figures of each track of an archive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.analysis.fewer_trainings import (
    FewerTrainings,
    fewer_headline,
    fewer_sentences,
    fewer_trainings,
)
from hpobench_nmt.analysis.leaderboard import milliseconds
from hpobench_nmt.analysis.number_text import p_cell
from hpobench_nmt.analysis.report_content import Bar, Board, Column, Entry
from hpobench_nmt.benchmarking.archive import NAME, Archive
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.submissions import archived_results
from hpobench_nmt.benchmarking.suite_files import tracks
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.text import counted, short

_TITLES = {
    "plain": "whole trainings, one objective, counted in look-ups",
    "early": "trainings that can be stopped, on a clock of costs, 8 workers",
    "early-1": "trainings that can be stopped, on a clock of costs, 1 worker",
    "multi": "two objectives, counted in look-ups",
    "scale": "whole trainings, with the table of a smaller model as a source",
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


def arena_tracks(archive: Archive) -> list[Track]:
    """The tracks that the archive has, on the tables that are installed."""
    found = []
    for name in (track for track in tracks(NAME) if track in archive.manifests):
        results = archived_results(archive, name)
        found.append(Track(name, _TITLES[name], results, fewer_trainings(results)))
    return found


def track_board(track: Track) -> Board:
    """The methods of a track, the best first; InputError if no table gives a figure."""
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
    columns += [Column("by table", "with equal weights of tables", False)]
    columns += [Column("p", "signed-rank test against random search over tables, after Holm's correction")]
    columns += [Column("capped", "share of trials that did not reach the target within the budget")]
    columns += [Column("development", "the figure over the development half", False)] if halved else []
    columns += (
        [Column("hypervolume", "share of the hypervolume found at the budget, mean over families", False)]
        if volumes
        else []
    )
    columns += [Column("ms/step", "processor time of the method for a step, in milliseconds")]
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


def arena_lead(archive: Archive, found: Sequence[Track]) -> str:
    """The page's numbers of methods, tables, tracks and trials, and the archive's hash, as text."""
    methods = {m for track in found for m in track.results.methods}
    tables = {t for track in found for t in track.results.instances}
    trials = sorted({track.results.suite.trials for track in found})
    sizes = f"{counted(len(methods), 'method')} on {counted(len(tables), 'table')}"
    return (
        f"{sizes} in {counted(len(found), 'track')}, {' or '.join(map(str, trials))} trials each. Archive "
        f"{archive.sha256[:16]}…"
    )
