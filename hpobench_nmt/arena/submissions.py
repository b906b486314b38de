"""The parts of an archive, and adding a method to it after some of its trials were run again."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import metadata
from pathlib import Path

import msgspec

from hpobench_nmt.analysis.selection import only_methods
from hpobench_nmt.arena.archive import (
    MOST_BYTES,
    NAME,
    SEED,
    Archive,
    Card,
    archive_bytes,
    archive_of,
    check_same_suite,
    joined_archives,
    read_archive,
)
from hpobench_nmt.arena.beside import ARCHIVE, fetched_archive, track_of_suite
from hpobench_nmt.benchmarking.call import every_method, run
from hpobench_nmt.benchmarking.contestants.plugins import MethodSpec, resolve_methods
from hpobench_nmt.benchmarking.records.frozen import check_pinned
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import load_results, unfinished
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of, tracks
from hpobench_nmt.core.system.errors import InputError, Notify, check_known, not_written
from hpobench_nmt.core.system.files import read_bytes, read_toml, write_whole
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.core.trajectory import same_trial
from hpobench_nmt.lookup.catalogue import installed
from hpobench_nmt.lookup.download import Limits, download
from hpobench_nmt.methods import KNOWN

RERUN = 3
"""The trials of each table that are run again before a method is added."""


def archived_results(
    archive: Archive, track: str, tables: Iterable[str] = (), methods: Iterable[str] = ()
) -> Results:
    """An archive's results of a track, on the tables that are installed here.

    Raises InputError if none of the tables is installed and in the archive, or the archive lacks a method.
    """
    suite, known = archive.suite(track), archive.methods(track)
    check_known("table", tables, suite.tables, f"(track {track})")
    wanted = list(methods) or list(known)
    for name in wanted:
        if name not in known:
            raise InputError(f"{archive.path}: has no method {name!r} in track {track}.")
    held = {table for of, table, _ in archive.groups if of == track}
    names = [t for t in (list(tables) or suite.tables) if t in installed() and t in held]
    if not names:
        raise InputError(f"no table of track {track} is installed: 'hpobench-nmt tables fetch {NAME}'.")
    chosen = msgspec.structs.replace(suite, tables=tuple(names), methods=tuple(wanted))
    instances = suite_instances(chosen)
    check_pinned(chosen, instances)
    found = {(t, m): archive.trials(track, m, instances[t]) for t in names for m in wanted}
    trials = {pair: each for pair, each in found.items() if each is not None}
    seconds = {pair: archive.seconds(track, pair[1], pair[0]) for pair in trials}
    return Results(
        chosen,
        next(iter(known.values())).seed,
        instances,
        tuple(wanted),
        trials,
        step_seconds={pair: value for pair, value in seconds.items() if value == value},
        manifest=next(iter(known.values())),
    )


def add_to_archive(
    archive: Archive, folder: str | Path, method: MethodSpec, card: str | Path, notify: Notify = print
) -> bytes:
    """The content of the archive with a method from a results folder, after its first trials ran again.

    The results folder is only data, and code that it names is not run. The code is that of `method`.

    Args:
        archive: the archive to which the method is added.
        folder: results of `hpobench-nmt run lm-2026 --track TRACK`, of all tables.
        method: the method, as it was given to the run.
        card: a TOML file with the keys of `Card`.
        notify: called with each message for the user.

    Raises:
        InputError: the results are of another version, of a part of the tables, unfinished, or differ from
            those that are run again; the method's name is taken; or the card is incomplete.
    """
    about = checked(read_toml(Path(card)), Card, str(card))
    found = resolve_methods([method])[0]
    results = load_results(folder, [method])
    track = track_of_suite(results.suite.name)
    check_same_suite(archive, track, load_suite(results.suite.name), results.seed)
    check_same_suite(archive, track, results.suite, results.seed)
    check_pinned(results.suite, results.instances)
    if found.name not in results.methods:
        raise InputError(f"{folder}: has no results of {found.name!r}.")
    if found.name.casefold() in {name.casefold() for name in (*archive.methods(track), *KNOWN)}:
        raise InputError(f"the name {found.name!r} is taken in track {track}: rename the method, and run it.")
    if missing := [table for table in results.suite.pinned if (table, found.name) not in results.trials]:
        then = f"install them with 'hpobench-nmt tables fetch {NAME}'"
        if set(missing) <= results.instances.keys():
            then = "the run is not finished, so start it again"
        raise InputError(
            f"{folder}: lacks {counted(len(missing), 'table')} of {results.suite.name}, such as "
            f"{missing[0]}. A submission needs all tables: {then}."
        )
    whole = load_suite(results.suite.name).trials
    if results.suite.trials != whole:
        raise InputError(f"{folder}: has {counted(results.suite.trials, 'trial')} instead of {whole}.")
    tables = list(results.instances)
    notify(f"Running {RERUN} trials of {found.name} again on {counted(len(tables), 'table')}.")
    again = run(track_of(NAME, track), tables=tables, methods=[method], trials=RERUN, seed=results.seed)
    for pair, trials in again.trials.items():
        if other := sum(not same_trial(results.trials[pair][i], trials[i]) for i in range(len(trials))):
            raise InputError(
                f"{folder}: {other} of {len(trials)} trials of {found.name} on {pair[0]} differ from those "
                f"that were run again. All random numbers of a method must come from `rng`."
            )
    return with_results(archive, track, only_methods(results, [found.name]), about)


def with_results(archive: Archive, track: str, results: Results, card: Card) -> bytes:
    """The content of the archive with more results of a track."""
    return archive_bytes({track: [results]}, dict.fromkeys(results.methods, card), before=archive)


def save_archive(content: bytes, path: Path, digest: tuple[Path, bytes] | None = None) -> str:
    """Write an archive, after its digest (path and content) if given, and return its SHA-256.

    If the new content cannot be read, the old files are kept. After a kill in between, the archive is the old
    one, to which the same command adds again.
    """
    found = archive_of(content, path)
    if len(content) > MOST_BYTES:
        raise InputError(f"{path}: the archive would be larger than {MOST_BYTES:,} bytes.")
    if digest:
        write_whole(*digest)
    write_whole(path, content)
    return found.sha256


def pack_folders(folders: Mapping[str, Path]) -> bytes:
    """An archive of some tracks' results folders, with the methods that have finished all their tables."""
    whole = {track: _finished(folder) for track, folder in folders.items()}
    return archive_bytes({track: [results] for track, results in whole.items() if results is not None})


