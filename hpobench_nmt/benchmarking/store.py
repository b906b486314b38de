"""Results on disk. A run that was killed goes on where it was and ends in the same files.

    DIR/manifest.json                     settings, seed, versions, hashes of tables and methods
    DIR/observations/TABLE/METHOD.parquet table, method, trial, step, row, loss_1.., failed, failure
                                          (losses are minimised: a metric to maximise is negated)
    DIR/timings/TABLE/METHOD.csv          seconds a block of trials: the only thing that differs between runs
    DIR/unfinished/                       blocks of trials of methods that are not through yet

Every file is written under another name and renamed, so that it is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.instance import Instance, make_instance
from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.benchmarking.trials import Block, plan
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.lookup.catalogue import load_table

_FORMAT = 1
_ANEW = "Run it again into another folder."
_LIBRARIES = ("hpobench-nmt", "numpy", "scipy", "george", "numba", "pymoo", "pandas", "pyarrow")


class ResultsFolder:
    """A results folder that a run writes to.

    Args:
        folder: made if it does not exist; a folder of another suite, seed or table version is refused.
        suite, instances, methods, seed: the run. Tables and methods may be added to a folder.
        table_sources: where each table was loaded from, if not by its name.
        notify: told what a user should know.
    """

    def __init__(
        self,
        folder: Path,
        suite: Suite,
        instances: Mapping[str, Instance],
        methods: Sequence[NamedMethod],
        seed: int,
        table_sources: Mapping[str, str] | None = None,
        notify: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._folder = folder
        self._suite = suite
        self._instances = dict(instances)
        self._methods = list(methods)
        self._seed = seed
        self._sources = dict(table_sources or {})
        self._notify = notify
        self.finished: dict[tuple[str, str, int], list[Trajectory]] = {}

    def open(self) -> None:
        """Check what is there, write the manifest, and read the blocks that are finished already."""
        new = _manifest(self._suite, self._instances, self._methods, self._seed, self._sources)
        path = self._folder / "manifest.json"
        if self._folder.exists() and not self._folder.is_dir():
            raise InputError(f"{self._folder}: is a file, not a folder. Choose another with --out.")
        if path.exists():
            old = _read_manifest(self._folder)
            _refuse_other_run(self._folder, old, new)
            stale = [
                m.name
                for m in self._methods
                if m.name in old["methods"] and old["methods"][m.name]["fingerprint"] != m.fingerprint
            ]
            for name in stale:
                self._notify(f"method {name!r} has changed since {self._folder} was written: it runs again.")
                self._forget(name, old["tables"])
            for key in ("tables", "methods"):
                new[key] = old[key] | new[key]
        elif self._folder.exists() and any(self._folder.iterdir()):
            raise InputError(
                f"{self._folder}: not empty and not a results folder. Choose another with --out."
            )
        self._write(path, (json.dumps(new, indent=1) + "\n").encode())
        self._read_finished()

    def keep(self, block: Block, trials: Sequence[Trajectory], seconds: float) -> None:
        """Write a finished block; the last of a table and method also writes their one file."""
        self.finished[block.key] = list(trials)
        table, method = block.table, block.method.name
        self._write(self._part(block.key), _parquet(table, method, block.first, trials))
        timing = self._folder / "timings" / table / f"{method}.csv"
        lines = timing.read_text() if timing.exists() else "first_trial,trials,seconds\n"
        self._write(timing, f"{lines}{block.first},{len(trials)},{seconds:.6f}\n".encode())
        self.merge(table, method)

    def merge(self, table: str, method: str) -> None:
        """Join the blocks of a table and method once all are there."""
        keys = sorted(key for key in self.finished if key[:2] == (table, method))
        trials = [t for key in keys for t in self.finished[key]]
        if len(trials) == self._suite.trials:
            self._write(_observations(self._folder, table, method), _parquet(table, method, 0, trials))
            for key in keys:
                self._part(key).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove what only an unfinished run needs, but nothing of another run's methods."""
        for table in self._instances:
            for method in self._methods:
                shutil.rmtree(self._folder / "unfinished" / table / method.name, ignore_errors=True)
        for folder in [*self._folder.glob("unfinished/*"), self._folder / "unfinished"]:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _part(self, key: tuple[str, str, int]) -> Path:
        table, method, first = key
        return self._folder / "unfinished" / table / method / f"{first:06d}.parquet"

    def _forget(self, method: str, tables: Iterable[str]) -> None:
        for table in tables:
            _observations(self._folder, table, method).unlink(missing_ok=True)
            shutil.rmtree(self._folder / "unfinished" / table / method, ignore_errors=True)

    def _read_finished(self) -> None:
        blocks = plan(self._suite, self._instances, self._methods, self._seed)
        whole: dict[tuple[str, str], list[Trajectory]] = {}
        for block in blocks:
            table, method = block.table, block.method.name
            path, of = _observations(self._folder, table, method), (table, method, self._instances[table])
            if path.exists():
                if (table, method) not in whole:
                    whole[table, method] = _read_trials(path, self._suite.trials, *of)
                self.finished[block.key] = whole[table, method][block.first : block.stop]
            elif (part := self._part(block.key)).exists():
                self.finished[block.key] = _read_trials(part, block.stop - block.first, *of)
        for table, method in {(b.table, b.method.name) for b in blocks} - set(whole):
            self.merge(table, method)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content)
        except OSError as error:
            raise RunError(
                f"{path}: cannot be written: {error.strerror}. What was finished before is kept; "
                "run the same command again to go on."
            ) from error


