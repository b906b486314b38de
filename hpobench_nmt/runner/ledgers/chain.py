"""Hashes that chain the lines of a ledger, so that a line that was changed, removed or added is noticed.

Each line ends in `,"chain":"HASH"}`. HASH is the SHA-256, in 64 hexadecimal digits, of the previous hash
followed by the line without that ending. For the first line that has a hash, the previous hash is the SHA-256
of all bytes before it: of no bytes in a new ledger, and of all its lines in a ledger that an earlier version
started. A chain cannot show that lines are missing at the end of the file.
"""

from __future__ import annotations

import hashlib
import re

from hpobench_nmt.core.system.errors import InputError

_MARK, _DIGITS, _END = b',"chain":"', 64, b'"}'
_AT = _DIGITS + len(_END)
_ENDING = len(_MARK) + _AT
_LINE = re.compile(re.escape(_MARK) + rb"[0-9a-f]{%d}" % _DIGITS + re.escape(_END))
_ADVICE = (
    "Restore the ledger from a copy. If it was edited on purpose, start a new chain: hpobench-nmt ledger "
    "merge FOLDER --edited --out NEW."
)


class Chain:
    """Follows the lines of a ledger from the first."""

    def __init__(self, checked: bool = True) -> None:
        self._checked = checked
        self._plain = 0
        self._head = ""
        self._before = hashlib.sha256()

    @property
    def head(self) -> str:
        """The previous hash for the next line: the last hash, or that of all bytes if no line has a hash."""
        return self._head or self._before.hexdigest()

    @property
    def uncovered(self) -> int:
        """How many lines no hash covers: those of an earlier version, until a line has a hash."""
        return 0 if self._head else self._plain

    def follow(self, line: bytes, body: bytes, found: str, where: str) -> None:
        """Add the next line, without its line end.

        Raises InputError, with `where`, if its hash does not follow from the line before.

        Args:
            body, found: the results of `split` for the line, which the caller needs as well.
        """
        if not found:
            if self._head and self._checked:
                raise InputError(f"{where}: has no hash, although the line before it has one. {_ADVICE}")
            self._plain += 1
            if not self._head:
                self._before.update(line + b"\n")
            return
        if self._checked and found != _next(self.head, body):
            raise InputError(
                f"{where}: its hash does not follow from the line before it, so a line was "
                f"changed, removed or added here. {_ADVICE}"
            )
        self._head = found


def text_of(line: bytes, body: bytes, found: str) -> bytes:
    """The JSON of a line without its hash. `body` and `found` are the results of `split` for the line."""
    return body + b"}" if found else line


def split(line: bytes) -> tuple[bytes, str]:
    """A line without its last brace and its hash, and the hash; "" if it has no hash."""
    if line[-_ENDING:-_AT] != _MARK or line[-2:] != _END:
        return line.rstrip()[:-1], ""
    return line[:-_ENDING], line[-_AT:-2].decode("latin-1")


def chained(body: bytes, head: str) -> tuple[bytes, str]:
    """The line with this body (see `split`) that follows a head, and the new head."""
    digest = _next(head, body)
    return body + _MARK + digest.encode() + _END, digest


def head_of(content_end: bytes) -> str:
    """The hash of the last line, given the end of a file that contains it; "" if it has no hash."""
    return split(content_end.rstrip(b"\n"))[1]


def refuse_damaged_end(torn: bytes, where: str) -> None:
    """Raise InputError if the last line was not cut short, but has bytes after its proper end."""
    found = _LINE.search(torn)
    if found and found.end() < len(torn):
        raise InputError(f"{where}: its last line does not end where it should. {_ADVICE}")


def _next(head: str, body: bytes) -> str:
    return hashlib.sha256(head.encode() + body).hexdigest()


ENDING_BYTES = _ENDING + 1
"""The last bytes of a ledger that hold the hash of its last line."""
