"""Third-party archives, read member by member: nothing in them is ever written to disk.

The name of a member is only compared with the wanted names, and never used as a path. Links, devices and
folders are skipped, and sizes are limited during decompression.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpobench_nmt.core.system.errors import InputError, foreign, shortened
from hpobench_nmt.core.system.files import read_bytes

MOST_MEMBERS = 1_000_000
"""An archive with more entries is refused."""
_PART = 2**20


def gunzipped(content: bytes, where: object, limit: int) -> bytes:
    """The content of a gzip file; InputError if it has more than `limit` bytes, or is not a gzip file."""
    with foreign(where, "not a gzip file"), gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return _limited(file, f"{where}: its content", limit)


def zip_members(content: bytes, where: object, wanted: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in a ZIP archive whose whole name matches `wanted`, in its order.

    Raises InputError if it is not a ZIP archive, a name occurs twice, or the files together have more than
    `limit` bytes.
    """
    told = "not a ZIP archive that can be read"
    with foreign(where, told), zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = _Names(where, wanted)
        for entry in archive.infolist():
            # If a ZIP was made on Unix, the upper half of an entry's attributes is the file's mode.
            if entry.is_dir() or (entry.external_attr >> 16) & 0o170000 not in (0, 0o100000):
                continue
            if names.takes(entry.filename):
                with archive.open(entry) as file:
                    found = _limited(file, f"{where}: {shortened(entry.filename)}", limit)
                limit -= len(found)
                yield entry.filename, found


def tar_members(content: bytes, where: object, wanted: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """The same for a tar archive, compressed or not. Skipped members count against the limit."""
    told = "not a tar archive that can be read"
    with foreign(where, told), tarfile.open(fileobj=io.BytesIO(content), mode="r|*") as archive:
        names = _Names(where, wanted)
        for entry in archive:
            if entry.size > limit:
                raise InputError(f"{where}: its content is larger than the {limit:,} bytes left for it.")
            limit -= entry.size
            file = archive.extractfile(entry) if entry.isreg() and names.takes(entry.name) else None
            if file is not None:
                yield entry.name, _limited(file, f"{where}: {shortened(entry.name)}", entry.size)


def folder_members(folder: Path, wanted: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """The same for a folder, such as a checkout, in the order of the names. Links are not followed."""
    names = _Names(folder, wanted)
    for path in sorted(p for p in folder.rglob("*") if not p.is_symlink()):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and names.takes(name):
            found = read_bytes(path, limit, follow_link=False)
            limit -= len(found)
            yield name, found


class _Names:
    """Decides which names are wanted. Refuses too many names, and wanted names that occur twice."""

    def __init__(self, where: object, wanted: str) -> None:
        self._where, self._wanted, self._seen, self._count = where, re.compile(wanted), set[str](), 0

    def takes(self, name: str) -> bool:
        self._count += 1
        if self._count > MOST_MEMBERS:
            raise InputError(f"{self._where}: has more than {MOST_MEMBERS:,} files.")
        if not self._wanted.fullmatch(name):
            return False
        if name in self._seen:
            raise InputError(f"{self._where}: {shortened(name)} occurs twice.")
        self._seen.add(name)
        return True


def _limited(file: IO[bytes] | gzip.GzipFile, what: str, limit: int) -> bytes:
    """The content of an open file; InputError beyond `limit` bytes, whatever size its archive states."""
    parts, size = [], 0
    while part := file.read(_PART):
        size += len(part)
        if size > limit:
            raise InputError(f"{what} is larger than {limit:,} bytes.")
        parts.append(part)
    return b"".join(parts)
