"""A table, or a group of tables, from the contents of its files and the datasheet that describes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace as replace_struct
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space, label, short_label
from hpobench_nmt.core.system.errors import InputError, shortened, unknown
from hpobench_nmt.core.system.files import check_name
from hpobench_nmt.core.system.text import counted, number_of
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.disk.curve_files import read_curves
from hpobench_nmt.lookup.disk.datasheet import Datasheet, check_claims
from hpobench_nmt.lookup.disk.file_names import BESIDE, CURVES, REPLICATES
from hpobench_nmt.lookup.disk.rows import Column, Wanted, line_of, parse_columns, values_of
from hpobench_nmt.lookup.groups import configurations_of, means, training_numbers, wrong_seed
from hpobench_nmt.lookup.replicates import ReplicateRows, Replicates
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.lookup.valid_rows import NO_VALUE

_MOST_TABLES = 1000


@dataclass(frozen=True)
class Files:
    """The files of a table, or of a group of tables.

    Attributes:
        sheet: the datasheet, which may leave out values, counts and hashes.
        sheet_path, path: paths of the datasheet and of the CSV or Parquet file of rows, for messages.
        rows: content of the file of rows.
        beside: functions that return the contents of the other files that the datasheet describes, by its
            section. Those of replicates are called on first use. If the datasheet names a column of seeds
            instead of replicates.csv, the lines of the file of rows are the replicates, and the table's rows
            are their means.
        hashed: whether the datasheet states hashes, which the files have. It must also state the number of
            rows then.
    """

    sheet: Datasheet
    sheet_path: Path
    path: Path
    rows: bytes
    beside: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    hashed: bool = False


class Place(NamedTuple):
    """The source of rows: a file and, if they are only some of its rows, their places in the file."""

    file: Path
    rows: Rows | None = None

    def of_rows(self, rows: Rows) -> Place:
        """The place of these rows among the rows here."""
        return Place(self.file, rows if self.rows is None else self.rows[rows])

    def line(self, row: int) -> str:
        """The location of a row, for messages."""
        return line_of(self.file, row if self.rows is None else int(self.rows[row]))

    def refuse(self, wrong: Bools, message: str) -> None:
        """Raise InputError with the message and the location of the first wrong row, if any row is wrong."""
        if wrong.any():
            raise InputError(f"{self.line(int(np.flatnonzero(wrong)[0]))}: {message}")


def tables_of(files: Files, ignore_other: bool = False) -> list[Table]:
    """The table that the files hold, or the tables of a group if the datasheet has `split_by`.

    With `ignore_other`, columns that the datasheet does not describe are left out. Raises InputError if the
    files do not match the datasheet; the message has the file and the line.
    """
    sheet, place = files.sheet, Place(files.path)
    columns = parse_columns(files.rows, sheet.wanted(ignore_other), files.path)
    if sheet.only:
        rows = np.flatnonzero(_taken(columns, sheet, files.sheet_path))
        columns = {name: columns[name][rows] for name in columns if name not in sheet.of_rows}
        place = place.of_rows(rows)
    name = sheet.table_name(files.path)
    if sheet.split_by:
        return _group(name, files, columns, place)
    table = _table(name, files, columns, place)
    if files.hashed and sheet.rows.count != len(table):
        held = counted(len(table), "row")
        raise InputError(f"{files.sheet_path}: [rows] count is {sheet.rows.count!r}, the file has {held}.")
    return [table]


def _taken(columns: Mapping[str, Column], sheet: Datasheet, sheet_path: Path) -> Bools:
    """Which rows have, in each column of [only], one of the values that [only] lists for it."""
    taken = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for name, values in sheet.only.items():
        cells = ["" if cell != cell else _as_text(cell) for cell in columns[name].tolist()]
        wanted = list(map(_as_text, values))
        if absent := [value for value in wanted if value not in cells]:
            raise unknown("value", absent[0], set(cells), f"({sheet_path}, [only], column {name!r})")
        taken &= np.isin(cells, wanted)
    if not taken.any():
        raise InputError(f"{sheet_path}: [only] leaves no row.")
    return taken


def _as_text(value: Any) -> str:
    """A cell or a value of [only] as a text; `label` takes finite numbers only."""
    return label(value) if not isinstance(value, float) or math.isfinite(value) else repr(value)


def _table(name: str, files: Files, columns: Mapping[str, Column], place: Place) -> Table:
    """A table of this name from the columns of its rows. `place` has the rows' places in the file."""
    sheet = files.sheet
    try:
        metrics = tuple(map(sheet.metric, sheet.metrics))
        axes, configs = _coded("hyperparameter", sheet.hyperparameters, sheet, columns, place)
        if wrong := Space(axes).wrongly_active(configs):
            raise InputError(f"{place.line(wrong[0])}: {wrong[1]}")
        described = _descriptors(sheet, columns, place)
        values = _values(sheet, columns)
        read: Callable[[], ReplicateRows] | None = None
        if sheet.seed is not None:
            first, number = configurations_of(configs)
            read = _trainings(configs, number, columns[sheet.seed], values, place)
            configs, values = configs[first], means(values, number)
            described = described and described.of_rows(first)
        if "replicates" in files.beside:
            read = partial(_read_replicates, files, axes, metrics)
        table = Table(
            name=name,
            hyperparameters=axes,
            metrics=metrics,
            configs=configs,
            values=values,
            objectives=tuple(sheet.goals),
            provenance=sheet.provenance,
            claims=sheet.claims,
            curves=_curves(files, "curves", metrics, len(configs)),
            replicates=read and Replicates(axes, tuple(sheet.metrics), read, sheet.averaged),
            descriptors=described,
        )
        check_claims(sheet.claims, table, files.sheet_path)
    except InputError as error:
        known = (files.path, files.sheet_path, files.path.with_name(CURVES))
        if str(error).startswith(tuple(map(str, known))):
            raise
        raise InputError(f"{files.sheet_path}: {error}") from None
    return table


