"""The ledger: one line of JSON for every training that has ended, whether it succeeded or not.

Lines are only appended, under a lock, and flushed one at a time. A training that has a line is never
repeated, and tables are built only from the ledger. The first line names the spec and the corpus.

Hashes chain the lines, so that a line that was changed, removed or added is noticed. Each line ends in
`,"chain":"HASH"}`. HASH is the SHA-256, in 64 hexadecimal digits, of the previous hash followed by the line
without that ending. For the first line that has a hash, the previous hash is the SHA-256 of all bytes before
it: of no bytes in a new ledger, and of all lines of format 1, which has no hashes, in a ledger that an
earlier version started. A chain cannot show that lines are missing at the end of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import FileLock

from hpobench_nmt.core.guard import is_no_room
from hpobench_nmt.core.system.errors import InputError, RunError, not_written
from hpobench_nmt.core.system.files import parse_json, read_bytes, refuse_link
from hpobench_nmt.core.system.folders import sync_folder
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import Finite, Natural, NonNegative, Strict, Whole, checked
from hpobench_nmt.runner.disk.appending import append_whole
from hpobench_nmt.runner.disk.locks import file_lock
from hpobench_nmt.runner.specs.spec import Configuration, configuration_key

FORMAT = 2
"""The newest format, in which every line has a hash. In format 1, the first lines may lack it."""

RESERVE, _RESERVE_BYTES = "reserve", 2**20
_LARGEST_BYTES = 2**30
_MARK, _DIGITS, _END = b',"chain":"', 64, b'"}'
_AT = _DIGITS + len(_END)
_ENDING = len(_MARK) + _AT
_LINE = re.compile(re.escape(_MARK) + rb"[0-9a-f]{%d}" % _DIGITS + re.escape(_END))
_ADVICE = (
    "Restore the ledger from a copy. If it was edited on purpose, start a new chain: hpobench-nmt ledger "
    "merge FOLDER --accept edited --out NEW."
)
NO_HEAD = hashlib.sha256().hexdigest()
"""The hash before the first line of a new ledger."""

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


class Reader:
    """Reads the lines of a ledger from the first, and follows their hashes.

    Attributes:
        records: the first record of each training by its key, in the order of the lines.
        torn: the last bytes, which are not a line yet, because they have no line end.
    """

    def __init__(self, path: Path, checked_chain: bool = True) -> None:
        self.records: dict[tuple[str, int], Record] = {}
        self.torn = b""
        self._path, self._checked = path, checked_chain
        self._header = _Header(FORMAT, {})
        self._lines = 0
        self._before, self._last_hash = hashlib.sha256(), ""

    @classmethod
    def of(cls, content: bytes, path: Path, checked_chain: bool = True) -> Reader:
        """The reader after all bytes of a file.

        With `checked_chain=False`, hashes are not compared, because lines were edited on purpose.
        """
        reader = cls(path, checked_chain)
        reader.read(content)
        if not reader._lines:
            raise InputError(f"{path}: is empty, not a ledger.")
        if checked_chain:
            refuse_damaged_end(reader.torn, path)
        return reader

    def read(self, content: bytes) -> None:
        """Read the lines that follow.

        Raises InputError, with the line's number, for a line that is not a record of a training, or has a
        hash that does not follow from the line before.
        """
        *lines, self.torn = content.split(b"\n")
        for line in lines:
            where = f"{self._path}, line {self._lines + 1}"
            body, found = split(line)
            text = body + b"}" if found else line
            if self._lines:
                record = parse_record(text, where)
                self.records.setdefault(record.key, record)
            else:
                self._header = checked(parse_json(text, where), _Header, where)
                number = self._header.ledger
                if not 1 <= number <= FORMAT:
                    raise InputError(f"{where}: format {number}; this version reads formats up to {FORMAT}.")
                if number == FORMAT and not found and self._checked:
                    raise InputError(f"{where}: has no hash, which every line of format {FORMAT} has.")
            self._follow(line, body, found, where)
            self._lines += 1

    def _follow(self, line: bytes, body: bytes, found: str, where: str) -> None:
        """Check the hash that was found in a line."""
        if found:
            if self._checked and found != _next_hash(self._head, body):
                raise InputError(
                    f"{where}: its hash does not follow from the line before it, so a line was "
                    f"changed, removed or added here. {_ADVICE}"
                )
            self._last_hash = found
        elif not self._last_hash:
            self._before.update(line + b"\n")
        elif self._checked:
            raise InputError(f"{where}: has no hash, although the line before it has one. {_ADVICE}")

    @property
    def _head(self) -> str:
        return self._last_hash or self._before.hexdigest()

    @property
    def ledger(self) -> Ledger:
        """The ledger with the lines so far."""
        header, records = self._header, tuple(self.records.values())
        uncovered = 0 if self._last_hash else self._lines
        read = self._head, uncovered, header.merged, len(self.torn)
        return Ledger(header.spec, header.corpus, records, *read)


def read_ledger(path: Path) -> Ledger:
    """Read a ledger. A last line that was cut short is left out: its training never ended.

    Raises InputError if there is no ledger, or if a line is not a record of a training or has a hash that
    does not follow from the line before. The message has the number of the line.
    """
    return Reader.of(read_content(path), path).ledger


def read_content(path: Path) -> bytes:
    """A ledger's bytes. A link is not followed."""
    return read_bytes(path, _LARGEST_BYTES, follow_link=False)


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


