"""Ledgers of one spec, made in different folders, merged into one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpobench_nmt.core.system.errors import InputError, not_written
from hpobench_nmt.core.system.files import refuse_link, write_whole
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.disk.file_names import LEDGER, SPEC
from hpobench_nmt.runner.devices import device_model
from hpobench_nmt.runner.ledgers.ledger import (
    FORMAT,
    NO_HEAD,
    Ledger,
    Reader,
    Record,
    chained,
    locked,
    parse_record,
    read_content,
    split,
    uncovered_note,
)
from hpobench_nmt.runner.ledgers.plan import refuse_misfit
from hpobench_nmt.runner.specs.search_file import load_any
from hpobench_nmt.runner.specs.spec import Spec, describe, write_copy

_SHOWN = 4  # differing values of a training that a message names


@dataclass(frozen=True)
class Merged:
    """The findings of a merge: how many trainings the merged ledger holds, and how many of them are new.

    Each conflict is a reason why the ledgers do not belong together. If there is a conflict, nothing was
    written. Each note is a fact about one of the ledgers that its owner should know.
    """

    conflicts: tuple[str, ...]
    records: int
    new: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Source:
    """A ledger's file with its lines, without their hashes (`split`)."""

    path: Path
    head: bytes
    lines: tuple[tuple[int, bytes, Record], ...]
    ledger: Ledger


def merge(
    ledgers: Sequence[Path],
    out: Path,
    mix_devices: bool = False,
    keep: Literal["first"] | None = None,
    edited: bool = False,
) -> Merged:
    """Write the trainings of several ledgers into one. Only the hashes of their lines change.

    The merged ledger starts a new chain of hashes, and its first line names the heads of the ledgers. If
    `out` already holds a ledger, its lines come first and are kept. A line in several ledgers is written
    once. These are conflicts: another spec, another corpus, another kind or model of device, a row that is
    not on the first ledger's grid, and two different lines for one training.

    Args:
        ledgers: files, or the folders that hold them, each with its spec.toml.
        out: folder of the merged ledger.
        mix_devices: rows of different devices do not conflict, although their times differ.
        keep: with "first", two different lines for one training do not conflict, and the first ledger's
            line counts.
        edited: lines were edited on purpose, so their hashes are not compared.

    Raises:
        InputError: a file that is not a ledger.
        RunError: the folder cannot be written.
    """
    paths = [path / LEDGER if path.is_dir() else path for path in ledgers]
    target = refuse_link(out / LEDGER)
    # Read before the folder is made, because a ledger may be missing or damaged.
    known = target.resolve() if target.exists() else None
    others = [_read(path, edited) for path in paths if path.resolve() != known]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked(target):
            sources = [_read(target, edited), *others] if target.exists() else others
            first = sources[0]
            spec = load_any(first.path.parent / SPEC, follow_link=False)
            held = len(first.ledger.records) if first.path == target else 0
            conflicts = _conflicts(spec, sources, mix_devices)
            lines, twice = _union(sources)
            notes = _notes(sources, twice if keep else ())
            if conflicts or (twice and not keep):
                return Merged((*conflicts, *twice), held, 0, notes)
            if not (out / SPEC).exists():
                write_copy(spec, out)
            if len(lines) > held or edited:
                write_whole(target, _joined(sources, lines))
            return Merged((), len(lines), len(lines) - held, notes)
    except OSError as error:
        raise not_written(error.filename or out, error) from error


def _read(path: Path, edited: bool) -> _Source:
    content = read_content(path)
    ledger = Reader.of(content, path, checked_chain=not edited).ledger
    head, *lines = (split(line)[0] for line in content.split(b"\n")[:-1])
    records = (parse_record(line + b"}", f"{path}, line {n}") for n, line in enumerate(lines, start=2))
    return _Source(path, head, tuple(zip(itertools.count(2), lines, records, strict=False)), ledger)


