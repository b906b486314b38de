"""An archive: the trials of many methods in the tracks of a frozen benchmark, as one Parquet file.

    one line for each trial: track, table, method, trial, and the columns of packed_trials
    the schema's metadata, key hpobench_nmt: JSON with `format`, and `runs`, a list of

        track, manifest    the track, and the manifest of the results folder that the trials come from
        seconds            processor time of a step, by method and table
        cards              descriptions of methods, by name
        libraries          versions of the libraries that only some methods need, by method, if the manifest
                           lacks them (before its format 4)

A method is in only one run of a track. The format is 1. Nothing in an archive is executed. Its trials are
checked against the tables, and its texts are checked before they are shown.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from hpobench_nmt.arena.packed_trials import COLUMNS, packed, unpacked
from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.records.bounded_parquet import open_bounded, texts_of, values_in
from hpobench_nmt.benchmarking.records.frozen import suite_hash
from hpobench_nmt.benchmarking.records.manifest import Manifest, manifest_in
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.suite_files import FROZEN
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import is_name, parquet_bytes, parse_json, read_bytes
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import Strict, checked
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.core.trial_loop import TRIAL_VERSION

FORMAT = 1
NAME = FROZEN
SEED = 0
"""The seed of all archived trials, so that any two methods start from the same rows."""
_KEY = b"hpobench_nmt"
MOST_BYTES = 2**26
_MOST_TRIALS = 2**20
_MOST_DECOMPRESSED = 2**28
_MOST_LOOKUPS = 2**27


class Card(Strict, frozen=True, kw_only=True):
    """The description of a submitted method, in short texts.

    Attributes:
        what: the idea, in a sentence or two.
        source: the address of its code, or of a paper.
        licence: the licence of its code.
        hardware: the hardware on which the trials ran.
        tuned_on: the tables that it was tuned on, or "none".
    """

    what: str
    source: str
    licence: str
    hardware: str
    tuned_on: str

    def __post_init__(self) -> None:
        for name, text in msgspec.structs.asdict(self).items():
            if not text.strip() or len(text) > 500 or not text.isprintable():
                raise InputError(f"card: {name} must be a line of 1 to 500 characters.")


class _Run(Strict, frozen=True):
    track: str
    manifest: str
    seconds: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    cards: dict[str, Card] = msgspec.field(default_factory=dict)
    libraries: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class _About(Strict, frozen=True):
    format: int
    runs: tuple[_Run, ...]


@dataclass(frozen=True, eq=False)
class Archive:
    """An archive that was read. Trials are constructed when they are accessed.

    Attributes:
        path: where it was read from.
        sha256: the hash of the file.
        runs: the runs whose trials it has.
        lines: pyarrow's table of its trials.
    """

    path: Path
    sha256: str
    runs: tuple[_Run, ...]
    lines: Any

    @cached_property
    def manifests(self) -> dict[str, list[Manifest]]:
        """The manifests of each track, in order."""
        found: dict[str, list[Manifest]] = {}
        for run in self.runs:
            content = run.manifest.encode("utf-8", "surrogatepass")
            found.setdefault(run.track, []).append(manifest_in(content, self.path))
        return found

    @cached_property
    def groups(self) -> dict[tuple[str, str, str], slice]:
        """Where the trials of each (track, table, method) lie."""
        columns = [texts_of(self.lines.column(name)) for name in ("track", "table", "method")]
        keys = list(zip(*columns, strict=True))
        found: dict[tuple[str, str, str], slice] = {}
        for i, key in enumerate(keys):
            start = found[key].start if key in found else i
            found[key] = slice(start, i + 1)
        for key, place in found.items():
            numbers = self.lines.column("trial")[place.start : place.stop].to_pylist()
            if numbers != list(range(len(numbers))) or set(keys[place]) != {key}:
                raise _damaged(self.path)
        return found

    @cached_property
    def hashes(self) -> dict[tuple[str, str, str], str]:
        """SHA-256 of the trials of each (track, table, method): of all cells, in order."""
        found = {}
        for key, place in self.groups.items():
            part, digest = self.lines.slice(place.start, place.stop - place.start), hashlib.sha256()
            for name in COLUMNS:
                for cell in _arrays(part.column(name)):
                    held = cell.encode() if isinstance(cell, str) else b"" if cell is None else cell.tobytes()
                    digest.update(f"{name} {-1 if cell is None else len(held)}\n".encode() + held)
            found[key] = digest.hexdigest()
        return found

    def methods(self, track: str) -> dict[str, Manifest]:
        """The manifest of each method of a track."""
        return {name: manifest for manifest in self.manifests.get(track, ()) for name in manifest.methods}

    def suite(self, track: str) -> Suite:
        """The suite of a track, whose trials and tables the archive has. It need not be the installed one.

        Raises InputError if there is no such track, or its runs have several suites or seeds.
        """
        manifests = self.manifests.get(track)
        if not manifests:
            raise InputError(f"{self.path}: has no track {track!r}, only {', '.join(self.manifests)}.")
        if len({(suite_hash(manifest.suite), manifest.seed) for manifest in manifests}) > 1:
            raise InputError(f"{self.path}: track {track} has runs of several suites or seeds.")
        first = manifests[0].suite
        return msgspec.structs.replace(first, tables=tuple(first.pinned))

    def trials(self, track: str, method: str, instance: Instance, most: int | None = None) -> Trials | None:
        """A method's first trials, at most `most`, on a table; None without any, InputError if invalid."""
        table = instance.table.name
        place = self.groups.get((track, table, method))
        if place is None:
            return None
        stop = place.stop if most is None else min(place.stop, place.start + most)
        part = self.lines.slice(place.start, stop - place.start)

        def wrong(what: str) -> InputError:
            return InputError(f"{self.path}, {method} on {table} in {track}: {what}.")

        return unpacked({name: _arrays(part.column(name)) for name in COLUMNS}, instance, wrong)

    def seconds(self, track: str, method: str, table: str) -> float:
        """Processor time per step, NaN if it was not measured."""
        runs = [run for run in self.runs if run.track == track]
        return next((s[table] for r in runs if table in (s := r.seconds.get(method, {}))), math.nan)

    def versions(self, track: str, method: str) -> dict[str, str]:
        """The versions of all libraries that a method's results depend on."""
        return {**self.methods(track)[method].versions, **self.identity(track, method).libraries}

    def identity(self, track: str, method: str) -> MethodEntry:
        """The entry of a method, with the versions of its libraries."""
        entry = self.methods(track)[method].entry(method)
        own = [r.libraries[method] for r in self.runs if r.track == track and method in r.libraries]
        return msgspec.structs.replace(entry, libraries=own[0]) if own else entry

    def has_rows_of(self, track: str, method: NamedMethod) -> bool:
        """Whether a method of the archive looks up the same rows as this one of the same name."""
        same_trials = self.methods(track)[method.name].trial_version == TRIAL_VERSION
        return same_trials and self.identity(track, method.name).same_rows(method.entry)

    def card(self, track: str, method: str) -> Card | None:
        """The card of a method, or None if it does not have one."""
        return next((r.cards[method] for r in self.runs if r.track == track and method in r.cards), None)


