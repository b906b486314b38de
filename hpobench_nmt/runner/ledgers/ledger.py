"""The ledger: one line of JSON for every training that has ended, whether it succeeded or not.

Lines are only appended, under a lock, and flushed one at a time. A training that has a line is never
repeated, and tables are built only from the ledger. The first line names the spec and the corpus.

Lines are chained by hashes (`chain.py`). In format 1, the lines of earlier versions do not have hashes. Lines
that are added to such a ledger have them, and the first hash covers all earlier lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import FileLock

from hpobench_nmt.core.guard import is_no_room
from hpobench_nmt.core.space import short_label
from hpobench_nmt.core.system.errors import InputError, RunError, not_written
from hpobench_nmt.core.system.files import parse_json, read_bytes, sync_folder
from hpobench_nmt.core.system.text import counted, printable
from hpobench_nmt.core.system.validation import Finite, Natural, NonNegative, Strict, Whole, checked
from hpobench_nmt.runner.disk.locks import file_lock
from hpobench_nmt.runner.disk.user_paths import refuse_link
from hpobench_nmt.runner.ledgers.chain import (
    ENDING_BYTES,
    Chain,
    chained,
    head_of,
    refuse_damaged_end,
    split,
    text_of,
)
from hpobench_nmt.runner.specs.spec import Configuration, Spec, configuration_key

FORMAT = 2
"""The newest format, in which every line has a hash. In format 1, the first lines may lack it."""

_RESERVE = "reserve"
_RESERVE_BYTES = 2**20

_LARGEST_BYTES = 2**30

_NO_DEFAULTS: Mapping[str, Any] = {}

Status = Literal["done", "failed"]


class _Header(msgspec.Struct, frozen=True):
    """The first line of a ledger: its format, the identity of its spec, and the provenance of its corpus."""

    ledger: Whole
    spec: dict[str, Any]
    corpus: dict[str, str] = msgspec.field(default_factory=dict)
    merged: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values of the spec that should be sections."""
        for section in ("defaults", "fixed"):
            if not isinstance(self.spec.get(section, {}), dict):
                raise InputError(f"spec.{section} must be a section.")


class Record(Strict, frozen=True):
    """One training that has ended.

    Attributes:
        replicate: 0 for the table's own row, 1, 2, … for trainings again with other seeds.
        seed: the source of all its randomness.
        status: "done", or "failed" for a configuration that cannot be trained. `reason` then explains why.
        curve: dev metrics at every checkpoint.
        converged: False if a limit of epochs or updates ended the training.
        tuned: settings that were tuned on dev after training, with the values that were used.
        device, versions: the device with the name of its model, and the libraries that did the work.
        started: UTC, ISO 8601. If the training was paused or killed, when it was last resumed.
        seconds: wall-clock time of training and measuring since `started`.
        nondeterministic: the parts of the training that differ each time, such as operations of torch on a
            GPU; empty if the same seed gives the same bits on the same machine.
    """

    config: Mapping[str, bool | Whole | Finite | str]
    replicate: Natural
    seed: Natural
    status: Status
    reason: str = ""
    metrics: Mapping[str, Finite] = msgspec.field(default_factory=dict)
    curve: Sequence[Mapping[str, Finite]] = ()
    converged: bool = True
    tuned: Mapping[str, Finite] = msgspec.field(default_factory=dict)
    device: str = ""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    started: str = ""
    seconds: NonNegative = 0.0
    nondeterministic: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """The training's key."""
        return training_key(self.config, self.replicate)


def training_key(config: Configuration, replicate: int) -> tuple[str, int]:
    """The key of a training: its configuration in a canonical form, and the number of the replicate."""
    return configuration_key(config), replicate


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger file.

    Attributes:
        spec: the identity of its spec (Spec.identity).
        corpus: the provenance of its corpus, with its hash.
        records: the first record of each training, in the order of the lines.
        head: the hash of the last line, which covers the file; or of all bytes if no line has a hash.
        uncovered: how many lines no hash covers, because an earlier version wrote them.
        merged: heads of the ledgers that this ledger was merged from.
        torn: the size in bytes of a last line that was cut short.
    """

    spec: Mapping[str, Any]
    corpus: Mapping[str, str]
    records: tuple[Record, ...]
    head: str = ""
    uncovered: int = 0
    merged: tuple[str, ...] = ()
    torn: int = 0

    def finished(self) -> dict[tuple[str, int], Record]:
        """Records by key."""
        return {record.key: record for record in self.records}


def read_ledger(path: Path) -> Ledger:
    """Read a ledger. A last line that was cut short is left out: its training never ended.

    Raises InputError if there is no ledger, or if a line is not a record of a training or has a hash that
    does not follow from the line before. The message has the number of the line.
    """
    return parse_ledger(read_content(path), path)


def read_content(path: Path) -> bytes:
    """A ledger's bytes. A link is not followed."""
    return read_bytes(path, _LARGEST_BYTES, follow_link=False)


