"""Results on disk, in formats 1 to 4. A run that was killed resumes and ends with the same files.

    DIR/manifest.json                      format, suite settings, seed, versions, tables and methods by
                                           hash or version
    DIR/observations/TABLE/METHOD.parquet  all look-ups of a method on a table, once all its trials are done
    DIR/timings/TABLE/METHOD.csv           first_trial, trials, seconds, own_seconds, steps, by block;
                                           own_seconds is processor time without loading the method. These are
                                           the only files that differ between two runs of the same command
    DIR/unfinished/TABLE/METHOD/N.parquet  blocks of trials, from trial N, of methods that are not done yet

The module `observations` describes the columns of the Parquet files, and `manifest` the keys of the manifest.
Every file is written completely or not at all: it is written under another name and then renamed.

Hashes: the manifest has its own SHA-256, and the SHA-256 of each file of observations, which is written after
it. Reading checks these hashes. Timings do not have hashes. Unfinished blocks have the checksums of Parquet's
pages.

Compatibility: the format is 4. Version 1.1 wrote format 3, which has hashes of the sources of this package's
methods instead of their versions. Earlier versions wrote format 1, or format 2 for suites on a clock and for
suites with sources. These formats do not have hashes of observations. The format changes if a reader of the
old format would misread or refuse the new files. A version reads its own format and all earlier formats,
refuses newer ones, and advises to update. A run resumes only in a folder of the same suite, seed, tables,
trial version and library versions, so computations are never mixed. The version of this package may differ,
because each method has a rows_version.

Safety: a results folder may come from somebody else. Everything in it is checked before it is used. Names
that become parts of paths must be plain file names. Nothing is read, written or removed outside the folder,
even if a part of a path is a symbolic link. The losses in the files must be those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpobench_nmt.benchmarking.contestants.plugins import MethodSpec, resolve_methods, varied_built_in
from hpobench_nmt.benchmarking.records.manifest import ANEW, Manifest, TableEntry, read_manifest
from hpobench_nmt.benchmarking.records.observations import read_trials
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.core.system.errors import InputError, warn
from hpobench_nmt.core.system.files import is_folder
from hpobench_nmt.lookup.catalogue import installed, load_table
from hpobench_nmt.lookup.table import Table


def load_results(folder: str | Path, methods: Iterable[MethodSpec] = ()) -> Results:
    """Read a results folder, without methods that are not finished yet.

    A table that was removed since is left out, with a warning. The other tables must have the same version as
    in the run.

    Args:
        folder: results folder.
        methods: your own methods whose surrogates you want to analyse: names, "file.py:Class", or classes, as
            given to the run. This is necessary because a folder must not choose the code to run. Methods that
            are not in the run are ignored.

    Raises:
        InputError: the folder has no results, or damaged ones; or a table or a method is missing or has
            changed since.
    """
    files = ResultsFolder.of(folder, "folder")
    manifest = _with_tables(files.path, read_manifest(files.path))
    # Only built-in methods with changed settings are loaded by the specs in the folder.
    varied = {name: varied_built_in(entry.spec) for name, entry in manifest.methods.items()}
    loaded = {
        name: method
        for name, method in varied.items()
        if method is not None and method.name == name and method.entry.same_rows(manifest.entry(name))
    }
    loaded |= {m.name: m for m in resolve_methods(methods) if m.name in manifest.methods}
    for name, given in loaded.items():
        if not given.entry.rows_version and not manifest.versioned:
            package = manifest.versions.get("hpobench-nmt", "?")
            warn(
                f"{folder}: version {package} identified methods in another way, so it is not known whether "
                f"{name!r} has changed since."
            )
        elif not given.entry.same_rows(manifest.entry(name).unmarked):
            raise InputError(f"{folder}: was made with another version of method {name!r}. Run it again.")
    suite = manifest.make_suite()
    instances, trials = {}, {}
    for name, entry in manifest.tables.items():
        instances[name] = make_instance(suite, _table(files.path, name, entry))
        now = TableEntry.of(instances[name])
        if now.curves and entry.curves != now.curves:  # if nothing depends on them, they may change
            raise InputError(
                f"{folder}: the learning curves of table {name!r} have changed since this run. {ANEW}"
            )
        if entry.trainings != now.trainings:
            raise InputError(f"{folder}: the trainings of table {name!r} have changed since this run. {ANEW}")
        if (entry.objectives, entry.targets) != (now.objectives, now.targets):
            raise InputError(
                f"{folder}: was made with other objectives or tolerances of table {name!r} than "
                f"its datasheet has now. {ANEW}"
            )
        for method in manifest.methods:
            path = files.observations(name, method)
            if path.exists():
                sha256 = manifest.sha256_of(name, method)
                trials[name, method] = read_trials(path, 0, suite.trials, method, instances[name], sha256)
    if not trials:
        raise InputError(f"{folder}: nothing is finished yet. Run the same command again to resume.")
    step_seconds = {pair: files.step_seconds(*pair) for pair in trials}
    names = tuple(manifest.methods)
    return Results(suite, manifest.seed, instances, names, trials, loaded, step_seconds, manifest)


def unfinished(results: Results) -> list[tuple[str, str]]:
    """Pairs (table, method) that a results folder still lacks."""
    wanted = [(table, method) for table in results.instances for method in results.methods]
    return [pair for pair in wanted if pair not in results.trials]


def _with_tables(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest without the tables that are not there now, of which there is a warning."""
    there = {
        name: entry
        for name, entry in manifest.tables.items()
        if (_is_table_folder(entry.source) if entry.source else name in installed())
    }
    if gone := sorted(manifest.tables.keys() - there.keys()):
        if not there:  # the error names the nearest table, or the folder
            _table(folder, gone[0], manifest.tables[gone[0]])
        are = "is" if len(gone) == 1 else "are"
        warn(f"{folder}: left out {', '.join(gone)}, which {are} not installed now.")
    return msgspec.structs.replace(manifest, tables=there)


def _table(folder: Path, name: str, entry: TableEntry) -> Table:
    """The table of a manifest's entry, which must have the same version as in the run."""
    loaded = f"{folder}: table {name!r} was loaded from"
    if entry.source and not _is_table_folder(entry.source):
        raise InputError(f"{loaded} {entry.source!r}, where there is no table now.")
    table = load_table(Path(entry.source) if entry.source else name)
    if table.name != name:
        raise InputError(f"{loaded} a folder that now has table {table.name!r}.")
    if table.sha256 != entry.sha256:
        raise InputError(
            f"{folder}: was made with another version of table {name!r} (hash {entry.sha256[:12]}…, "
            f"installed {table.sha256[:12]}…)."
        )
    return table


def _is_table_folder(source: str) -> bool:
    """Whether a source in a manifest is the absolute path of an existing folder."""
    return Path(source).is_absolute() and is_folder(Path(source))
