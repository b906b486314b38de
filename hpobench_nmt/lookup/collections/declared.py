"""Collections that are declared in a file NAME.toml in this folder.

title             description in one line
licence           the licence of the authors' files
repository, commit, folder   the repository on GitHub, its commit, and the folder of the files in it
rows              the number of rows of all tables that the authors state, if they state it
curves            the collection that adds learning curves to these tables, if another one does. A table that
                  is installed again with the same rows keeps them
files             files by a short name, which a copy may have: `sha256`, `path` (of the authors' file in the
                  folder; by default the name) and `adds` (columns of one value)
max_bytes         the limit of a file's size, if it is not that of all downloads
levels            for JSON files: the names of the nested keys above the trainings, which become columns
headings          for files of numbers without a heading: their columns by the suffix of the file
reader            for files of other forms: a function of readers.py that makes frames of them
members           for a reader of many files of the authors: the names of these files in the folder, as a
                  regular expression. The commit alone identifies them. `files` are those of a copy that was
                  made of them
[sheet]           what all tables have in common
[tables.NAME]     a table: the settings of declared_table.py. With `several`, a list of names, they are those
                  of a table for each of these names, of the lines that have it in the column `table`. With
                  `like`, the name of another table, it also has the settings of that table. The title may
                  name columns in braces, whose values are those of the first row, and {table}, the name
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError, foreign
from hpobench_nmt.core.system.files import parse_json
from hpobench_nmt.core.system.validation import load_toml
from hpobench_nmt.lookup.collections.archives import folder_members, tar_members
from hpobench_nmt.lookup.collections.collection import (
    Collection,
    Declaration,
    Origin,
    csv_frame,
    published_file,
)
from hpobench_nmt.lookup.collections.declared_table import table_of
from hpobench_nmt.lookup.collections.readers import READERS, Reader
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.disk.rows import arrow_file
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, download
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

# The limits of an archive of a whole repository, and of its content.
_MOST_PACKED, _MOST_BYTES = 2**30, 2**32


def read_declaration(
    path: Path, more: Callable[[Mapping[str, Any], Path], Sequence[Table]] | None = None
) -> Collection:
    """The collection that a file declares; InputError if it is not a declaration.

    `more` returns further tables to install, given the frames of the files and the folder of tables.
    """
    given = load_toml(path, Declaration)
    by_table = _sections(given)

    def tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
        with foreign(origin.source or origin.address, f"not the files of commit {given.commit}"):
            frames = _frames(collection, origin)
            made = [table_of(collection, path, name, own, frames) for name, own in by_table.items()]
        if given.curves:
            made = [_with_known_curves(table, target / table.name) for table in made]
        return made + list(more(frames, target) if more else ())

    where = f"github.com/{given.repository}"
    address = f"https://raw.githubusercontent.com/{given.repository}/{given.commit}/{given.folder}"
    limits = replace(DEFAULT_LIMITS, max_bytes=given.max_bytes)
    copy = f"`{given.folder}` of a clone of {where}"
    if given.members:
        limits = replace(DEFAULT_LIMITS, max_bytes=_MOST_PACKED, total_s=900.0)
        address = f"https://codeload.github.com/{given.repository}/tar.gz/{given.commit}"
        copy = f"a clone of {where}, or {' and '.join(given.files)}, made of its files"
    return Collection(
        name=path.stem,
        given=given,
        tables=tuple(by_table),
        sha256={name: file.sha256 for name, file in given.files.items()},
        tables_from=tables,
        limits=limits,
        address=address,
        files=copy,
    )


def _sections(given: Declaration) -> dict[str, dict[str, Any]]:
    """The settings of each table: its own, which prevail, those of a table like it, and those of all."""
    found: dict[str, dict[str, Any]] = {}
    for key, own in given.tables.items():
        whole = _joined(given.sheet, _joined(given.tables.get(own.get("like", ""), {}), own))
        names = whole.pop("several", [])
        found |= {name: {**whole, "only": {"table": [name]}} for name in names} if names else {key: whole}
    return found


def _joined(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Common settings and own ones, which prevail; sections are joined."""
    sections = {key: {**common[key], **own[key]} for key in common.keys() & own if isinstance(own[key], dict)}
    return {**common, **own, **sections}


