"""The leaderboard of lm-2026: the figures of each track of an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpobench_nmt.analysis.board import Board, figure_board
from hpobench_nmt.analysis.fewer_trainings import (
    FewerTrainings,
    fewer_headline,
    fewer_sentences,
    fewer_trainings,
)
from hpobench_nmt.arena.archive import NAME, Archive
from hpobench_nmt.arena.submissions import archived_results
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.suite_files import load_suite, tracks
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.catalogue import installed


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
    """The tracks that the archive has, on the tables that are installed, without tracks that lack all."""
    found = []
    for name in sorted(archive.manifests, key=[*tracks(NAME), *archive.manifests].index):
        if installed().keys().isdisjoint(archive.suite(name).tables):
            continue
        results, known = archived_results(archive, name), tracks(NAME).get(name)
        about = load_suite(known) if known else results.suite
        found.append(Track(name, about.title or about.description, results, fewer_trainings(results)))
    return found


def track_board(track: Track) -> Board:
    """The methods of a track, the best first; InputError if no table gives a figure."""
    if track.found.reason:
        raise InputError(f"track {track.name}: {track.found.reason}")
    return figure_board(track.results, track.found, "arena")


def arena_lead(archive: Archive, found: Sequence[Track]) -> str:
    """The page's numbers of methods, tables, tracks and trials, and the archive's hash, as text."""
    methods = {m for track in found for m in track.results.methods}
    tables = {t for track in found for t in track.results.instances}
    trials = sorted({track.results.suite.trials for track in found})
    sizes = f"{counted(len(methods), 'method')} on {counted(len(tables), 'table')}"
    missing = [name for name in archive.manifests if name not in {track.name for track in found}]
    left_out = f"No table is installed of {', '.join(missing)}. " if missing else ""
    return (
        f"{sizes} in {counted(len(found), 'track')}, {' or '.join(map(str, trials))} trials each. "
        f"{left_out}Archive {archive.sha256[:16]}…"
    )