def parse_ledger(content: bytes, path: Path, checked_chain: bool = True) -> Ledger:
    """The ledger with these bytes, as from `read_ledger`. Errors name the path.

    With `checked_chain=False`, hashes are not compared, because lines were edited on purpose.
    """
    *lines, torn = content.split(b"\n")  # bytes after the last line end are not yet a line
    if not lines:
        raise InputError(f"{path}: is empty, not a ledger.")
    where = f"{path}, line 1"
    body, digest = split(lines[0])
    header = checked(parse_json(text_of(lines[0], body, digest), where), _Header, where)
    if not 1 <= header.ledger <= FORMAT:
        raise InputError(f"{where}: format {header.ledger}; this version reads formats up to {FORMAT}.")
    chain = Chain(checked_chain)
    chain.follow(lines[0], body, digest, where)
    if header.ledger == FORMAT and chain.uncovered and checked_chain:
        raise InputError(f"{where}: has no hash, which every line of format {FORMAT} has.")
    records: dict[tuple[str, int], Record] = {}
    for number, line in enumerate(lines[1:], start=2):
        where = f"{path}, line {number}"
        body, digest = split(line)
        record = parse_record(text_of(line, body, digest), where)
        chain.follow(line, body, digest, where)
        records.setdefault(record.key, record)
    if checked_chain:
        refuse_damaged_end(torn, str(path))
    return Ledger(
        header.spec,
        header.corpus,
        tuple(records.values()),
        chain.head,
        chain.uncovered,
        header.merged,
        len(torn),
    )


def uncovered_note(path: Path, ledger: Ledger) -> str:
    """One sentence on a ledger whose lines have no hashes."""
    return (
        f"{path}: no hashes, because an earlier version wrote its {counted(ledger.uncovered, 'line')}: "
        "a change in them would not be noticed."
    )


def parse_record(text: bytes, where: str) -> Record:
    """The record of a line without its hash. Raises InputError, with `where`, if it is not a record."""
    try:
        return checked(parse_json(text, where), Record, where)
    except InputError as error:
        raise InputError(
            f"{error} If the line cannot be restored, remove it: that training will then be repeated."
        ) from None


def refuse_misfit(path: Path, ledger: Ledger, spec: Spec, to_train: bool = True) -> None:
    """Raise InputError if a ledger belongs to another spec, or has a record off the spec's grid."""
    refuse_other_spec(path, ledger, spec.identity, spec.family.defaults, to_train)
    refuse_rows_off_the_grid(path, ledger, spec)


def refuse_rows_off_the_grid(path: Path, ledger: Ledger, spec: Spec) -> None:
    """Raise InputError if a record's configuration is not on the spec's grid."""
    axes = spec.grid
    for record in ledger.records:
        inactive = spec.inactive(record.config)
        if record.config.keys() != axes.keys() - inactive:
            names = printable(", ".join(record.config)[:200]) or "no hyperparameters"
            active = ", ".join(name for name in axes if name not in inactive)
            raise InputError(f"{path}: has a record of {names}, but the grid has {active}. Remove its line.")
        for name, value in record.config.items():
            if value not in axes[name]:
                shown = printable(short_label(value))[:80]
                raise InputError(
                    f"{path}: has a record with {name} = {shown}, which is not on the grid. Put the value "
                    "back in [grid], or remove the line."
                )