def _arrays(column: Any) -> list[Any]:
    """The entries of a column, with lists as arrays, and None for missing entries."""
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        return texts_of(column)
    whole = column.combine_chunks()
    bounds, values = whole.offsets.to_numpy(), whole.values.to_numpy()
    there = whole.is_valid().to_pylist()
    return [values[bounds[i] : bounds[i + 1]] if there[i] else None for i in range(len(whole))]


def archive_bytes(
    results: Mapping[str, Sequence[Results]],
    cards: Mapping[str, Card] | None = None,
    before: Archive | None = None,
) -> bytes:
    """The content of an archive with the results of each track, after those of the archive `before`.

    Raises InputError if a method is in a track twice, if results are not of a frozen suite, or if it restarts
    paused trainings (resume = false).
    """
    lines: dict[str, list[Any]] = {k: [] for k in ("track", "table", "method", "trial", *COLUMNS)}
    runs = list(before.runs) if before else []
    for track, several in results.items():
        taken = set(before.methods(track)) if before else set()
        for run in several:
            if run.manifest is None or not run.suite.pinned:
                raise InputError(f"track {track}: an archive can only have results of frozen suites.")
            if not run.suite.resume:
                raise InputError(f"track {track}: an archive cannot have results with resume = false.")
            if twice := taken & set(run.methods):
                raise InputError(f"track {track} has method {min(twice)!r} already: rename one.")
            taken |= set(run.methods)
            runs.append(_run_of(track, run, cards or {}))
            for (table, method), trials in sorted(run.trials.items()):
                instance = run.instances[table]
                found = packed(Trials.of(instance.losses, trials, instance.numbers), instance)
                count = len(found["rows"])
                for name, value in (("track", track), ("table", table), ("method", method)):
                    lines[name] += [value] * count
                lines["trial"] += range(count)
                for name in COLUMNS:
                    lines[name] += found[name]
    parts = [before.lines] if before else []
    return _written([*parts, _table_of(lines)], _About(FORMAT, tuple(runs)))


def _run_of(track: str, results: Results, cards: Mapping[str, Card]) -> _Run:
    seconds: dict[str, dict[str, float]] = {}
    for (table, method), value in results.step_seconds.items():
        if not math.isnan(value):
            seconds.setdefault(method, {})[table] = float(f"{value:.2g}")
    assert results.manifest is not None
    own = {name: card for name, card in cards.items() if name in results.methods}
    return _Run(track, results.manifest.to_json().decode(), seconds, own)


_TEXTS = ("track", "table", "method", "failure")


def _types() -> dict[str, Any]:
    import pyarrow as pa

    text = {name: pa.string() for name in ("track", "table", "method")}
    lists = {"rows": pa.int32(), "steps": pa.int16(), "workers": pa.int8(), "starts": pa.float64()}
    return {**text, "trial": pa.int16(), **{k: pa.list_(v) for k, v in lists.items()}, "failure": pa.string()}