def _coded(
    kind: str, names: Iterable[str], sheet: Datasheet, columns: Mapping[str, Column], place: Place
) -> tuple[tuple[Hyperparameter, ...], Floats]:
    """Hyperparameters or features with the codes of their columns, shape (rows, H)."""
    axes = []
    for name in names:
        if columns[name].dtype != object:
            place.refuse(np.isinf(columns[name]), f"{kind} {name!r} is not finite.")
        axes.append(sheet.axis(name, columns[name]))
    return tuple(axes), np.column_stack([codes_of_cells(axis, columns[axis.name], place) for axis in axes])


def _descriptors(sheet: Datasheet, columns: Mapping[str, Column], place: Place) -> Descriptors | None:
    if not sheet.features:
        return None
    axes, codes = _coded("feature", sheet.features, sheet, columns, place)
    for axis, column in zip(axes, codes.T, strict=True):
        place.refuse(~np.isin(column, axis.numbers), f"{axis.name} is not among its values.")
    return Descriptors(axes, codes)


def _values(sheet: Datasheet, columns: Mapping[str, Column]) -> Floats:
    """The values of all metrics, shape (rows, M)."""
    return np.column_stack([values_of(sheet.metric(name), columns[name]) for name in sheet.metrics])


def _trainings(
    configs: Floats, number: Rows, seeds: Floats, values: Floats, place: Place
) -> Callable[[], ReplicateRows]:
    """A function that returns the trainings, those of a configuration one after another.

    `number` has the number of each training's configuration.
    """
    if wrong := wrong_seed(seeds, number):
        raise InputError(f"{place.line(wrong[0])}: {wrong[1]}")
    rows = ReplicateRows(configs, training_numbers(number).astype(np.float64), seeds, values)
    return partial(rows.of_trainings, np.argsort(number, kind="stable"))


def _curves(files: Files, section: str, metrics: Sequence[Metric], n_rows: int) -> Curves | None:
    """The curves in the file of a section, if the table has them."""
    about = files.sheet.curves
    if about is None or section not in files.beside:
        return None
    if section == "replicate_curves":  # the columns are the same
        about = replace_struct(about, count=None)
    path = files.path.with_name(BESIDE[section])
    return read_curves(files.beside[section](), about, metrics, n_rows, path, files.sheet.missing_words)


