"""The files of a results folder, each written completely or not at all. `store` describes the format."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

import msgspec

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.records.manifest import Manifest, check_same_run, read_manifest
from hpobench_nmt.benchmarking.records.observations import (
    MAX_OBSERVATIONS,
    NO_HASH,
    read_trials,
    to_parquet,
    wrong_file,
)
from hpobench_nmt.benchmarking.running.trials import Block, Took, seconds_a_step
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.system.errors import InputError, Notify, RunError, not_written
from hpobench_nmt.core.system.files import locked_folder, read_bytes, write_whole
from hpobench_nmt.core.system.folders import remove_folder, remove_leftovers
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.core.trajectory import Trials

# A line for each block of trials.
_MOST_TIMINGS = 2**24
_TIMINGS = ("first_trial", "trials", "seconds", "own_seconds", "steps")

Key = tuple[str, str, int]
"""Table, method and first trial of a block."""


@dataclass(frozen=True)
class ResultsFolder:
    """The files of a run. The object holds only the path; the state of a run is in its files."""

    path: Path

    @classmethod
    def of(cls, given: object, name: str) -> ResultsFolder:
        """The folder that a user gave as the argument `name`; InputError if no folder can have this path."""
        shown = brief(given)
        if not isinstance(given, str | os.PathLike):
            raise InputError(f"{name} must be the path of a results folder, not {shown}.")
        path = Path(given)
        try:
            usable = bool(os.fspath(given)) and b"\0" not in os.fsencode(path)
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise InputError(f"{name}: {shown} cannot be the path of a results folder.")
        return cls(path)

    @contextlib.contextmanager
    def writing(self, notify: Notify = lambda message: None) -> Iterator[None]:
        """Wait until no other run writes into the folder; `notify` is called before a wait."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # `start` reports others
            if error.errno == errno.ENAMETOOLONG:
                raise not_written(self.path, error) from error
        told = f"another run writes into {self.path}: waiting until it has ended."
        with locked_folder(self.path, lambda: notify(told)):
            yield

    def start(self, manifest: Manifest, notify: Notify = lambda message: None) -> None:
        """Prepare the folder for a new run, or for resuming the same run.

        Results of methods that have changed are removed, which `notify` reports. Tables and methods that are
        already in the folder stay in its manifest.

        Raises:
            InputError: the path has other files or another run.
            RunError: the folder cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, not a folder. Choose another with --out.")
        if (self.path / "manifest.json").exists():
            old = read_manifest(self.path)
            check_same_run(self.path, old, manifest)
            hashes = self._hashes(old)
            both = msgspec.structs.replace(manifest, observations=hashes).with_hashes(manifest.observations)
            for pair in product(manifest.tables, manifest.methods):
                _text(self._timings(*pair))  # an unusable file is refused before anything changes
                if both.sha256_of(*pair) == "" and (path := self.observations(*pair)).exists():
                    raise wrong_file(path, NO_HASH)
            before = {name: old.entry(name) for name in old.methods}
            changed = []
            for name, entry in manifest.methods.items():
                was = before.get(name, entry)
                if not was.same_rows(entry):
                    why = f"or its libraries may have changed since {self.path} was written"
                    if was.not_covered:
                        why = f"read {was.not_covered} in its trials, which may have changed since"
                    notify(f"method {name!r} {why}: it runs again.")
                    changed.append(name)
            self._remove([*product(old.tables, changed)])
            tables, methods = old.tables | manifest.tables, before | manifest.methods
            manifest = msgspec.structs.replace(both, tables=tables, methods=methods)
        elif self._has_other_files():
            raise InputError(f"{self.path}: not empty and not a results folder. Choose another with --out.")
        self._write(self._inside("manifest.json"), manifest.to_json())

    def mark(self, name: str, entry: MethodEntry) -> None:
        """Replace only a method's entry in the manifest."""
        old = read_manifest(self.path)
        new = msgspec.structs.replace(old, methods=old.methods | {name: entry})
        self._write(self._inside("manifest.json"), new.to_json())

    def _hashes(self, manifest: Manifest) -> dict[str, dict[str, str]]:
        """The hashes of a manifest; if its format lacks them, those of the files as they are now."""
        if manifest.hashed:
            return manifest.observations
        pairs = [(table, method) for table in manifest.tables for method in manifest.methods]
        for pair in pairs:
            if (path := self.observations(*pair)).exists():
                content = read_bytes(path, MAX_OBSERVATIONS)
                manifest = manifest.with_hash(*pair, hashlib.sha256(content).hexdigest())
        return manifest.observations

    def _keep(self, table: str, method: str, trials: Trials) -> str:
        """Write the file of all trials of a method on a table, after writing its hash into the manifest.

        A run that is killed in between has no file, and writes it when it resumes. Returns the hash.
        """
        path = self.observations(table, method)
        manifest = read_manifest(self.path)
        content = to_parquet(table, method, 0, trials, objectives=manifest.tables[table].objectives)
        digest = hashlib.sha256(content).hexdigest()
        manifest = manifest.with_hash(table, method, digest)
        self._write(self._inside("manifest.json"), manifest.to_json())
        self._write(path, content)
        return digest

    def _has_other_files(self) -> bool:
        if not self.path.exists():
            return False
        remove_leftovers(self.path)  # of a run that was killed before it had a manifest
        return any(self.path.iterdir())

    def finished(self, blocks: Sequence[Block], instances: Mapping[str, Instance]) -> dict[Key, Trials]:
        """The trials of finished blocks; InputError if a file is damaged or belongs to another run."""
        done: dict[Key, Trials] = {}
        manifest = read_manifest(self.path)
        for (table, method), group in groupby(blocks, key=lambda block: (block.table, block.method.name)):
            own = list(group)
            path = self.observations(table, method)
            if path.exists():
                sha256 = manifest.sha256_of(table, method)
                whole = read_trials(path, 0, own[-1].stop, method, instances[table], sha256)
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
        """Write a finished block of trials, and the time that it took."""
        self._write(self._part(block.key), to_parquet(*block.key, trials, checksums=True))
        self._note(*block.key, len(trials), took)

    def keep_all(self, table: str, method: str, trials: Trials, took: Took) -> None:
        """Write all trials of a method on a table, and the time that they took."""
        self._keep(table, method, trials)
        self._note(table, method, 0, len(trials), took)

    def _note(self, table: str, method: str, first: int, n_trials: int, took: Took) -> None:
        timing = self._timings(table, method)
        lines = _text(timing) or ",".join(_TIMINGS) + "\n"
        line = f"{first},{n_trials},{took.seconds:.6f},{took.own_seconds:.6f},{took.steps}\n"
        self._write(timing, (lines + line).encode())

    def step_seconds(self, table: str, method: str) -> float:
        """Processor time per step of a method on a table; NaN if the file does not have it."""
        path = self._timings(table, method)
        blocks: dict[str, Took] = {}  # if a block was run again, its last line counts
        for line in _text(path).splitlines():
            cells = line.split(",")
            if len(cells) == len(_TIMINGS) and cells[-1].isascii() and cells[-1].isdecimal():
                with contextlib.suppress(ValueError):
                    blocks[cells[0]] = Took(float(cells[2]), float(cells[3]), int(cells[4][:18]))
        return seconds_a_step(blocks.values())

    def merge(self, blocks: Sequence[Block], done: Mapping[Key, Trials]) -> str:
        """Join all blocks of a table and method into one file, if all of them are finished.

        Returns the hash of the file; empty if it does not exist yet.
        """
        if not all(block.key in done for block in blocks):
            return ""
        table, method = blocks[0].table, blocks[0].method.name
        self._timings(table, method)  # a link that leads out is refused before anything changes
        digest = self._keep(table, method, Trials.joined([done[block.key] for block in blocks]))
        for block in blocks:
            _unlink(self._part(block.key))
        return digest

    def close(self, blocks: Iterable[Block]) -> None:
        """Remove what only an unfinished run needs, except for methods that are not in these blocks."""
        for table, method in dict.fromkeys((block.table, block.method.name) for block in blocks):
            remove_folder(self._inside("unfinished", table, method))
        unfinished = self._inside("unfinished")
        for folder in [*unfinished.glob("*"), unfinished]:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def observations(self, table: str, method: str) -> Path:
        """The file of a method on a table."""
        return self._inside("observations", table, f"{method}.parquet")

    def transcripts(self, table: str, method: NamedMethod) -> Path | None:
        """The folder of a program's transcripts on a table, one file per trial; None for other methods."""
        return self._inside("transcripts", table, method.name) if method.is_program else None

    def _timings(self, table: str, method: str) -> Path:
        return self._inside("timings", table, f"{method}.csv")

    def _part(self, key: Key) -> Path:
        return self._inside("unfinished", *key[:2], f"{key[2]:06d}.parquet")

    def _inside(self, *parts: str) -> Path:
        """A path in the folder; InputError if a symbolic link leads out of the folder."""
        path = self.path.joinpath(*parts)
        # Not Path.resolve, which raises for circular links; reading or writing there fails anyway.
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path)):
            raise InputError(f"{path}: leads out of the results folder through a symbolic link. Remove it.")
        return path

    def _remove(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Remove all of these tables and methods; InputError, and nothing is removed, if a link leads out."""
        files = [find(*pair) for pair in pairs for find in (self.observations, self._timings)]
        folders = [self._inside(kind, *pair) for pair in pairs for kind in ("unfinished", "transcripts")]
        for path in files:
            _unlink(path)
        for folder in folders:
            remove_folder(folder)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content)
        except OSError as error:
            then = "Finished work is kept; run the same command again to resume."
            raise not_written(path, error, then) from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be removed: {error.strerror}.") from error


def _text(path: Path) -> str:
    """The text of a file of timings; "" if it does not exist."""
    return read_bytes(path, _MOST_TIMINGS).decode(errors="replace") if path.exists() else ""
