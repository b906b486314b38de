"""A table from columns of cells and a datasheet that describes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.errors import InputError, shortened, unknown
from hpobench_nmt.core.space import Hyperparameter, Space, label, short_label
from hpobench_nmt.core.text import number_of
from hpobench_nmt.lookup.curve_files import read_curves
from hpobench_nmt.lookup.datasheet import Datasheet, check_claims, provenance_of
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.file_names import CURVES, REPLICATES
from hpobench_nmt.lookup.groups import configurations_of, means, training_numbers, wrong_seed
from hpobench_nmt.lookup.parquet_rows import parquet_columns
from hpobench_nmt.lookup.replicates import ReplicateRows, Replicates
from hpobench_nmt.lookup.rows import Column, first_label, parse_columns, values_of
from hpobench_nmt.lookup.table import NO_VALUE, Table

_PARQUET = ".parquet"


class Place(NamedTuple):
    """The source of rows: a file and, if they are only some of its rows, their places in the file."""

    file: Path
    rows: Rows | None


def build_table(
    content: bytes,
    sheet: Datasheet,
    csv_path: Path,
    sheet_path: Path,
    curves: bytes | None = None,
    replicates: Callable[[], bytes] | None = None,
    ignore_other: bool = False,
) -> Table:
    """A table from its file of rows and a datasheet, which may leave out values, counts and hashes.

    Args:
        content: content of the CSV or Parquet file.
        sheet: the datasheet of the file.
        csv_path, sheet_path: paths of both, for messages.
        curves: content of curves.csv, if the datasheet describes it.
        replicates: returns the content of replicates.csv, if the datasheet describes it; called on first use.
            If the datasheet names a column of seeds instead, the lines of the file are the replicates, and
            the table's rows are their means.
        ignore_other: whether to leave out columns that the datasheet does not describe.
    """
    if sheet.split_by:
        raise InputError(
            f"{sheet_path}: split_by makes several tables of a file; 'tables add' installs them."
        )
    columns, rows = parsed(content, sheet, csv_path, sheet_path, ignore_other)
    if rows is not None and curves is not None:
        raise InputError(f"{sheet_path}: [only] leaves out rows, and curves.csv numbers all of them.")
    return table_of_columns(columns, sheet, csv_path, sheet_path, curves, replicates, rows)


def parsed(
    content: bytes, sheet: Datasheet, csv_path: Path, sheet_path: Path, ignore_other: bool = False
) -> tuple[dict[str, Column], Rows | None]:
    """The columns of the rows by name, without ignored columns, and the places of the rows in the file.

    The places are None unless [only] leaves out rows. Raises InputError like `build_table`.
    """
    seed = sheet.replicates.seed if sheet.replicates else None
    if seed is not None:
        _check_seed_column(seed, sheet, sheet_path)
    names = [*sheet.columns, *filter(None, [seed]), *sheet.of_rows]
    ignored = None if ignore_other else sheet.ignore
    labels, either = sheet.columns_by_kind()
    if csv_path.suffix == _PARQUET:
        columns = parquet_columns(content, names, csv_path, {*labels, *either}, ignored)
    else:
        columns = parse_columns(content, names, csv_path, labels, either, ignored, sheet.missing_words)
        for name in either:
            _refuse_mixed(name, columns[name], csv_path)
    if not sheet.only:
        return columns, None
    rows = np.flatnonzero(_taken(columns, sheet, sheet_path))
    return {name: columns[name][rows] for name in columns if name not in sheet.of_rows}, rows


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


def table_of_columns(
    columns: dict[str, Column],
    sheet: Datasheet,
    csv_path: Path,
    sheet_path: Path,
    curves: bytes | None = None,
    replicates: Callable[[], bytes] | None = None,
    rows: Rows | None = None,
) -> Table:
    """A table from the columns of its rows, which `parsed` returns; otherwise like `build_table`.

    `rows` has the places of the rows in the file, if they are only some of its rows.
    """
    seed = sheet.replicates.seed if sheet.replicates else None
    place = Place(csv_path, rows)
    try:
        metrics = tuple(sheet.metric(name) for name in sheet.metrics)
        for name in sheet.hyperparameters:
            if columns[name].dtype != object:
                _first_line(place, np.isinf(columns[name]), f"hyperparameter {name!r} is not finite.")
        axes = tuple(sheet.axis(name, columns[name]) for name in sheet.hyperparameters)
        for axis in axes:
            columns[axis.name] = codes_of_cells(axis, columns[axis.name], place)
        configs = np.column_stack([columns[axis.name] for axis in axes])
        described = _descriptors(sheet, columns, place)
        wrong = Space(axes).wrongly_active(configs)
        if wrong:
            raise InputError(f"{line_of(place, wrong[0])}: {wrong[1]}")
        values = _values(sheet, columns)  # before means are computed
        read: Callable[[], ReplicateRows] | None = None
        if replicates is not None:
            read = partial(read_replicates, replicates, sheet, axes, csv_path.with_name(REPLICATES))
        if seed is not None:
            first, number = configurations_of(configs)
            if wrong := wrong_seed(columns[seed], number):
                raise InputError(f"{line_of(place, wrong[0])}: {wrong[1]}")
            trainings = configs, training_numbers(number).astype(np.float64), columns[seed], values
            in_order = np.argsort(number, kind="stable")
            read = read or partial(ReplicateRows, *(array[in_order] for array in trainings))
            configs, values = configs[first], means(values, number)
            described = described and described.of_rows(first)
        averaged = seed is not None or (sheet.replicates is not None and sheet.replicates.averaged)
        objectives = sheet.objectives if sheet.objectives is not None else [metrics[0].name]
        table = Table(
            name=csv_path.stem if sheet.name is None else sheet.name,
            hyperparameters=axes,
            metrics=metrics,
            configs=configs,
            values=values,
            objectives=tuple(objectives),
            provenance=provenance_of(sheet, sheet_path),
            claims=sheet.claims,
            curves=None
            if curves is None or sheet.curves is None
            else read_curves(
                curves, sheet.curves, metrics, len(configs), csv_path.with_name(CURVES), sheet.missing_words
            ),
            replicates=read and Replicates(axes, tuple(sheet.metrics), read, averaged),
            descriptors=described,
        )
        check_claims(sheet.claims, table, sheet_path)
    except InputError as error:
        if str(error).startswith((str(csv_path), str(sheet_path), str(csv_path.with_name(CURVES)))):
            raise
        raise InputError(f"{sheet_path}: {error}") from None
    return table


def _values(sheet: Datasheet, columns: Mapping[str, Column]) -> Floats:
    """The values of all metrics, shape (rows, M)."""
    return np.column_stack([values_of(sheet.metric(name), columns[name]) for name in sheet.metrics])


def _descriptors(sheet: Datasheet, columns: Mapping[str, Column], path: Place) -> Descriptors | None:
    if not sheet.features:
        return None
    axes = tuple(sheet.axis(name, columns[name]) for name in sheet.features)
    codes = [codes_of_cells(axis, columns[axis.name], path) for axis in axes]
    for axis, column in zip(axes, codes, strict=True):
        _first_line(path, ~np.isin(column, axis.numbers), f"{axis.name} is not among its values.")
    return Descriptors(axes, np.column_stack(codes))


def read_replicates(
    content: Callable[[], bytes], sheet: Datasheet, axes: Sequence[Hyperparameter], path: Path
) -> ReplicateRows:
    """The trainings in a table's replicates.csv, whose content `content()` returns.

    Raises:
        InputError: a column is missing or unknown, or a cell is not a number or not on the grid; the message
            has the line.
    """
    names = [*sheet.hyperparameters, "replicate", "seed", *sheet.metrics]
    columns = parse_columns(content(), names, path, *sheet.columns_by_kind(), words=sheet.missing_words)
    configs = np.column_stack([codes_of_cells(axis, columns[axis.name], path) for axis in axes])
    for axis, codes in zip(axes, configs.T, strict=True):
        off_grid = ~(np.isin(codes, axis.numbers) | np.isnan(codes))
        if off_grid.any():
            value = short_label(codes[off_grid][0].item())
            _first_line(path, off_grid, f"{axis.name} is {value}, which is not among the table's values.")
    return ReplicateRows(configs, columns["replicate"], columns["seed"], _values(sheet, columns))


def _refuse_mixed(name: str, cells: NDArray[Any], path: Path) -> None:
    """Refuse a column of numbers and texts if its datasheet does not state its kind: probably a typo."""
    place = first_label(cells) if cells.dtype == object else None
    if place is not None:
        raise InputError(
            f"{line_of(path, place)}: {name} is {shortened(cells[place])}, but others of its cells are "
            'numbers. If all are labels, write in its section: kind = "categorical".'
        )


def _check_seed_column(seed: str, sheet: Datasheet, sheet_path: Path) -> None:
    if sheet.curves is not None:
        raise InputError(
            f"{sheet_path}: a table with [curves] cannot have several trainings of a configuration."
        )
    for name in (*sheet.hyperparameters, *sheet.metrics):
        if name in (seed, "replicate", "seed"):
            raise InputError(
                f"{sheet_path}: {name!r} cannot be a hyperparameter or metric where [replicates] names a "
                "column of seeds."
            )


def codes_of_cells(h: Hyperparameter, cells: NDArray[Any], path: Path | Place) -> NDArray[np.float64]:
    """The codes of a hyperparameter's column, given as parse_columns returns it."""
    codes = h.snapped(cells) if h.is_numeric else cells
    if not h.is_numeric:
        texts = cells if cells.dtype == object else _cells_of_numbers(cells)
        place_of = {"": np.nan} | {text: float(place) for place, text in enumerate(h.labels)}
        found = {text: place_of.get(_as_label(text, place_of)) for text in set(texts)}
        wrong = np.array([found[text] is None for text in texts])
        if wrong.any():
            line = int(np.flatnonzero(wrong)[0])
            error = unknown(f"value of {h.name}", texts[line], h.labels)
            raise InputError(f"{line_of(path, line)}: {error}")
        codes = np.array([found[text] for text in texts], dtype=np.float64)
    if not h.active_if:
        _first_line(path, np.isnan(codes), NO_VALUE.format(h.name))
    return codes


def _cells_of_numbers(cells: NDArray[np.float64]) -> NDArray[Any]:
    column = np.empty(len(cells), dtype=object)
    column[:] = ["" if np.isnan(cell) else label(cell) for cell in cells.tolist()]
    return column


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


def _first_line(path: Path | Place, wrong: NDArray[np.bool_], message: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise InputError(f"{line_of(path, int(rows[0]))}: {message}")


def line_of(path: Path | Place, row: int) -> str:
    """The location of a row, for messages."""
    if isinstance(path, Place):
        row = row if path.rows is None else int(path.rows[row])
        path = path.file
    return f"{path}, row {row}" if path.suffix == _PARQUET else f"{path}, line {row + 2}"
