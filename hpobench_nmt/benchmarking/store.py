"""Results on disk, format 1 or 2. A run that was killed goes on where it was and ends in the same files.

    DIR/manifest.json                      format, suite settings, seed, versions, tables and methods by hash
    DIR/observations/TABLE/METHOD.parquet  all look-ups of a method on a table, once all its trials are done
    DIR/timings/TABLE/METHOD.csv           first_trial, trials, seconds, own_seconds, steps, by block;
                                           own_seconds is processor time without loading the method. These are
                                           the only files that differ between two runs of the same command
    DIR/unfinished/TABLE/METHOD/N.parquet  blocks of trials, from trial N, of methods that are not done yet

The columns of the Parquet files are in `hpobench_nmt.benchmarking.observations`, the keys of the manifest in
`hpobench_nmt.benchmarking.manifest`. Every file is written under another name and renamed, so that it is
there whole or not at all.

Compatibility: `format` in the manifest is the number of the format: 1, or 2 for suites on a clock, whose
files have columns for the times besides, and for suites with sources. It changes when a reader of the old
format would misread or refuse the new files. A version of hpobench-nmt reads its own format and all before
it; a folder of a newer format is refused with the advice to update. A run goes on only in a folder of the
same suite, seed, tables and library versions, so that a folder never mixes two computations.

Safety: a results folder may come from somebody else. Everything in it is checked before it is used. Names
that paths are made of must be plain file names, nothing is read, written or removed outside the folder, also
where a part of a path is a symbolic link, and the tables' losses must be those that the files hold.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from hpobench_nmt.benchmarking.instance import Instance, make_instance
from hpobench_nmt.benchmarking.manifest import ANEW, Manifest, TableEntry, check_same_run, read_manifest
from hpobench_nmt.benchmarking.observations import read_trials, to_parquet
from hpobench_nmt.benchmarking.plugins import NamedMethod, varied_built_in
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.trials import Block, Took, seconds_a_step
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.files import remove_leftovers, write_whole
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table

_TIMINGS = ("first_trial", "trials", "seconds", "own_seconds", "steps")

Key = tuple[str, str, int]
"""Table, method and first trial of a block."""


@dataclass(frozen=True)
class ResultsFolder:
    """The files of a run. It holds nothing but the path; the state of a run is in its files."""

    path: Path

    def start(self, manifest: Manifest, notify: Callable[[str], None] = lambda message: None) -> None:
        """Make the folder ready for a run: new, or going on with the same run.

        Results of methods that have changed are removed. Tables and methods that are in the folder already
        stay in its manifest.

        Args:
            manifest: of the run.
            notify: told what a user should know.

        Raises:
            InputError: there is something else, or another run.
            RunError: it cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, not a folder. Choose another with --out.")
        if (self.path / "manifest.json").exists():
            old = read_manifest(self.path)
            check_same_run(self.path, old, manifest)
            for name, entry in manifest.methods.items():
                if name in old.methods and old.methods[name].fingerprint != entry.fingerprint:
                    notify(f"method {name!r} has changed since {self.path} was written: it runs again.")
                    for table in old.tables:
                        self._remove(table, name)
            manifest = Manifest(
                format=manifest.format,
                suite=manifest.suite,
                seed=manifest.seed,
                tables=old.tables | manifest.tables,
                methods=old.methods | manifest.methods,
                versions=manifest.versions,
            )
        elif self._has_other_files():
            raise InputError(f"{self.path}: not empty and not a results folder. Choose another with --out.")
        self._write(self._inside("manifest.json"), manifest.to_json())

    def _has_other_files(self) -> bool:
        if not self.path.exists():
            return False
        remove_leftovers(self.path)  # of a run that was killed before its manifest was there
        return any(self.path.iterdir())

    def finished(self, blocks: Sequence[Block], instances: Mapping[str, Instance]) -> dict[Key, Trials]:
        """The trials of the blocks that are done, read from the files.

        Raises:
            InputError: a file is damaged, or is not of this run.
        """
        done: dict[Key, Trials] = {}
        for (table, method), group in groupby(blocks, key=lambda block: (block.table, block.method.name)):
            own = list(group)
            path = self.observations(table, method)
            if path.exists():
                whole = read_trials(path, 0, own[-1].stop, method, instances[table])
                done |= {block.key: whole.part(block.first, block.stop) for block in own}
                continue
            for block in own:
                part = self._part(block.key)
                if part.exists():
                    size = block.stop - block.first
                    done[block.key] = read_trials(part, block.first, size, method, instances[table])
            self.merge(own, done)
        return done

    def keep(self, block: Block, trials: Trials, took: Took) -> None:
        """Write a block of trials that is done, and what it took."""
        table, method = block.table, block.method.name
        content = to_parquet(table, method, block.first, trials)
        self._write(self._part(block.key), content)
        timing = self._timings(table, method)
        lines = timing.read_text(errors="replace") if timing.exists() else ",".join(_TIMINGS) + "\n"
        line = f"{block.first},{len(trials)},{took.seconds:.6f},{took.own_seconds:.6f},{took.steps}\n"
        self._write(timing, (lines + line).encode())

    def step_seconds(self, table: str, method: str) -> float:
        """Processor time a step of a method on a table; NaN where the file does not say."""
        path = self._timings(table, method)
        blocks: dict[str, Took] = {}  # of a block that was run again, the last time counts
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
            cells = line.split(",")
            if len(cells) == len(_TIMINGS) and cells[-1].isascii() and cells[-1].isdecimal():
                with contextlib.suppress(ValueError):
                    blocks[cells[0]] = Took(float(cells[2]), float(cells[3]), int(cells[4][:18]))
        return seconds_a_step(blocks.values())

    def merge(self, blocks: Sequence[Block], done: Mapping[Key, Trials]) -> None:
        """Join all blocks of a table and method into their one file, if all of them are done."""
        if not all(block.key in done for block in blocks):
            return
        table, method = blocks[0].table, blocks[0].method.name
        trials = Trials.joined([done[block.key] for block in blocks])
        content = to_parquet(table, method, 0, trials)
        self._write(self.observations(table, method), content)
        for block in blocks:
            _unlink(self._part(block.key))

    def close(self, blocks: Iterable[Block]) -> None:
        """Remove what only an unfinished run needs, but nothing of methods that are not in these blocks."""
        for table, method in dict.fromkeys((block.table, block.method.name) for block in blocks):
            shutil.rmtree(self._inside("unfinished", table, method), ignore_errors=True)
        unfinished = self._inside("unfinished")
        for folder in [*unfinished.glob("*"), unfinished]:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def observations(self, table: str, method: str) -> Path:
        """The file of a method on a table."""
        return self._inside("observations", table, f"{method}.parquet")

    def _timings(self, table: str, method: str) -> Path:
        return self._inside("timings", table, f"{method}.csv")

    def _part(self, key: Key) -> Path:
        table, method, first = key
        return self._inside("unfinished", table, method, f"{first:06d}.parquet")

    def _inside(self, *parts: str) -> Path:
        """A path in the folder that also leads there, whatever symbolic links are on the way."""
        path = self.path.joinpath(*parts)
        # Path.resolve raises for links that lead in a circle; reading or writing there fails anyway.
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path)):
            raise InputError(f"{path}: leads out of the results folder through a symbolic link. Remove it.")
        return path

    def _remove(self, table: str, method: str) -> None:
        _unlink(self.observations(table, method))
        shutil.rmtree(self._inside("unfinished", table, method), ignore_errors=True)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content)
        except OSError as error:
            raise RunError(
                f"{path}: cannot be written: {error.strerror}. What was finished before is kept; "
                "run the same command again to go on."
            ) from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be removed: {error.strerror}.") from error