def _plain(kind: Any) -> Any:
    """The type with which a column was written. When read, texts are dictionaries."""
    return kind.value_type if hasattr(kind, "index_type") else kind


def _table_of(lines: Mapping[str, Sequence[Any]]) -> Any:
    import pyarrow as pa

    schema = pa.schema(list(_types().items()))
    return pa.Table.from_arrays([pa.array(lines[field.name], field.type) for field in schema], schema=schema)


def _written(parts: Sequence[Any], about: _About) -> bytes:
    import pyarrow as pa

    metadata = {_KEY: json.dumps(msgspec.to_builtins(about)).encode()}
    schema = pa.schema(list(_types().items()), metadata=metadata)
    table = pa.concat_tables([part.cast(schema) for part in parts]).combine_chunks()
    return parquet_bytes(table, compression_level=19)


def joined_archives(archives: Sequence[Archive]) -> bytes:
    """The content of one archive that joins several.

    Raises InputError if a method is in the same track of two archives, or if it lacks tables that other
    methods of the track have. Ranks over the tables that all methods have would then leave these tables out.
    """
    held = [(each, track, m) for each in archives for track in each.manifests for m in each.methods(track)]
    tables: dict[str, set[str]] = {}
    for archive in archives:
        for track, table, _ in archive.groups:
            tables.setdefault(track, set()).add(table)
    taken: dict[tuple[str, str], Archive] = {}
    for archive, track, method in held:
        other = taken.setdefault((track, method), archive)
        if other is not archive:
            raise InputError(f"method {method!r} of track {track} is in {other.path} and in {archive.path}.")
        if track not in tables:
            raise InputError(f"{archive.path}: method {method!r} of track {track} has no trials.")
        if lacking := {table for table in tables[track] if (track, table, method) not in archive.groups}:
            raise InputError(
                f"{archive.path}: method {method!r} of track {track} lacks {counted(len(lacking), 'table')} "
                f"that other methods have, such as {min(lacking)}. Run it on all tables of the track."
            )
    runs = tuple(run for archive in archives for run in archive.runs)
    return _written([archive.lines for archive in archives], _About(FORMAT, runs))


def read_archive(path: Path) -> Archive:
    """The archive in a file; InputError if it is not an archive, is damaged, or has a newer format."""
    return archive_of(read_bytes(path, MOST_BYTES), path)


def archive_of(content: bytes, path: Path) -> Archive:
    """The archive in the content of the file at `path`; raises as `read_archive` does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        file = open_bounded(content, _TEXTS, _MOST_TRIALS, _MOST_DECOMPRESSED)
        metadata = (file.schema_arrow.metadata or {}).get(_KEY)
        if metadata is None:
            raise InputError(f"{path}: is not an archive of hpobench-nmt.")
        about = _about(metadata, path)
        if {field.name: _plain(field.type) for field in file.schema_arrow} != _types():
            raise _damaged(path)
        for name in ("rows", "steps", "workers", "starts"):
            if values_in(file, name) > _MOST_LOOKUPS:
                raise _damaged(path)
        lines = file.read()
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(path) from None
    found = Archive(path, hashlib.sha256(content).hexdigest(), about.runs, lines)
    parts = [lines.column(name) for name in ("track", "table", "method", "trial", "rows")]
    parts += [pc.list_flatten(lines.column(name)) for name in ("rows", "steps", "workers", "starts")]
    if any(part.null_count for part in parts):
        raise _damaged(path)
    for track in {run.track for run in about.runs}:
        if not is_name(track):
            raise _damaged(path)
        names = [name for manifest in found.manifests[track] for name in manifest.methods]
        if len(set(names)) < len(names):
            raise InputError(f"{path}: a method is in track {track} twice.")
    if not {key[::2] for key in found.groups} <= {(t, m) for t in found.manifests for m in found.methods(t)}:
        raise InputError(f"{path}: it has trials of a method that is not in any of its manifests.")
    return found


def _about(metadata: bytes, path: Path) -> _About:
    content = parse_json(metadata, str(path))
    number = content.get("format") if isinstance(content, dict) else None
    if not isinstance(number, int) or number < 1:
        raise _damaged(path)
    if number > FORMAT:
        raise InputError(f"{path}: has format {number}, newer than this version reads: update hpobench-nmt.")
    return checked(content, _About, str(path))


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: is a damaged archive. Get it again.")


def check_same_suite(archive: Archive, track: str, suite: Suite, seed: int) -> None:
    """Raise InputError if the archive lacks a track, or has it from another suite version or seed."""
    if suite_hash(archive.suite(track)) != suite_hash(suite):
        raise InputError(
            f"{archive.path}: belongs to another version of {suite.name} than the installed one."
        )
    own = archive.manifests[track][0].seed
    if own != seed:
        raise InputError(
            f"{archive.path}: has seed {own}, not {seed}: only trials with the same seed can be compared."
        )
