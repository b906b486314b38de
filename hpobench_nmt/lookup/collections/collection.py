"""The type of a published collection of tables, and what all of them do to install theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import read_bytes, replace_folder, scratch_folder
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits, download
from hpobench_nmt.lookup.folder import save_folder
from hpobench_nmt.lookup.table import Table


class Fetch(Protocol):
    """Installs a collection's tables."""

    def __call__(
        self, target: Path, source: Path | None = None, address: str = "", limits: Limits = DEFAULT_LIMITS
    ) -> list[Path]:
        """Install all tables as folders under target, or none, and return these folders.

        Args:
            target: folder of table folders.
            source: take the authors' files from this folder instead of the network.
            address: where the files are; if empty, the authors' own.
            limits: of each download.
        """


@dataclass(frozen=True)
class Collection:
    """Tables that were published together, and how to get them.

    Attributes:
        name: of the collection; its tables' datasheets name it in their claims.
        title: what it is, in one line.
        tables: their names.
        licence, address: of the authors' files.
        files: what a copy of them is called, for `tables fetch --from`.
        fetch: installs the tables.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    licence: str
    address: str
    files: str
    fetch: Fetch


def published_file(name: str, sha256: str, source: Path | None, address: str, limits: Limits) -> bytes:
    """The content of one of the authors' files, from a folder or else from the network address.

    Of the limits, a file in a folder has that of its size only.

    Raises:
        InputError: the folder has no such file, or another one of this name.
        RunError: the file could not be downloaded.
    """
    if source is None:
        return download(f"{address.rstrip('/')}/{name}", sha256, limits)
    path = source / name
    if not path.is_file():
        raise InputError(f"{source}: has no file {name}.")
    content = read_bytes(path, limits.max_bytes)
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise InputError(
            f"{path}: SHA-256 is {digest[:12]}… instead of {sha256[:12]}…: not the published file."
        )
    return content


def install(collection: str, tables: Sequence[Table], target: Path) -> list[Path]:
    """Write the tables of a collection as folders under target, and return these folders.

    All are written before the first is moved into place, so that a full disk leaves none.
    """
    with scratch_folder(target / collection) as work:
        for table in tables:
            save_folder(table, work / table.name)
        for table in tables:
            replace_folder(work / table.name, target / table.name)
    return [target / table.name for table in tables]
