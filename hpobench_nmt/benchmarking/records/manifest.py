"""The manifest of a results folder: the run's settings, tables and methods, and the libraries' versions."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.transfer import transfer_tables_sha256
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_name, is_folder, no_folder, parse_json, read_bytes
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.core.system.validation import Natural, Strict, checked
from hpobench_nmt.core.trial_loop import TRIAL_VERSION
from hpobench_nmt.methods import KNOWN

FORMAT = 4
"""The newest format; see `hpobench_nmt.benchmarking.records.store`."""

ANEW = "Run it again into another folder."
_HASHED = 3
_VERSIONED = 4
_MOST_SHOWN = 3
_PACKAGE = "hpobench-nmt"
_LIBRARIES = (
    _PACKAGE,
    "numpy",
    "scipy",
    "scikit-learn",
    "george",
    "numba",
    "pymoo",
    "moocore",
    "pandas",
    "pyarrow",
)
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
# For formats without rows_version: the methods of version 1.1 that 1.0 lacks or that look up other rows.
_NEW_IN_1_1 = (
    *("RE", "LS", "TPE", "BO_auto", "CQR", "piBO_M_std", "CTS", "GCP_M"),
    *("MOASHA", "BOHB", "CQR_ASHA", "PriorBand"),
)
_CHANGED_IN_1_1 = {"BO_levels": 2}
# The name of Suite.score_at in files of this format.
_SCORE_AT = "budget"
_OWN_HASH = b',\n "sha256": "%s"\n}\n'


class TableEntry(Strict, frozen=True, kw_only=True):
    """A table of the run, by hash.

    Attributes:
        objectives: as "metric:direction".
        targets: by score, how many rows count. This may depend on the datasheet.
        source: the folder that it was loaded from; empty if it was installed.
        curves: hash of its learning curves, if time depends on them.
        sources: hash of the other tables that methods may learn from.
        trainings: hash of its rows' trainings, if look-ups draw one of them.
    """

    sha256: _Hash
    rows: Natural = 0
    objectives: tuple[str, ...]
    targets: dict[str, Natural]
    source: str = ""
    curves: str = ""
    sources: str = ""
    trainings: str = ""

    @classmethod
    def of(cls, instance: Instance, source: str = "") -> TableEntry:
        """The entry of an instance."""
        return cls(
            sha256=instance.installed.sha256,
            objectives=tuple(str(objective) for objective in instance.objectives),
            targets={goal.name: int(goal.targets.sum()) for goal in instance.goals},
            rows=len(instance.installed),
            source=source,
            curves=instance.curves_sha256,
            sources=transfer_tables_sha256(instance.problem.sources),
            trainings="" if instance.replicates is None else instance.replicates.sha256,
        )


class Manifest(Strict, frozen=True):
    """The content of manifest.json. Tables and methods are here by name, not in the suite.

    From format 3 on, it has the hash of each file of observations, by table and method, and ends with the
    hash of its own bytes. From format 4 on, versions identify the trial loop and the methods of this package.
    """

    format: int
    suite: Suite
    seed: Natural
    tables: dict[str, TableEntry]
    methods: dict[str, MethodEntry]
    versions: dict[str, str]
    trial_version: Natural = 1
    observations: dict[str, dict[str, _Hash]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that are not file names, because paths are made of them."""
        for kind, names in (("table", self.tables), ("method", self.methods)):
            for name in names:
                check_name(kind, name)
            if len({name.casefold() for name in names}) < len(names):
                raise InputError(f"two {kind}s differ in upper and lower case only.")
        if not self.tables or not self.methods:
            raise InputError("there is no table or no method.")
        self.make_suite()

    def make_suite(self) -> Suite:
        """The suite of the run."""
        return msgspec.structs.replace(self.suite, tables=tuple(self.tables), methods=tuple(self.methods))

    def sha256_of(self, table: str, method: str) -> str | None:
        """The hash of a file of observations; "" if it is missing, None in a format without hashes."""
        return self.observations.get(table, {}).get(method, "") if self.hashed else None

    @property
    def hashed(self) -> bool:
        """Whether files of observations have hashes."""
        return self.format >= _HASHED

    @property
    def versioned(self) -> bool:
        """Whether versions identify the methods of this package."""
        return self.format >= _VERSIONED

    def entry(self, name: str) -> MethodEntry:
        """The entry of a method, with versions in place of a hash of this package's sources.

        The rows_version is 0, which no method has, if the version that wrote the manifest is unknown.
        """
        entry, base = self.methods[name], name.partition("+")[0]  # settings follow a plus sign
        if self.versioned or base not in KNOWN:
            return entry
        package = self.versions.get(_PACKAGE, "")
        rows_version = 0
        if package.startswith("1.1."):
            rows_version = _CHANGED_IN_1_1.get(base, 1)
        elif package.startswith("1.0.") and base not in _NEW_IN_1_1:
            rows_version = 1
        libraries = {lib: self.versions[lib] for lib in KNOWN[base].libraries if lib in self.versions}
        return MethodEntry(spec=entry.spec, rows_version=rows_version, libraries=libraries)

    def with_hashes(self, hashes: Mapping[str, dict[str, str]]) -> Manifest:
        """The manifest with the hashes of more files of observations, by table and method."""
        every = {table: self.observations.get(table, {}) | of_table for table, of_table in hashes.items()}
        return msgspec.structs.replace(self, observations=self.observations | every)

    def with_hash(self, table: str, method: str, sha256: str) -> Manifest:
        """The manifest with the hash of another file of observations."""
        return self.with_hashes({table: {method: sha256}})

    def to_json(self) -> bytes:
        """The content of the file."""
        content = msgspec.to_builtins(self)
        content["suite"] = {_SCORE_AT if k == "score_at" else k: v for k, v in self.suite.settings().items()}
        for entry in content["tables"].values():
            for key in ("source", "curves", "sources", "trainings"):
                if not entry[key]:
                    del entry[key]
        content["methods"] = {
            name: {key: value for key, value in entry.items() if value or key == "spec"}
            for name, entry in content["methods"].items()
        }
        if not self.versioned:
            del content["trial_version"]
        if self.hashed:  # in an order that does not depend on which block ended first
            content["observations"] = {
                table: {method: of_table[method] for method in self.methods if method in of_table}
                for table in self.tables
                if (of_table := self.observations.get(table))
            }
        else:
            del content["observations"]
        written = json.dumps(content, indent=1).encode() + b"\n"
        return _sealed(written) if self.hashed else written


