"""The type of a published collection of tables, and functions that collections share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import read_bytes
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Scale
from hpobench_nmt.lookup.collections.archives import gunzipped
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits, download
from hpobench_nmt.lookup.folder import install as install
from hpobench_nmt.lookup.rows import arrow_file
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd


class Fetch(Protocol):
    """Installs a collection's tables."""

    def __call__(
        self, target: Path, source: Path | None = None, address: str = "", limits: Limits = DEFAULT_LIMITS
    ) -> list[Path]:
        """Install all tables as folders under target, or none, and return these folders.

        Args:
            target: folder of table folders.
            source: take the authors' files from this folder instead of the network.
            address: address of the files; if empty, the authors' own address.
            limits: limits of each download.
        """


@dataclass(frozen=True)
class Collection:
    """Tables that were published together, and how to get them.

    Attributes:
        name: name of the collection, which the datasheets of its tables have in their claims.
        title: description in one line.
        tables: names of the tables.
        licence, address: licence and address of the authors' files.
        files: description of a copy of the files, for users of `tables fetch --from`.
        fetch: function that installs the tables.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    licence: str
    address: str
    files: str
    fetch: Fetch


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
    path = found_file(source, (name, f"{name}.gz"), within)
    content = read_bytes(path, limits.max_bytes)
    if path.name != name:
        content = gunzipped(content, path, limits.max_bytes)
    check_sha256(content, sha256, path)
    return content


def found_file(source: Path, names: Sequence[str], within: str = "") -> Path:
    """The first file with one of these names in a folder, or in `within` below it; InputError if missing."""
    places = [source / within / name for name in names] if within else []
    for path in [source / name for name in names] + places:
        if path.is_file():
            return path
    raise InputError(f"{source}: has no file {names[0]}.")


def check_sha256(content: bytes, sha256: str, where: object) -> None:
    """Raise InputError if the content is not that of the published file."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise InputError(
            f"{where}: SHA-256 is {digest[:12]}… instead of {sha256[:12]}…: not the published file."
        )


def csv_frame(content: bytes, where: object) -> pd.DataFrame:
    """A CSV file as a frame, with numbers read as the nearest doubles; InputError if it is not a CSV file."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    options = arrow.ConvertOptions(strings_can_be_null=True)
    try:
        table = arrow.read_csv(arrow_file(content), convert_options=options)
        frame: pd.DataFrame = table.to_pandas()
        return frame
    except pa.ArrowException as error:
        raise InputError(f"{where}: not a CSV table ({' '.join(str(error).split())[:100]}).") from None


def grid_axis(
    name: str, column: Sequence[Any] | pd.Series, scale: Scale = "linear", unit: str = ""
) -> Hyperparameter:
    """A numeric hyperparameter with the values that occur in a column."""
    return Hyperparameter(name, tuple(sorted(set(column))), scale, unit)


def framed_table(
    name: str, axes: Sequence[Hyperparameter], metrics: Sequence[Metric], frame: pd.DataFrame, **more: Any
) -> Table:
    """A table from a frame with a column for each hyperparameter and metric. Each line becomes a row."""
    configs = [[h.code(value) for value in frame[h.name]] for h in axes]
    values = [frame[metric.name].to_numpy(np.float64) for metric in metrics]
    return Table(name, tuple(axes), tuple(metrics), np.array(configs).T, np.column_stack(values), **more)
