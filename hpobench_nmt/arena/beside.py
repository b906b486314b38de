"""Your own results together with results of an archive, without running the archive's methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from hpobench_nmt.arena.archive import NAME, Archive, check_same_suite, read_archive
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import Manifest
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.suite_files import tracks
from hpobench_nmt.core.system.errors import InputError, Notify, warn
from hpobench_nmt.core.system.text import counted, some_of
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.lookup.user_folders import fetched_folder
from hpobench_nmt.methods import KNOWN

ARCHIVE = "archive"
"""The name of the archive of lm-2026, wherever it is installed."""
_FILE = f"{NAME}.parquet"
# The archive's folder in a clone. A wheel does not have it.
_CLONE = Path(__file__).resolve().parents[2] / ARCHIVE


def fetched_archive() -> Path:
    """Where `archive fetch` puts the archive of lm-2026."""
    return fetched_folder().parent / ARCHIVE / _FILE


def installed_archive() -> Path | None:
    """The path of the archive of lm-2026, fetched or in this clone; None if it is in neither."""
    return next((place for place in (fetched_archive(), _CLONE / _FILE) if place.is_file()), None)


def is_in_clone(archive: Path) -> bool:
    """Whether an archive is the one in this clone."""
    return archive.resolve() == _CLONE / _FILE


def archive_path() -> Path:
    """The path of the archive of lm-2026; InputError if it is not installed."""
    found = installed_archive()
    if found is None:
        raise InputError(
            f"the archive of {NAME} is not installed. It is archive/{_FILE} in a clone of the project: "
            f"'hpobench-nmt archive fetch --from {_FILE}'."
        )
    return found


def load_archive(place: str | Path = ARCHIVE) -> Archive:
    """An archive from a file, or the archive of lm-2026."""
    return read_archive(archive_path() if str(place) == ARCHIVE else Path(place))


def track_of_suite(name: str) -> str:
    """The track of lm-2026 whose suite has this name; InputError for other suites."""
    found = [track for track, suite in tracks(NAME).items() if suite == name]
    if not found:
        raise InputError(
            f"suite {name!r} is not a track of {NAME}, so it cannot be compared with an archive."
        )
    return found[0]


def check_comparable(archive: Archive, suite: Suite, seed: int) -> None:
    """Raise InputError if results of a suite, whatever the methods, cannot be compared with an archive."""
    track = track_of_suite(suite.name)
    check_same_suite(archive, track, suite, seed)
    lengths = [place.stop - place.start for (of, _, _), place in archive.groups.items() if of == track]
    check_trials(str(archive.path), lengths, suite)


def check_trials(place: str, lengths: Iterable[int], suite: Suite) -> None:
    """Raise InputError if a suite has more trials than the results that it is compared with."""
    least = min(lengths, default=suite.trials)
    if least < suite.trials:
        raise InputError(
            f"{place}: has {counted(least, 'trial')} of a method, the run has {suite.trials}: run with "
            f"--trials {least}."
        )


def beside(results: Results, archive: str | Path | Archive = ARCHIVE, notify: Notify = warn) -> Results:
    """The results with the methods of an archive that were run on the same tables, trial by trial.

        mine = hb.run("lm-2026", track="plain", methods=["RS", "mine.py:Mine"])
        hb.report(hb.beside(mine))

    If both have a method, your results are used. Do not save the returned results: a results folder should
    have only trials that were run there.

    Args:
        results: results on a track of lm-2026, with at most as many trials as the archive.
        archive: "archive", or the path of an archive's file.
        notify: called with each message for the user. By default, messages are warnings.

    Raises:
        InputError: the archive is missing, damaged, or belongs to another version of the suite or to other
            tables; or your method has the name of another method in the archive.
    """
    track = track_of_suite(results.suite.name)
    known = archive if isinstance(archive, Archive) else load_archive(archive)
    check_comparable(known, results.suite, results.seed)
    trials: dict[tuple[str, str], Trials] = {}
    partial, stale = [], []
    for method, manifest in known.methods(track).items():
        if method in results.methods:
            _check_own(known, results, method, manifest)
            continue
        found = {}
        for table, instance in results.instances.items():
            entry = manifest.tables.get(table)
            if entry is not None and entry.sha256 != instance.installed.sha256:
                raise InputError(f"{known.path}: was made with another version of table {table!r}.")
            part = known.trials(track, method, instance, results.suite.trials)
            if part is not None:
                found[table] = part
        if len(found) < len(results.instances):
            partial.append(method)
            continue
        stale += [method] if _is_stale(known, track, method) else []
        trials |= {(table, method): part for table, part in found.items()}
    if partial:
        notify(f"Left out, because the archive lacks some of these tables: {some_of(partial)}.")
    if stale:
        notify(f"Results of other versions than the installed one: {some_of(stale)}.")
    return _joined(results, known, track, trials)


def _joined(
    results: Results, archive: Archive, track: str, trials: Mapping[tuple[str, str], Trials]
) -> Results:
    methods = dict.fromkeys(method for _, method in trials)
    seconds = {(table, method): archive.seconds(track, method, table) for table, method in trials}
    manifest = results.manifest
    if manifest is not None:
        entries = {name: archive.identity(track, name) for name in methods}
        manifest = msgspec.structs.replace(manifest, methods={**manifest.methods, **entries}, observations={})
    names = (*results.methods, *methods)
    return replace(
        results,
        suite=msgspec.structs.replace(results.suite, methods=names),
        methods=names,
        trials={**results.trials, **trials},
        step_seconds={**results.step_seconds, **{pair: s for pair, s in seconds.items() if s == s}},
        manifest=manifest,
    )


def _check_own(archive: Archive, results: Results, method: str, manifest: Manifest) -> None:
    """Refuse a user's method that has the name of another method in the archive."""
    own = results.manifest and results.manifest.methods.get(method)
    if method not in KNOWN and own and not own.unmarked.same_rows(manifest.methods[method].unmarked):
        raise InputError(f"{archive.path}: has another method {method!r}: rename yours.")


def _is_stale(archive: Archive, track: str, method: str) -> bool:
    """Whether a method of the package has changed since. Versions of other methods cannot be compared."""
    if method not in KNOWN or KNOWN[method].missing():
        return False
    return not archive.has_rows_of(track, resolve_methods([method])[0])