def open_ledger(
    path: Path, spec: Mapping[str, Any], corpus: Mapping[str, str], usual: Mapping[str, Any] = _NO_DEFAULTS
) -> Ledger:
    """Read the ledger of a spec, or start it. `refuse_other_spec` describes the arguments.

    Raises InputError if the ledger belongs to another spec, or if its corpus has changed since.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in (path.name, f"{path.name}.lock", f"{path.name}.torn"):
        refuse_link(path.with_name(name))
    with locked(path):
        if not path.exists() or _mend(path) == 0:
            _write(path, {"ledger": FORMAT, "spec": spec, "corpus": dict(corpus)})
            sync_folder(path.parent)
        found = read_ledger(path)
    refuse_other_spec(path, found, spec, usual)
    then, now = (str(c.get("sha256"))[:12] for c in (found.corpus, corpus))
    if then != now:
        raise InputError(
            f"{path}: the corpus has changed since its first row (SHA-256 {then}… then, {now}… now). Use "
            f"another folder with --out."
        )
    return found


def refuse_other_spec(
    path: Path,
    found: Ledger,
    spec: Mapping[str, Any],
    usual: Mapping[str, Any] = _NO_DEFAULTS,
    to_train: bool = True,
) -> None:
    """Raise InputError if a ledger was started for another spec, or with another default of a setting.

    A new setting's default keeps the behaviour from before the setting existed. A setting that a ledger does
    not have therefore had its default, whether or not a spec now sets it. If nothing more is trained, changed
    defaults do not matter.

    Args:
        spec: the identity of the spec (Spec.identity).
        usual: the default of every setting of the family (Family.defaults).
        to_train: whether more rows are going to be trained.
    """
    then, now = (_flat(each, ("defaults", "fixed")) for each in (found.spec, spec))
    then = {key: value for key, value in usual.items() if key in now} | then
    explicit = _flat(spec, ("fixed",))
    for key in now | then:
        if key not in then and key not in explicit:
            continue
        if key in found.spec.get("defaults", {}) and key not in explicit:
            if to_train and key in now and then[key] != now[key]:
                raise InputError(
                    f"{path}: was started when the default of {key} was {then[key]!r}; now it is "
                    f"{now[key]!r}. To resume, write {key} = {json.dumps(then[key])} in the spec's [fixed]."
                )
            if to_train and key not in now:
                raise InputError(
                    f"{path}: was started with {key} = {then[key]!r}, which this version does not have. You "
                    f"can build a table from it, but not train more: use another folder."
                )
        elif then.get(key) != now.get(key):
            raise InputError(
                f"{path}: belongs to another spec: {key} is {then.get(key)!r} there, {now.get(key)!r} here. "
                f"A ledger belongs to one spec: use another folder."
            )


def _flat(spec: Mapping[str, Any], sections: Sequence[str]) -> dict[str, Any]:
    """A spec's identity with the settings of these sections. Later sections override earlier ones."""
    flat = {key: value for key, value in spec.items() if key not in ("defaults", "fixed")}
    for section in sections:
        flat |= spec.get(section, {})
    return flat


def append(path: Path, record: Record) -> None:
    """Add a record. When it returns, the line is on the disk.

    Raises RunError if the file cannot be written, or if the disk is full. A full disk does not lose the
    record, because a reserve is kept for it.
    """
    # Fields with their defaults are left out.
    usual = msgspec.structs.asdict(Record(record.config, record.replicate, record.seed, record.status))
    always = ("config", "replicate", "seed", "status")
    entry = {
        k: value for k, value in msgspec.structs.asdict(record).items() if k in always or value != usual[k]
    }
    for name, value in record.metrics.items():
        if not math.isfinite(value):
            raise ValueError(f"metric {name} is {value}: a family must leave it out or fail")
    try:
        with locked(path):
            _append(path, entry)
            reserve(path.parent)
    except OSError as error:
        raise not_written(path, error, "A training that ended is lost.") from error


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    try:
        _mend(path)
        _write(path, entry)
    except OSError as error:
        if not is_no_room(error):
            raise
        (path.parent / _RESERVE).unlink(missing_ok=True)
        _mend(path)
        _write(path, entry)
        raise RunError(
            f"{path.parent}: no space left on the disk. Nothing is lost: free some space and run the same "
            "command again to resume."
        ) from error


def reserve(folder: Path) -> None:
    """Reserve room for a last record, so that a full disk does not cost a training.

    Raises RunError if the disk is already full.
    """
    path = folder / _RESERVE
    if not path.exists():
        try:
            with path.open("xb") as file:  # never through a link
                file.write(os.urandom(_RESERVE_BYTES))  # zeros would not reserve room on a compressed disk
        except FileExistsError:  # another run was faster
            return
        except OSError as error:
            path.unlink(missing_ok=True)
            if not is_no_room(error):
                raise
            raise RunError(
                f"{folder}: no space left on the disk. Free some space and run the same command again."
            ) from error


def release_reserve(folder: Path) -> None:
    """Give the room back when the run is over."""
    (folder / _RESERVE).unlink(missing_ok=True)


def locked(path: Path) -> FileLock:
    """The lock that every process holds while it writes a ledger."""
    return file_lock(path.with_name(path.name + ".lock"))


def _mend(path: Path) -> int:
    """Move a last line that was cut short to a separate file, and return the size of all complete lines."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if size == 0 or file.read(1) == b"\n":
            return size
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.seek(whole)
        torn = file.read()
        refuse_damaged_end(torn, str(path))
        with path.with_name(path.name + ".torn").open("ab") as aside:
            aside.write(torn + b"\n")
        file.truncate(whole)
        return whole


def _write(path: Path, entry: Mapping[str, Any]) -> None:
    body = json.dumps(entry, allow_nan=False, separators=(",", ":")).encode()[:-1]
    line = chained(body, _head(path))[0] + b"\n"
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        written = 0
        try:
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _head(path: Path) -> str:
    """`Chain.head` of a ledger's file. Reads the whole file only if its last line has no hash."""
    if not path.exists():
        return Chain().head
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - ENDING_BYTES))
        if found := head_of(file.read()):
            return found
        file.seek(0)
        return hashlib.sha256(file.read()).hexdigest()