def manifest_of(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    seed: int,
    table_folders: Mapping[str, str],
) -> Manifest:
    """The manifest of a run, with the folders of tables that are not installed."""
    return Manifest(
        format=FORMAT,
        suite=suite.without_names,
        seed=seed,
        tables={name: TableEntry.of(each, table_folders.get(name, "")) for name, each in instances.items()},
        methods={m.name: m.entry for m in methods},
        versions=_versions(),
        trial_version=TRIAL_VERSION,
    )


def _versions() -> dict[str, str]:
    """The versions of the installed libraries. Some may be missing: not every Python needs george."""
    found = {}
    for library in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a results folder; InputError if it is missing, invalid, or of a newer format."""
    path = folder / "manifest.json"
    if not is_folder(folder):
        raise InputError(f"{folder}: {no_folder(folder)}.{_runs_in(folder.parent)}")
    if not path.is_file():
        raise InputError(f"{folder}: has no manifest.json, so it is not a results folder.{_runs_in(folder)}")
    return manifest_in(read_bytes(path, follow_link=False), path)


def manifest_in(written: bytes, path: Path) -> Manifest:
    """The manifest in the content of a file; raises as read_manifest does."""
    content = parse_json(written, str(path))
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{path}: is damaged: it has no format number. {ANEW}")
    if number > FORMAT:
        raise InputError(f"{path}: has format {number}, newer than this version reads: update hpobench-nmt.")
    if number >= _HASHED and "sha256" in content:
        if _sealed(written) != written:
            raise InputError(f"{path}: was changed: it does not have the SHA-256 at its end. {ANEW}")
        del content["sha256"]
    settings = content.get("suite")
    if isinstance(settings, dict) and _SCORE_AT in settings:
        content["suite"] = {"score_at" if k == _SCORE_AT else k: v for k, v in settings.items()}
    try:
        return checked(content, Manifest, str(path))
    except InputError as error:
        raise InputError(f"{error} {ANEW}") from None


def _sealed(written: bytes) -> bytes:
    """The content with the hash of all that precedes as its last key, which replaces an older hash."""
    end = len(_OWN_HASH % (b"0" * 64))
    at = len(written) - (end if written[-end:].startswith(_OWN_HASH[:13]) else len(b"\n}\n"))
    return written[:at] + _OWN_HASH % hashlib.sha256(written[:at]).hexdigest().encode()


def _runs_in(folder: Path) -> str:
    """A sentence that names results folders in a folder, for an error message; empty without any."""
    try:
        found = sorted(str(path.parent) for path in folder.glob("*/manifest.json"))
    except OSError:  # it cannot be read, or no folder can have this name
        found = []
    if not found:
        return ""
    shown = ", ".join(map(printable, found[:_MOST_SHOWN]))
    return f" There is {shown}{' and others' if len(found) > _MOST_SHOWN else ''}."


def check_same_run(folder: Path, old: Manifest, new: Manifest) -> None:
    """Raise InputError if two runs differ in suite, seed, libraries or tables, and cannot share a folder.

    Tables and methods may be added, and the file of published figures may be another.
    """

    def compare(what: str, was: object, now: object) -> None:
        if was != now:
            was, now = (list(v) if isinstance(v, tuple) else "none" if v is None else v for v in (was, now))
            raise InputError(
                f"{folder}: has a run with {what} {was}, but this run has {now}. Choose another folder with "
                f"--out."
            )

    if old.suite.on_whole_tables and not new.suite.on_whole_tables:
        raise InputError(
            f"{folder}: has results of {old.suite.name} of version 1.1, which can be read, but not resumed. "
            f"Choose another folder with --out."
        )
    before, after = (msgspec.to_builtins(manifest.suite) for manifest in (old, new))
    compare("suite", repr(before["name"]), repr(after["name"]))
    compare("seed", old.seed, new.seed)
    for key, now in after.items():
        if key != "published":
            compare(key, before[key], now)
    compare("trial version", old.trial_version, new.trial_version)
    for library, needed in new.versions.items():
        known = library in old.versions or old.versioned  # 1.1 did not record scikit-learn
        if known and library != _PACKAGE:  # versions of the loop and of the methods stand for the package
            compare(library, old.versions.get(library), needed)
    for name, entry in new.tables.items():
        if name in old.tables:
            was = old.tables[name]
            compare(f"table {name!r} of hash", was.sha256, entry.sha256)
            if entry.curves:  # if nothing depends on them, they may change
                compare(f"learning curves of {name!r} of hash", was.curves, entry.curves)
            compare(f"sources of {name!r} of hash", was.sources, entry.sources)
            compare(f"trainings of {name!r} of hash", was.trainings, entry.trainings)
            compare(f"objectives on {name!r}", list(was.objectives), list(entry.objectives))
            compare(f"targets on {name!r}", was.targets, entry.targets)