def track_folders(folder: Path) -> dict[str, Path]:
    """The results folders of tracks in a folder of `archive make`."""
    found = {track: folder / name for track, name in tracks(NAME).items()}
    return {track: place for track, place in found.items() if (place / "manifest.json").is_file()}


def join_parts(parts: Sequence[Path], before: Archive | None = None) -> bytes:
    """One archive of several parts, each an archive or a folder of `archive make`, after `before`.

    Raises InputError if a part has another version of the suites, or a method is in two of them.
    """
    archives = [before] if before else []
    with tempfile.TemporaryDirectory() as room:
        for i, part in enumerate(parts):
            if part.is_dir():
                folders = track_folders(part)
                if not folders:
                    raise InputError(f"{part}: does not have results of a track of {NAME}.")
                packed = Path(room) / f"{i}.parquet"
                write_whole(packed, pack_folders(folders))
                archives.append(replace(read_archive(packed), path=part))
            else:
                archives.append(read_archive(part))
    for archive in archives:
        _check_version(archive)
    return joined_archives(archives)


def _published() -> str:
    """The address of the archive in the package's metadata; "" without such an address."""
    named = (url.partition(", ") for url in metadata("hpobench-nmt").get_all("Project-URL") or [])
    return next((address for name, _, address in named if name.casefold() == ARCHIVE), "")


def _check_version(archive: Archive) -> None:
    """Raise InputError if a track of an archive has another version of the suite, or another seed."""
    for track in archive.manifests:
        check_same_suite(archive, track, load_suite(track_of(NAME, track)), SEED)


def _finished(folder: Path) -> Results | None:
    """The results of the methods that have finished all tables of a folder; None without any."""
    if not any(folder.glob("observations/*/*.parquet")):
        return None
    results = load_results(folder)
    missing = {method for _, method in unfinished(results)}
    names = [name for name in results.methods if name not in missing]
    return only_methods(results, names) if names else None


def install_archive(source: str | Path | None = None, sha256: str = "") -> Path:
    """Copy an archive to the path where `archive_path` finds it, and return that path.

    Args:
        source: a file, or an address on the web. By default, the address in the package's metadata.
        sha256: the hash that it must have. By default, a file may have any hash, as it may have more methods.

    Raises:
        InputError: no address is known, or the archive has another hash or belongs to another version.
        RunError: it cannot be downloaded or written.
    """
    where = _published() if source is None else str(source)
    if source is None and not where:
        raise InputError(
            f"the archive of {NAME} does not have a public address yet. It is archive/{NAME}.parquet in a "
            f"clone of the project: give a file or an address with --from."
        )
    if where.startswith(("https://", "http://")):
        if not sha256:
            raise InputError(f"{where}: a file from the web needs a hash.")
        content = download(where, sha256, Limits(max_bytes=MOST_BYTES))
    else:
        content = read_bytes(Path(where), MOST_BYTES)
        found = hashlib.sha256(content).hexdigest()
        if sha256 and found != sha256:
            raise InputError(f"{where}: has SHA-256 {found}, not {sha256}.")
    _check_version(archive_of(content, Path(where)))
    target = fetched_archive()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
    except OSError as error:
        raise not_written(target, error) from error
    return target


def make_track(
    track: str,
    methods: Sequence[str],
    folder: Path,
    jobs: int | None,
    progress: Callable[[float, float], None] | None,
    notify: Notify,
    before: Archive | None = None,
) -> None:
    """Run the given methods that fit a track, or all known methods that do, into a results folder.

    They run one after the other, in the given order, so that a stopped run has complete methods. Methods that
    the archive `before` has in this track are left out.
    """
    suite = load_suite(track_of(NAME, track))
    if before and track in before.manifests:
        check_same_suite(before, track, suite, SEED)
    there = before.methods(track) if before else {}
    fitting = every_method(suite, lambda text: None if methods else notify(text))
    check_known("method", methods, KNOWN)
    chosen = [name for name in methods or fitting if name in fitting and name not in there]
    for i, name in enumerate(chosen):
        shown = None if progress is None else _part_of(progress, i, len(chosen))
        run(suite, methods=[name], out=folder, jobs=jobs, progress=shown, notify=notify)


def _part_of(progress: Callable[[float, float], None], i: int, n: int) -> Callable[[float, float], None]:
    """Progress of the i-th of n runs as progress of all runs."""
    return lambda done, total: progress(i + (done / total if total else 1.0), n)
