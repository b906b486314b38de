"""Reading a user's text files, with errors that name the file and the line."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError


def read_bytes(path: Path, option: str, size: int = -1) -> bytes:
    """A file's content, or its first bytes.

    Raises InputError if it is missing, a folder, a pipe or a device, or not readable.
    """
    status(path, option)
    with _readable(path, option), path.open("rb") as file:
        return file.read(size)


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

    Raises InputError if the file does not exist, or is a pipe or a device.
    """
    with _readable(path, option):
        found = path.stat()
    # Reading a pipe or a device might never end.
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise InputError(f"[corpus] {option}: {path} is not a file.")
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


@contextmanager
def _readable(path: Path, option: str) -> Iterator[None]:
    """Turn an OSError into an InputError that names the option and the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"[corpus] {option}: cannot read {path} ({error.strerror}).") from error