def load_results(folder: str | Path, methods: Sequence[NamedMethod] = ()) -> Results:
    """Read a results folder; its tables must be installed in the version that it was made with.

    Methods that are not done yet are left out.

    Args:
        folder: results folder.
        methods: from resolve_methods, where methods of your own are to be analysed by their surrogates. A
            folder is never trusted to name code that is run. Methods that the run lacks are ignored.

    Raises:
        InputError: no results there, or damaged ones; a table or a method is not installed or has changed
            since.
    """
    files = ResultsFolder(Path(folder))
    manifest = read_manifest(files.path)
    # Of what a folder names, only methods of the package with other settings are taken as they are named.
    varied = {name: varied_built_in(entry.spec) for name, entry in manifest.methods.items()}
    sources = {
        name: method
        for name, method in varied.items()
        if method is not None
        and (method.name, method.fingerprint) == (name, manifest.methods[name].fingerprint)
    }
    sources |= {m.name: m for m in methods if m.name in manifest.methods}
    for name, source in sources.items():
        if manifest.methods[name].fingerprint != source.fingerprint:
            raise InputError(f"{folder}: was made with another version of method {name!r}. Run it again.")
    suite = manifest.make_suite()
    instances, trials = {}, {}
    for name, entry in manifest.tables.items():
        instances[name] = make_instance(suite, _table(files.path, name, entry))
        now = TableEntry.of(instances[name])
        if now.curves and entry.curves != now.curves:  # where nothing depends on them, they may change
            raise InputError(f"{folder}: was made with other learning curves of table {name!r}. {ANEW}")
        if entry.trainings != now.trainings:
            raise InputError(f"{folder}: was made with other trainings of table {name!r}. {ANEW}")
        if (entry.objectives, entry.targets) != (now.objectives, now.targets):
            raise InputError(
                f"{folder}: was made with other objectives or tolerances of table {name!r} than "
                f"its datasheet has now. {ANEW}"
            )
        for method in manifest.methods:
            path = files.observations(name, method)
            if path.exists():
                trials[name, method] = read_trials(path, 0, suite.trials, method, instances[name])
    if not trials:
        raise InputError(f"{folder}: nothing is finished yet. Run the same command again to go on.")
    step_seconds = {pair: files.step_seconds(*pair) for pair in trials}
    return Results(suite, manifest.seed, instances, tuple(manifest.methods), trials, sources, step_seconds)


def unfinished(results: Results) -> list[tuple[str, str]]:
    """(table, method) that a results folder still lacks."""
    wanted = [(table, method) for table in results.instances for method in results.methods]
    return [pair for pair in wanted if pair not in results.trials]


def _table(folder: Path, name: str, entry: TableEntry) -> Table:
    """The table of a manifest's entry, which must be the one that the run was made with."""
    if entry.source and not _is_table_folder(entry.source):
        raise InputError(f"{folder}: table {name!r} was loaded from {entry.source!r}, where no table is now.")
    table = load_table(Path(entry.source) if entry.source else name)
    if table.name != name:
        raise InputError(f"{folder}: table {name!r} was loaded from a folder with table {table.name!r} now.")
    if table.sha256 != entry.sha256:
        raise InputError(
            f"{folder}: was made with another version of table {name!r} (hash {entry.sha256[:12]}…, "
            f"installed {table.sha256[:12]}…)."
        )
    return table


def _is_table_folder(source: str) -> bool:
    """Whether a source of a manifest is the whole path of a folder that is there."""
    try:
        return Path(source).is_absolute() and Path(source).is_dir()
    except (OSError, ValueError):  # no path can have this name
        return False