def _joined(sources: Sequence[_Source], lines: Sequence[bytes]) -> bytes:
    """The merged ledger: the head of the first ledger and these lines, in a new chain."""
    heads = dict.fromkeys(head for s in sources for head in (*s.ledger.merged, s.ledger.head))
    entry = json.loads(sources[0].head + b"}") | {"ledger": FORMAT, "merged": list(heads)}
    head, written = NO_HEAD, []
    for body in (json.dumps(entry, separators=(",", ":")).encode()[:-1], *lines):
        line, head = chained(body, head)
        written.append(line + b"\n")
    return b"".join(written)


def _notes(sources: Sequence[_Source], kept: Sequence[str]) -> tuple[str, ...]:
    """Facts about the ledgers that are not conflicts."""
    notes = []
    for source in sources:
        if source.ledger.torn:
            notes.append(
                f"{source.path}: its last line was cut short after {counted(source.ledger.torn, 'byte')} "
                "and is left out: that training is not in the merged ledger."
            )
        if source.ledger.uncovered:
            notes.append(uncovered_note(source.path, source.ledger))
    if kept:
        notes.append(f"{counted(len(kept), 'training')} had two different lines: the first one counts.")
    return tuple(notes)


def _conflicts(spec: Spec, sources: Sequence[_Source], mix_devices: bool) -> list[str]:
    """Reasons why the ledgers do not belong together, apart from different lines for one training."""
    found = []
    first = sources[0]
    devices: dict[str, Path] = {}
    for source in sources:
        try:
            refuse_misfit(source.path, source.ledger, spec)
        except InputError as error:
            found.append(str(error))
        then, now = (str(s.ledger.corpus.get("sha256"))[:12] for s in (first, source))
        if then != now:
            than = f"than {first.path} (SHA-256 {then}…)"
            found.append(f"{source.path}: has another corpus (SHA-256 {now}…) {than}.")
        for record in source.ledger.records:
            if record.status == "done":  # failed trainings have no times
                devices.setdefault(device_model(record.device), source.path)
    if len(devices) > 1 and not mix_devices:
        where = "; ".join(f"{device or 'unknown'} in {path}" for device, path in devices.items())
        found.append(
            f"rows were trained on different devices, so their times cannot be compared: {where}. To mix "
            f"them anyway, use --accept devices."
        )
    return found


def _union(sources: Sequence[_Source]) -> tuple[list[bytes], list[str]]:
    """The lines of all ledgers, one for each training, and messages about trainings with different lines."""
    lines: list[bytes] = []
    conflicts = []
    seen: dict[tuple[str, int], tuple[str, bytes, Record]] = {}
    for source in sources:
        own = set()
        for number, line, record in source.lines:
            if record.key in own:  # the first line counts, as in `Reader`
                continue
            own.add(record.key)
            if record.key not in seen:
                seen[record.key] = f"{source.path}, line {number}", line, record
                lines.append(line)
                continue
            where, other_line, other = seen[record.key]
            if other_line != line:
                again = f" (again, {record.replicate})" if record.replicate else ""
                conflicts.append(
                    f"{source.path}, line {number}, and {where}: two lines for "
                    f"{describe(record.config)}{again}: {_difference(other, record)}. To keep the first, "
                    f"use --accept first."
                )
    return lines, conflicts


def _difference(first: Record, second: Record) -> str:
    """A phrase on how two records of one training differ."""
    if first.status != second.status:
        return f"{first.status} there, {second.status} here"
    names = [*first.metrics, *(name for name in second.metrics if name not in first.metrics)]
    values = [
        f"{name} {_shown(first, name)} there, {_shown(second, name)} here"
        for name in names
        if first.metrics.get(name) != second.metrics.get(name)
    ]
    if not values:
        return "their metrics are the same, but the time or way of measuring differs"
    more = f", and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return "; ".join(values[:_SHOWN]) + more


def _shown(record: Record, name: str) -> str:
    return f"{record.metrics[name]:.9g}" if name in record.metrics else "none"
