"""Single records of a growing ledger, without reading all of it each time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hpobench_nmt.runner.ledgers.ledger import Reader, Record, read_content

_CHECKED_BYTES = 256


class _Tail:
    """The records of one ledger, and how much of the file has been read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._reader, self._file = Reader(path), (0, 0)
        self._offset, self._last = 0, b""

    def record(self, key: tuple[str, int]) -> Record | None:
        """The record of that training, if the file holds it now."""
        with self._lock:
            if not self._read_on():
                self._read_anew()
            return self._reader.records.get(key)

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
            content = file.read()
        before, self._offset = self._offset, 0  # after an error, the whole file is read again
        self._reader.read(content)
        self._move(before, content)
        return True

    def _read_anew(self) -> None:
        """Read the whole file."""
        content = read_content(self._path)
        status = self._path.stat()
        self._reader = Reader.of(content, self._path)
        self._file, self._last = (status.st_dev, status.st_ino), b""
        self._move(0, content)

    def _move(self, before: int, content: bytes) -> None:
        """Record how far the file was read. `content` begins at byte `before`; a torn last line is unread."""
        whole = content[: len(content) - len(self._reader.torn)]
        self._offset = before + len(whole)
        self._last = (self._last + whole[-_CHECKED_BYTES:])[-_CHECKED_BYTES:]


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