def load_results(folder: Path, methods: Sequence[NamedMethod] = ()) -> Results:
    """Read a results folder; its tables must be installed in the version that it was made with.

    Methods that are not through yet are left out.

    Args:
        folder: results folder.
        methods: from resolve_methods, where methods of your own are to be analysed by their surrogates. A
            folder is never trusted to name code that is run. Those that the run lacks are ignored.

    Raises:
        InputError: no results there, or damaged ones; a table or a method is not installed or has changed
            since.
    """
    manifest = _read_manifest(folder)
    sources = {m.name: m for m in methods if m.name in manifest["methods"]}
    for name, method in sources.items():
        if manifest["methods"][name]["fingerprint"] != method.fingerprint:
            raise InputError(f"{folder}: was made with another version of method {name!r}. Run it again.")
    stored: dict[str, Any] = manifest["suite"]
    settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    try:
        suite = Suite(**settings, tables=tuple(manifest["tables"]), methods=tuple(manifest["methods"]))
    except TypeError:
        raise InputError(f"{folder / 'manifest.json'}: is damaged. {_ANEW}") from None
    instances = {}
    trials = {}
    for name, entry in manifest["tables"].items():
        table = load_table(Path(entry["source"]) if entry.get("source") else name)
        if table.sha256 != entry["sha256"]:
            raise InputError(
                f"{folder}: was made with another version of table {name!r} (hash {entry['sha256'][:12]}…, "
                f"installed {table.sha256[:12]}…)."
            )
        instances[name] = make_instance(suite, table)
        if any(entry[key] != value for key, value in _asked(instances[name]).items()):
            raise InputError(
                f"{folder}: was made with other objectives or tolerances of table {name!r} than "
                f"its datasheet has now. {_ANEW}"
            )
        for method in manifest["methods"]:
            path = _observations(folder, name, method)
            if path.exists():
                trials[name, method] = _read_trials(path, suite.trials, name, method, instances[name])
    if not trials:
        raise InputError(f"{folder}: nothing is finished yet. Run the same command again to go on.")
    return Results(suite, manifest["seed"], instances, tuple(manifest["methods"]), trials, sources)


def unfinished(results: Results) -> list[tuple[str, str]]:
    """(table, method) that a results folder still lacks."""
    wanted = [(table, method) for table in results.instances for method in results.methods]
    return [pair for pair in wanted if pair not in results.trials]


def _observations(folder: Path, table: str, method: str) -> Path:
    return folder / "observations" / table / f"{method}.parquet"


