"""The user's own tables. One file may hold several tables, which `split_by` in its datasheet separates."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.errors import InputError, shortened
from hpobench_nmt.core.files import check_name
from hpobench_nmt.lookup.catalogue import collections, installed
from hpobench_nmt.lookup.collections.collection import install
from hpobench_nmt.lookup.datasheet import Datasheet
from hpobench_nmt.lookup.described_rows import Place, line_of, parsed, table_of_columns
from hpobench_nmt.lookup.folder import add_table, datasheet_of_file
from hpobench_nmt.lookup.rows import Column, Progress, read_rows
from hpobench_nmt.lookup.table import Table

_MOST_TABLES = 1000


def add_tables(
    source: Path,
    datasheet: Path | None,
    target: Path,
    progress: Progress = lambda share: None,
    notify: Callable[[str], None] = lambda message: None,
    ignore_other: bool = False,
) -> list[tuple[Table, Path]]:
    """Install the table of a file or folder. If a file is split into a group of tables, install all or none.

    The arguments and errors are those of `folder.add_table`. A group is named by the datasheet, or else after
    the file. The name of each of its tables is the group's name and the table's values of `split_by`.
    """
    if os.path.isfile(source):  # noqa: PTH113  (False, not an error, for what cannot be a path)
        sheet, sheet_path = datasheet_of_file(source, datasheet)
        if sheet.split_by:
            tables = _split(source, sheet, sheet_path, ignore_other)
            group = str(tables[0].claims["collection"])
            return list(zip(tables, install(group, tables, target), strict=True))
    return [add_table(source, datasheet, target, progress, notify, ignore_other)]


def left_from_before(added: Sequence[tuple[Table, Path]]) -> list[str]:
    """Tables beside the added ones that belong to their group, but that the file does not make.

    An earlier version of the file may have made them. They are part of the group until the user removes them.
    """
    claims = added[0][0].claims
    if claims.get("collection_tables") != len(added):  # one table of a group, and not a file that was split
        return []
    names, target = {folder.name for _, folder in added}, added[0][1].parent
    folders = installed()
    members = collections().get(str(claims["collection"]), [])
    return [name for name in members if name not in names and folders[name].parent == target]


def _split(source: Path, sheet: Datasheet, sheet_path: Path, ignore_other: bool) -> list[Table]:
    group = check_name("group", source.stem if sheet.name is None else sheet.name)
    if sheet.curves is not None or (sheet.replicates is not None and sheet.replicates.seed is None):
        raise InputError(
            f"{sheet_path}: a file that is split cannot have curves.csv or replicates.csv; trainings with "
            "other seeds may be lines of the file itself: seed = COLUMN in [replicates]."
        )
    columns, places = parsed(read_rows(source, follow_link=True), sheet, source, sheet_path, ignore_other)
    tables = []
    for name, rows in _parts(group, sheet.split_by, columns, sheet_path, Place(source, places)).items():
        part = {key: column[rows] for key, column in columns.items()}
        in_file = rows if places is None else places[rows]
        table = table_of_columns(part, sheet, source, sheet_path, rows=in_file)
        if len(table) == 1:
            raise InputError(
                f"{sheet_path}: split_by makes a table with only one row, {name!r}; split by fewer columns."
            )
        tables.append(replace(table, name=check_name("table", name)))
    _refuse_equal(tables, sheet_path)
    members = {
        "collection": group,
        "collection_tables": len(tables),
        "collection_rows": sum(map(len, tables)),
    }
    return [replace(table, claims={**table.claims, **members}) for table in tables]


def _parts(
    group: str, names: Sequence[str], columns: Mapping[str, Column], sheet_path: Path, place: Place
) -> dict[str, Rows]:
    """The rows of each table by the table's name. Tables are in the order in which they first occur."""
    parts: dict[tuple[object, ...], list[int]] = {}
    for row, values in enumerate(zip(*(columns[name].tolist() for name in names), strict=True)):
        for name, value in zip(names, values, strict=True):
            if value == "" or value != value:
                raise InputError(f"{line_of(place, row)}: {shortened(name)} of split_by has no value.")
        parts.setdefault(values, []).append(row)
    if len(parts) > _MOST_TABLES:
        raise InputError(
            f"{sheet_path}: split_by makes {len(parts):,} tables; at most {_MOST_TABLES:,} are allowed."
        )
    found: dict[str, Rows] = {}
    for values, rows in parts.items():
        shown = (
            f"{name}{_shown(value)}" if isinstance(value, float) else _shown(value)
            for name, value in zip(names, values, strict=True)
        )
        table = "-".join([group, *shown])
        if table.casefold() in {known.casefold() for known in found}:
            raise InputError(f"{sheet_path}: two tables of split_by would have the name {table!r}.")
        found[table] = np.array(rows)
    return found


def _shown(value: object) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text)


def _refuse_equal(tables: Sequence[Table], sheet_path: Path) -> None:
    """Refuse two tables with equal rows, because then the columns of split_by separate nothing."""
    known: dict[str, str] = {}
    for table in tables:
        other = known.setdefault(table.sha256, table.name)
        if other != table.name:
            raise InputError(f"{sheet_path}: split_by makes two equal tables, {other!r} and {table.name!r}.")