def _read_replicates(
    files: Files, axes: Sequence[Hyperparameter], metrics: Sequence[Metric]
) -> ReplicateRows:
    """The trainings in a table's replicates.csv, and their curves.

    Raises InputError, with the line, if a column is missing or unknown, or a cell is not a number or not on
    the grid.
    """
    sheet, path = files.sheet, files.path.with_name(REPLICATES)
    names = [*sheet.hyperparameters, "replicate", "seed", *sheet.metrics]
    labels = [axis.name for axis in axes if not axis.is_numeric]
    wanted = Wanted(names, labels, words=sheet.missing_words)
    columns = parse_columns(files.beside["replicates"](), wanted, path)
    place = Place(path)
    configs = np.column_stack([codes_of_cells(axis, columns[axis.name], place) for axis in axes])
    for axis, codes in zip(axes, configs.T, strict=True):
        off_grid = ~(np.isin(codes, axis.numbers) | np.isnan(codes))
        if off_grid.any():
            value = short_label(codes[off_grid][0].item())
            place.refuse(off_grid, f"{axis.name} is {value}, which is not among the table's values.")
    curves = _curves(files, "replicate_curves", metrics, len(configs))
    return ReplicateRows(configs, columns["replicate"], columns["seed"], _values(sheet, columns), curves)


def codes_of_cells(h: Hyperparameter, cells: NDArray[Any], place: Path | Place) -> Floats:
    """The codes of a hyperparameter's column, given as parse_columns returns it."""
    place = Place(place) if isinstance(place, Path) else place
    codes = h.snapped(cells) if h.is_numeric else _codes_of_labels(h, cells, place)
    if not h.active_if:
        place.refuse(np.isnan(codes), NO_VALUE.format(h.name))
    return codes


def _codes_of_labels(h: Hyperparameter, cells: NDArray[Any], place: Place) -> Floats:
    texts = cells.tolist()
    if cells.dtype != object:
        texts = ["" if cell != cell else label(cell) for cell in texts]
    place_of = {"": np.nan} | {text: float(place) for place, text in enumerate(h.labels)}
    found = {text: place_of.get(_as_label(text, place_of)) for text in set(texts)}
    for row, text in enumerate(texts):
        if found[text] is None:
            raise InputError(f"{place.line(row)}: {unknown(f'value of {h.name}', text, h.labels)}")
    return np.array([found[text] for text in texts], dtype=np.float64)


def _as_label(text: str, known: Mapping[str, float]) -> str:
    """A text in the spelling of known labels: true for True, and 1 for 1.0."""
    if text in known:
        return text
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return label(number_of(text))
    except (ValueError, OverflowError):
        return text


def _group(name: str, files: Files, columns: Mapping[str, Column], place: Place) -> list[Table]:
    """The tables of a file that `split_by` separates. Their names are the group's name and their values."""
    check_name("group", name)
    tables: dict[str, Table] = {}
    for member, rows in _members(name, files, columns, place).items():
        part = {key: column[rows] for key, column in columns.items()}
        table = _table(member, files, part, place.of_rows(rows))
        if len(table) == 1:
            raise InputError(
                f"{files.sheet_path}: split_by makes a table with only one row, {member!r}; split by fewer "
                "columns."
            )
        other = tables.setdefault(table.sha256, table).name
        if other != member:  # the columns of split_by separate nothing
            raise InputError(
                f"{files.sheet_path}: split_by makes two equal tables, {other!r} and {member!r}."
            )
    whole = {"collection": name, "collection_tables": len(tables)}
    whole["collection_rows"] = sum(map(len, tables.values()))
    return [replace(table, claims={**table.claims, **whole}) for table in tables.values()]


def _members(group: str, files: Files, columns: Mapping[str, Column], place: Place) -> dict[str, Rows]:
    """The rows of each table by the table's name. Tables are in the order in which they first occur."""
    names = files.sheet.split_by
    parts: dict[tuple[object, ...], list[int]] = {}
    for row, values in enumerate(zip(*(columns[name].tolist() for name in names), strict=True)):
        for name, value in zip(names, values, strict=True):
            if value == "" or value != value:
                raise InputError(f"{place.line(row)}: {shortened(name)} of split_by has no value.")
        parts.setdefault(values, []).append(row)
    if len(parts) > _MOST_TABLES:
        raise InputError(
            f"{files.sheet_path}: split_by makes {len(parts):,} tables; at most {_MOST_TABLES:,} are allowed."
        )
    found: dict[str, Rows] = {}
    for values, rows in parts.items():
        pairs = zip(names, values, strict=True)
        shown = [name * isinstance(value, float) + _shown(value) for name, value in pairs]
        table = "-".join([group, *shown])
        if table.casefold() in {known.casefold() for known in found}:
            raise InputError(f"{files.sheet_path}: two tables of split_by would have the name {table!r}.")
        found[table] = np.array(rows)
    return found


def _shown(value: object) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", f"{value:.12g}" if isinstance(value, float) else str(value))