def _manifest(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    seed: int,
    sources: Mapping[str, str],
) -> dict[str, Any]:
    tables = {}
    for name, instance in instances.items():
        tables[name] = {
            "sha256": instance.table.sha256,
            "rows": len(instance.table),
            **_asked(instance),
        }
        if name in sources:
            tables[name]["source"] = sources[name]
    return {
        "format": _FORMAT,
        "suite": suite.settings(),
        "seed": seed,
        "tables": tables,
        "methods": {m.name: {"spec": m.spec, "fingerprint": m.fingerprint} for m in methods},
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def _asked(instance: Instance) -> dict[str, Any]:
    """What the scores asked of a table, beside the suite's settings: some of it comes from its datasheet."""
    return {
        "objectives": [str(o) for o in instance.objectives],
        "targets": {goal.name: int(goal.targets.sum()) for goal in instance.goals},
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    if not path.is_file():
        raise InputError(f"{folder}: has no manifest.json, so it is not a results folder.")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        whole = {"format", "suite", "seed", "tables", "methods", "versions"} <= set(manifest)
        whole = whole and manifest["format"] == _FORMAT and "name" in manifest["suite"]
        whole = whole and isinstance(manifest["versions"], dict)
        for key, parts in (("tables", {"sha256", "objectives", "targets"}), ("methods", {"fingerprint"})):
            whole = whole and all(parts <= set(entry) for entry in manifest[key].values())
    except (ValueError, TypeError, AttributeError):
        raise InputError(f"{path}: is damaged. {_ANEW}") from None
    if not whole:
        raise InputError(f"{path}: is not of this version. {_ANEW}")
    return dict(manifest)


def _refuse_other_run(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    def differ(what: str, was: object, now: object) -> InputError:
        return InputError(
            f"{folder}: holds a run with {what} {was}, this one has {now}. Choose another with --out."
        )

    if old["suite"]["name"] != new["suite"]["name"]:
        raise differ("suite", repr(old["suite"]["name"]), repr(new["suite"]["name"]))
    if old["seed"] != new["seed"]:
        raise differ("seed", old["seed"], new["seed"])
    for key, now in new["suite"].items():
        if old["suite"].get(key) != now:
            raise differ(key, old["suite"].get(key), now)
    for library, now in new["versions"].items():
        if old["versions"].get(library) != now:
            raise differ(library, old["versions"].get(library), now)
    for name, entry in new["tables"].items():
        before = old["tables"].get(name, entry)
        if before["sha256"] != entry["sha256"]:
            raise differ(f"table {name!r} of hash", before["sha256"][:12], entry["sha256"][:12])
        for key in ("objectives", "targets"):
            if before[key] != entry[key]:
                raise differ(f"{key} on {name!r}", before[key], entry[key])


def _parquet(table: str, method: str, first: int, trials: Sequence[Trajectory]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lengths = [len(t.rows) for t in trials]
    total = sum(lengths)

    def repeated(value: str) -> Any:
        return pa.DictionaryArray.from_arrays(np.zeros(total, np.int32), pa.array([value], pa.string()))

    reasons, codes = np.unique([t.failure for t in trials], return_inverse=True)
    losses = np.vstack([t.losses for t in trials])
    columns: dict[str, Any] = {
        "table": repeated(table),
        "method": repeated(method),
        "trial": np.repeat(np.arange(first, first + len(trials), dtype=np.int32), lengths),
        "step": np.concatenate([np.arange(1, n + 1, dtype=np.int32) for n in lengths]),
        "row": np.concatenate([t.rows for t in trials]).astype(np.int32),
        **{f"loss_{j + 1}": losses[:, j] for j in range(losses.shape[1])},
        "failed": np.repeat([bool(t.failure) for t in trials], lengths),
        "failure": pa.DictionaryArray.from_arrays(
            np.repeat(codes, lengths).astype(np.int32), pa.array(reasons.tolist(), pa.string())
        ),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_trials(path: Path, expected: int, table: str, method: str, instance: Instance) -> list[Trajectory]:
    """The trials in a file, which must be of this method on this table, and agree with its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = pq.read_table(path)
        trial = content.column("trial").to_numpy()
        row = content.column("row").to_numpy().astype(np.int64)
        names = [n for n in content.column_names if n.startswith("loss_")]
        losses = np.column_stack([content.column(n).to_numpy() for n in names])
        failure = np.asarray(content.column("failure").cast(pa.string()).to_pylist(), dtype=object)
        held = [content.column(key).unique().to_pylist() for key in ("table", "method")]
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise InputError(f"{path}: is damaged ({type(error).__name__}). Delete it and run again.") from None
    if held != [[table], [method]] and len(row):
        raise InputError(
            f"{path}: holds look-ups of {held[1]} on {held[0]}, not of {method} on {table}. Delete it and "
            "run again."
        )
    known = (row >= 0) & (row < len(instance.losses))
    if not known.all() or not np.array_equal(losses, instance.losses[row], equal_nan=True):
        raise InputError(
            f"{path}: its look-ups are not those of table {table!r} with these objectives. Delete it and run "
            "again."
        )
    starts = (
        np.flatnonzero(np.concatenate([[True], trial[1:] != trial[:-1]])) if len(trial) else np.empty(0, int)
    )
    if len(starts) != expected:
        raise InputError(f"{path}: has {len(starts)} trials instead of {expected}. Delete it and run again.")
    ends = np.append(starts[1:], len(trial))
    return [Trajectory(row[a:b], losses[a:b], str(failure[a])) for a, b in zip(starts, ends, strict=True)]
