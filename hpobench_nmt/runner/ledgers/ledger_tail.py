"""Single records of a growing ledger, without reading all of it each time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hpobench_nmt.runner.ledgers.chain import Chain, split, text_of
from hpobench_nmt.runner.ledgers.ledger import Record, parse_ledger, parse_record, read_content

_CHECKED_BYTES = 256


class _Tail:
    """The records of one ledger, and how much of the file has been read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = (0, 0)
        self._offset = self._lines = 0
        self._last = b""
        self._chain = Chain()
        self._records: dict[tuple[str, int], Record] = {}

    def record(self, key: tuple[str, int]) -> Record | None:
        """The record of that training, if the file holds it now."""
        with self._lock:
            if not self._read_on():
                self._read_anew()
            return self._records.get(key)

    def _read_on(self) -> bool:
        """Read the lines that were appended. False if the file has changed in any other way."""
        if not self._offset or self._path.is_symlink():
            return False
        try:
            file = self._path.open("rb")
        except OSError:
            return False
        with file:
            status = os.fstat(file.fileno())
            file.seek(self._offset - len(self._last))
            if (status.st_dev, status.st_ino) != self._file or file.read(len(self._last)) != self._last:
                return False
            *lines, _ = file.read().split(b"\n")  # bytes after the last line end are not yet a line
        for line in lines:
            where = f"{self._path}, line {self._lines + 1}"
            body, digest = split(line)
            record = parse_record(text_of(line, body, digest), where)
            self._chain.follow(line, body, digest, where)
            self._records.setdefault(record.key, record)
            self._lines += 1
            self._offset += len(line) + 1
            self._last = (self._last + line + b"\n")[-_CHECKED_BYTES:]
        return True

    def _read_anew(self) -> None:
        """Read the whole file."""
        content = read_content(self._path)
        status = self._path.stat()
        self._records = parse_ledger(content, self._path).finished()
        whole = content[: content.rfind(b"\n") + 1]
        self._chain = Chain()
        for line in whole.split(b"\n")[:-1]:
            self._chain.follow(line, *split(line), str(self._path))
        self._file = (status.st_dev, status.st_ino)
        self._offset, self._lines, self._last = len(whole), whole.count(b"\n"), whole[-_CHECKED_BYTES:]


_tails: dict[Path, _Tail] = {}
_lock = threading.Lock()


def recorded(path: Path, key: tuple[str, int]) -> Record | None:
    """The record of a training, if the ledger holds it now.

    Only lines that were appended since the last call in this process are read. The first call reads the whole
    file, and so does a call after the file was changed in another way than by appending.

    Raises the errors of `read_ledger`.
    """
    with _lock:
        tail = _tails.setdefault(path.absolute(), _Tail(path.absolute()))
    return tail.record(key)
