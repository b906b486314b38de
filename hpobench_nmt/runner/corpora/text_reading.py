"""Reading a user's text files, with errors that name the file and the line."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError


def read_bytes(path: Path, option: str) -> bytes:
    """A file's content. Raises InputError if it is missing, a folder, or not readable."""
    try:
        _refuse_no_file(path, option)
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, option, error) from error


def read_head(path: Path, option: str, size: int) -> bytes:
    """The first bytes of a file. Raises the errors of `read_bytes`."""
    try:
        _refuse_no_file(path, option)
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise _unreadable(path, option, error) from error


def decoded(content: bytes, path: Path, first: int = 1) -> str:
    """The text of a UTF-8 file, with lines that end in \\n. Raises InputError, with the line, if not UTF-8.

    `first` is the number of the content's first line in the file.
    """
    if first == 1:
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first
        byte = content[error.start]
        found = "UTF-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "LATIN1"
        raise InputError(
            f"{path}, line {line}: not UTF-8 (byte 0x{byte:02x}). Convert the file, for instance with "
            f"`iconv -f {found} -t UTF-8`."
        ) from error


def lines_of(text: str) -> list[str]:
    """The lines of a text. Only \\n ends a line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def status(path: Path, option: str) -> str:
    """A file's path, size and modification time, which change with the content and are quick to find out.

    Raises InputError if the file does not exist.
    """
    try:
        found = _refuse_no_file(path, option)
    except OSError as error:
        raise _unreadable(path, option, error) from error
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def _refuse_no_file(path: Path, option: str) -> os.stat_result:
    """The file's status. A pipe or a device is refused: reading it might never end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise InputError(f"[corpus] {option}: {path} is not a file.")
    return found


def _unreadable(path: Path, option: str, error: OSError) -> InputError:
    return InputError(f"[corpus] {option}: cannot read {path} ({error.strerror}).")