def split(line: bytes) -> tuple[bytes, str]:
    """A line without its last brace and its hash, and the hash; "" if it has no hash."""
    if line[-_ENDING:-_AT] != _MARK or line[-2:] != _END:
        return line.rstrip()[:-1], ""
    return line[:-_ENDING], line[-_AT:-2].decode("latin-1")


def chained(body: bytes, head: str) -> tuple[bytes, str]:
    """The line with this body (see `split`) that follows a head, and the new head."""
    digest = _next_hash(head, body)
    return body + _MARK + digest.encode() + _END, digest


def refuse_damaged_end(torn: bytes, path: Path) -> None:
    """Raise InputError if the last line was not cut short, but has bytes after its proper end."""
    found = _LINE.search(torn)
    if found and found.end() < len(torn):
        raise InputError(f"{path}: its last line does not end where it should. {_ADVICE}")


def _next_hash(head: str, body: bytes) -> str:
    return hashlib.sha256(head.encode() + body).hexdigest()


def _head_of(path: Path) -> str:
    """The hash before a ledger's next line: the last hash, or that of all bytes if no line has a hash.

    Reads the whole file only if its last line has no hash."""
    if not path.exists():
        return NO_HEAD
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _ENDING - 1))
        if found := split(file.read().rstrip(b"\n"))[1]:
            return found
        file.seek(0)
        return hashlib.sha256(file.read()).hexdigest()


def open_ledger(path: Path, spec: Mapping[str, Any], corpus: Mapping[str, str]) -> Ledger:
    """Read a ledger, or start it with the identity of its spec and the provenance of its corpus."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in (path.name, f"{path.name}.lock", f"{path.name}.torn"):
        refuse_link(path.with_name(name))
    with locked(path):
        if not path.exists() or _mend(path) == 0:
            _write(path, {"ledger": FORMAT, "spec": spec, "corpus": dict(corpus)})
            sync_folder(path.parent)
        return read_ledger(path)


def append(path: Path, record: Record) -> None:
    """Add a record. When it returns, the line is on the disk.

    Raises RunError if the file cannot be written, or if the disk is full. A full disk does not lose the
    record, because a reserve is kept for it.
    """
    # Fields with their defaults are left out.
    usual = msgspec.structs.asdict(Record(record.config, record.replicate, record.seed, record.status))
    always = ("config", "replicate", "seed", "status")
    values = msgspec.structs.asdict(record)
    entry = {name: value for name, value in values.items() if name in always or value != usual[name]}
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
        (path.parent / RESERVE).unlink(missing_ok=True)
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
    path = folder / RESERVE
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
        refuse_damaged_end(torn, path)
        with path.with_name(path.name + ".torn").open("ab") as aside:
            aside.write(torn + b"\n")
        file.truncate(whole)
        return whole


def _write(path: Path, entry: Mapping[str, Any]) -> None:
    body = json.dumps(entry, allow_nan=False, separators=(",", ":")).encode()[:-1]
    append_whole(path, chained(body, _head_of(path))[0] + b"\n")
