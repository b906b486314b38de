"""The journal of a tuning run: one JSON line for each training that finished, so that the run can resume.

When the same command runs again, the method receives the events of the journal again, in the same order and
with the same times, and therefore makes the same choices. The ledger has only trainings that have ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from filelock import Timeout

from hpobench_nmt.core.system.errors import InputError, not_written
from hpobench_nmt.core.system.files import parse_json, read_bytes, refuse_link
from hpobench_nmt.core.system.validation import Natural, NonNegative, Positive, Strict, checked
from hpobench_nmt.runner.disk.appending import append_whole
from hpobench_nmt.runner.disk.locks import file_lock

_MOST_BYTES = 2**30


class Line(Strict, frozen=True):
    """The journal's line for a training that finished.

    `points` are the checkpoints that the row did not have before: resource, cost, and losses with violations.
    """

    number: Positive
    row: Natural
    worker: Natural
    start: NonNegative
    finish: NonNegative
    checkpoint: Positive
    done: bool
    points: list[tuple[float, float, list[float | None]]] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class Journal:
    """The file that records what has finished in one tuning run. Its name depends on the run's settings."""

    path: Path
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, settings: Mapping[str, Any]) -> Journal:
        """The journal of the run with these settings."""
        name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        return cls(folder / f"tuning-{name}.jsonl", settings)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, no other run with the same settings reads or writes the file, which would mix their lines.

        Raises InputError if such a run is active.
        """
        lock = file_lock(refuse_link(self.path.with_name(f"{self.path.name}.lock")), blocking=False)
        try:
            acquired = lock.acquire()
        except Timeout:
            raise InputError(
                f"{self.path}: another run with the same settings is running. Wait until it ends, or use "
                f"another --seed."
            ) from None
        with acquired:
            yield

    def read(self) -> list[Line]:
        """The lines, in order. A last line that was cut short by a kill is removed.

        Raises InputError if the file is damaged.
        """
        refuse_link(self.path)
        if not self.path.exists():
            return []
        content = read_bytes(self.path, _MOST_BYTES, follow_link=False)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        lines = content[:whole].splitlines()
        if lines and parse_json(lines[0], f"{self.path}, line 1") != json.loads(self._head()):
            raise InputError(
                f"{self.path}, line 1: this version starts the journal of these settings with another line. "
                f"Move the file away to start again; trainings in the ledger are not repeated."
            )
        found = []
        for number, line in enumerate(lines[1:], start=2):
            where = f"{self.path}, line {number}"
            found.append(checked(parse_json(line, where), Line, where))
        return found

    def _head(self) -> bytes:
        return json.dumps({"tuning": 1, **self.settings}).encode()

    def append(self, line: Line) -> None:
        """Add a line. When this returns, the line is on the disk."""
        refuse_link(self.path)
        try:
            new = not self.path.exists() or self.path.stat().st_size == 0
            lines = [self._head(), msgspec.json.encode(line)] if new else [msgspec.json.encode(line)]
            append_whole(self.path, b"".join(each + b"\n" for each in lines))
        except OSError as error:
            raise not_written(self.path, error) from error


def begun_with(folder: Path, method: str, settings: Mapping[str, Any]) -> bool:
    """Whether a folder has the journal of a run by a method with these settings. Other settings may differ.

    Raises InputError if a journal is damaged.
    """
    wanted = json.loads(json.dumps({"method": method, **settings}))
    for path in sorted(folder.glob("tuning-*.jsonl")):
        first, _, _ = read_bytes(path, _MOST_BYTES, follow_link=False).partition(b"\n")
        head = parse_json(first, f"{path}, line 1") if first else None
        if isinstance(head, dict) and all(head.get(key) == value for key, value in wanted.items()):
            return True
    return False