def _with_known_curves(table: Table, folder: Path) -> Table:
    """The table with the curves of the installed table, if that has the same rows."""
    try:
        old = load_folder(folder)
    except InputError:  # no table is installed, or it is damaged and will be replaced
        return table
    return replace(table, curves=old.curves) if old.sha256 == table.sha256 else table


def _frames(collection: Collection, origin: Origin) -> dict[str, pd.DataFrame]:
    """The files as frames with a line for each training or checkpoint, by their short names."""
    given = collection.given
    if not given.reader or (given.members and _is_copy(given, origin.source)):
        return {name: _frame(collection, name, origin) for name in given.files}
    if given.members:
        members = _members(given, origin)
    else:
        members = ((name, _content(collection, name, origin)) for name in given.files)
    return _read(READERS[given.reader], members, f"not the file of commit {given.commit}")


def _read(reader: Reader, members: Iterable[tuple[str, bytes]], told: str) -> dict[str, pd.DataFrame]:
    """The frames that a reader makes of files. An error while it reads a file names this file."""
    held = ""

    def noted() -> Iterator[tuple[str, bytes]]:
        nonlocal held
        for name, content in members:
            held = name
            yield name, content
            held = ""

    try:
        return reader(noted())
    except Exception:
        with foreign(held, told) if held else nullcontext():
            raise


def _is_copy(given: Declaration, source: Path | None) -> bool:
    """Whether a folder has the files that were made of the authors'."""
    first = next(iter(given.files))
    return source is not None and any((source / name).is_file() for name in (first, f"{first}.gz"))


def _members(given: Declaration, origin: Origin) -> Iterator[tuple[str, bytes]]:
    """The names in the folder, and the contents, of the authors' files."""
    if origin.source is not None:
        return folder_members(origin.source / given.folder, given.members, _MOST_BYTES)
    content = download(origin.address, None, origin.limits)
    within = f"{given.folder}/" if given.folder else ""
    found = tar_members(content, origin.address, f"[^/]+/{within}{given.members}", _MOST_BYTES)
    # The archive has one folder, whose name is that of the repository and the commit.
    return ((name.partition("/")[2].removeprefix(within), content) for name, content in found)


def _content(collection: Collection, name: str, origin: Origin) -> bytes:
    """The content of a file. A copy may have the short name."""
    given = collection.given
    copied = origin.source is not None and (origin.source / name).is_file()
    path = name if copied else given.files[name].path or name
    sha256 = collection.sha256[name]
    return published_file(path, sha256, origin.source, origin.address, origin.limits, given.folder)


def _frame(collection: Collection, name: str, origin: Origin) -> pd.DataFrame:
    """A file as a frame."""
    import pandas as pd
    import pyarrow.parquet as pq

    given, content = collection.given, _content(collection, name, origin)
    suffix = Path(name).suffix
    if suffix == ".jsonl":
        frame = pd.DataFrame([parse_json(line, name) for line in content.splitlines()])
    elif suffix == ".json":
        frame = pd.DataFrame(_records(parse_json(content, name), given.levels, name))
    elif suffix == ".parquet":
        frame = pq.read_table(arrow_file(content), use_threads=False).to_pandas()
    elif columns := given.headings.get(suffix.removeprefix(".")):
        frame = pd.DataFrame(np.loadtxt(io.BytesIO(content), ndmin=2), columns=columns)
    else:
        frame = csv_frame(content, name)
    return frame.assign(**given.files[name].adds)


def _records(part: Any, levels: Sequence[str], where: str) -> list[dict[str, Any]]:
    """The trainings in nested JSON, with the keys above them as values of `levels`."""
    if not isinstance(part, dict if levels else list):
        expected = f"an object by {levels[0]}" if levels else "a list of trainings"
        raise InputError(f"{where}: a part of it is not {expected}.")
    if not levels:
        return list(part)
    inner = {key: _records(part[key], levels[1:], where) for key in part}
    return [{levels[0]: key, **record} for key, records in inner.items() for record in records]
