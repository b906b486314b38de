"""The type of a published collection of tables, and functions that collections share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.validation import Strict
from hpobench_nmt.lookup.collections.archives import gunzipped
from hpobench_nmt.lookup.disk.folder import install
from hpobench_nmt.lookup.disk.rows import arrow_table
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits, download
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd


@dataclass(frozen=True)
class Origin:
    """Where the authors' files are taken from: a folder, or else an address on the network, within limits."""

    source: Path | None
    address: str
    limits: Limits


class PublishedFile(Strict, frozen=True):
    """One of the authors' files, as declared.py explains."""

    sha256: str
    path: str = ""
    adds: dict[str, str] = msgspec.field(default_factory=dict)


class Declaration(Strict, frozen=True):
    """What the file NAME.toml of a collection declares; declared.py explains the keys."""

    title: str
    licence: str
    repository: str
    commit: str
    folder: str
    files: dict[str, PublishedFile]
    tables: dict[str, dict[str, Any]]
    rows: int | None = None
    curves: str = ""
    levels: list[str] = msgspec.field(default_factory=list)
    headings: dict[str, list[str]] = msgspec.field(default_factory=dict)
    reader: str = ""
    members: str = ""
    max_bytes: int = DEFAULT_LIMITS.max_bytes
    sheet: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Collection:
    """Tables that were published together, and how to get them.

    Attributes:
        name: name of the collection, which the datasheets of its tables have in their claims.
        given: what its file declares.
        tables: names of the tables.
        sha256: hashes of the files by name. If a copy of a file is compressed, the hash is of its content.
        tables_from: makes the tables, given the collection, the origin of its files, and the folder of table
            folders in which the tables will be installed.
        limits: limits of each download.
        address: address of the files, or of an archive of the repository.
        files: description of a copy of the files, for users of `tables fetch --from`.
    """

    name: str
    given: Declaration
    tables: tuple[str, ...]
    sha256: Mapping[str, str]
    tables_from: Callable[[Collection, Origin, Path], Sequence[Table]]
    limits: Limits
    address: str
    files: str

    def fetch(
        self, target: Path, source: Path | None = None, address: str = "", limits: Limits | None = None
    ) -> list[Path]:
        """Install all tables as folders under target, or none, and return these folders.

        Args:
            target: folder of table folders.
            source: take the authors' files from this folder instead of the network.
            address: address of the files; if empty, the authors' own address.
            limits: limits of each download; by default, those of the collection.
        """
        origin = Origin(source, address or self.address, limits or self.limits)
        return install(self.name, self.tables_from(self, origin, target), target)


def published_file(
    name: str, sha256: str, source: Path | None, address: str, limits: Limits, within: str = ""
) -> bytes:
    """The content of one of the authors' files, from a folder or else from the network address.

    Args:
        name: name of the file. A folder may have NAME.gz instead.
        sha256: hash of the decompressed content.
        source: the folder, which holds the files or is a clone of the authors' repository.
        address: address of the folder on the network.
        limits: limits of a download. For a file in a folder, only the size is limited.
        within: the folder of the files in the authors' repository.

    Raises:
        InputError: the folder does not have this file, or has a different file of this name.
        RunError: the file could not be downloaded.
    """
    if source is None:
        return download(f"{address.rstrip('/')}/{name}", sha256, limits)
    names = (name, f"{name}.gz")
    places = [folder / each for folder in (source, source / within) for each in names]
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise InputError(f"{source}: has no file {name}.")
    content = read_bytes(path, limits.max_bytes)
    if path.name != Path(name).name:
        content = gunzipped(content, path, limits.max_bytes)
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        found = f"SHA-256 is {digest[:12]}… instead of {sha256[:12]}…"
        raise InputError(f"{path}: {found}: not the published file.")
    return content


def csv_frame(content: bytes, where: object) -> pd.DataFrame:
    """A CSV file as a frame, with numbers read as the nearest doubles; InputError if it is not a CSV file."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    try:
        table = arrow_table(content, convert_options=arrow.ConvertOptions(strings_can_be_null=True))
        frame: pd.DataFrame = table.to_pandas()
        return frame
    except pa.ArrowException as error:
        raise InputError(f"{where}: not a CSV table ({' '.join(str(error).split())[:100]}).") from None
