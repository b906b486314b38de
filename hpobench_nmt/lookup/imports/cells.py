"""Cells of old sweeps: columns from records, and texts as numbers, durations, dates and states."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.hyperparameter import key_of, label
from hpobench_nmt.core.system.text import number_of, shows_number
from hpobench_nmt.lookup.disk.rows import EMPTY, MISSING
from hpobench_nmt.lookup.imports.names import WORDS
from hpobench_nmt.lookup.imports.sweep import Column

_STATE_OF = {word: state for state, words in WORDS.state.items() for word in words}
# Up to here, every whole number is exactly a double.
_WHOLE = 2**53
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d[:\-]\d\d.*)?|\d{4}/\d\d?/\d\d?.*|\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d"
)


def column_of(values: Sequence[Any]) -> Column:
    """The values as a column: doubles if each is a number or "" (no value), else objects."""
    if all(value == "" if isinstance(value, str) else _is_exact(value) for value in values):
        return np.array([math.nan if value == "" else value for value in values], dtype=np.float64)
    return objects([_cell_of(value) for value in values])


def _is_exact(value: Any) -> bool:
    """Whether a value is a number that a double holds."""
    return type(value) is float or (type(value) is int and abs(value) <= _WHOLE)


def _cell_of(value: Any) -> Any:
    """A value of JSON as a cell, which can be compared with others: a list as a tuple, values by step
    as pairs, and another section as text.
    """
    if isinstance(value, Mapping) and by_step(value):
        return tuple((int(step), each) for step, each in value.items())
    if isinstance(value, Mapping):
        return json.dumps(value) if value else ""
    if isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value):
            return json.dumps(value)
        return tuple(map(_cell_of, value))
    return value


def by_step(section: Mapping[str, Any]) -> bool:
    """Whether the keys of a section are whole numbers, and its values are numbers or None."""
    return bool(section) and all(
        str(key).isdecimal() and (value is None or isinstance(value, int | float))
        for key, value in section.items()
    )


def columns_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Records as columns, in the order in which their keys first occur, "" where a record lacks one."""
    keys: dict[str, None] = {}
    for record in records:
        keys.update(dict.fromkeys(record))
    return {key: column_of([record.get(key, "") for record in records]) for key in keys}


def flattened(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested sections as keys with dots: {"a": {"b": 1}} becomes {"a.b": 1}. Values by step stay together."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping) and value and not by_step(value):
            found.update(flattened(value, f"{before}{key}."))
        else:
            found[f"{before}{key}"] = value
    return found


def absent(column: Column) -> Bools:
    """Where a column has no value at all, shape (N,). None is a value here."""
    if column.dtype != object:
        return np.isnan(column)
    distinct, places = distinct_of(column)
    lacks = [value != value or (isinstance(value, str) and value in EMPTY) for value in distinct]
    return np.array(lacks)[places]


def distinct_of(column: Column) -> tuple[list[Any], Ints]:
    """The distinct values of a column, and the place of each row's value among them.

    Doubles are in ascending order, objects in the order in which they first occur.
    """
    if column.dtype != object:
        values, places = np.unique(column, return_inverse=True)
        return values.tolist(), places
    cells = column.tolist()
    keys = cells if set(map(type, cells)) <= {str} else list(map(key_of, cells))
    place_of = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    places = np.fromiter(map(place_of.__getitem__, keys), dtype=np.int64, count=len(cells))
    return [cells[row] for row in np.unique(places, return_index=True)[1].tolist()], places


def as_numbers(column: Column) -> tuple[Floats, int | None]:
    """A column as doubles, NaN if missing; and the first row whose cell is not a number, or None."""
    if column.dtype != object:
        return column.astype(np.float64), None
    distinct, places = distinct_of(column)
    numbers, wrong = np.full(len(distinct), np.nan), np.zeros(len(distinct), dtype=bool)
    for place, value in enumerate(distinct):
        try:
            numbers[place] = _number(value)
        except (ValueError, OverflowError):  # or a whole number of JSON with more than 308 digits
            wrong[place] = True
    bad = np.flatnonzero(wrong[places])
    return numbers[places], int(bad[0]) if len(bad) else None


def _number(value: Any) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    if value is not None and not isinstance(value, str):
        raise ValueError("a list or another object")
    text = (value or "").strip()
    return math.nan if text in MISSING else number_of(text.removesuffix("%"))


def as_seconds(column: Column) -> Floats:
    """Durations in seconds: from numbers, "1 day, 2:03:04", "1.5min", "PT1H2M"; NaN for other cells."""
    return np.array([_seconds(value) for value in column.tolist()], dtype=np.float64)


def _seconds(value: Any) -> float:
    import pandas as pd  # slow to import, and few sources have durations as texts

    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    try:
        if text.startswith("P"):  # of the standard ISO 8601
            return msgspec.convert(text, timedelta).total_seconds()
        with warnings.catch_warnings(action="ignore"):  # "d" for days is deprecated
            return number_of(text) if shows_number(text) else pd.Timedelta(text).total_seconds()
    except ValueError:
        return math.nan


def between(starts: Column, ends: Column) -> Floats:
    """Seconds from one column of dates to another, NaN where a cell is not a date."""
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([_timestamp(end) - _timestamp(start) for start, end in pairs], dtype=np.float64)


def _timestamp(value: Any) -> float:
    """A date in seconds. A number is in milliseconds, as in MLflow."""
    if isinstance(value, int | float):
        return float(value) / 1000.0
    try:
        found = datetime.fromisoformat(str(value).strip())
        # Only differences count, so dates without a zone are read as if they were all in one zone.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def are_dates(column: Column) -> bool:
    """Whether a column has values, and all of them are dates."""
    if column.dtype != object:
        return False
    texts = [value for value in distinct_of(column)[0] if value not in EMPTY and value is not None]
    return bool(texts) and all(isinstance(text, str) and _DATE.fullmatch(text) for text in texts)


def states_of(cells: Sequence[Any]) -> Column | None:
    """The cells as a column of State; None if a cell is not a known state. An empty cell is "unfinished"."""
    bare = [str(cell).rpartition(".")[2].strip().lower().replace(" ", "_") for cell in cells]
    found = objects([_STATE_OF.get(cell) if cell else "unfinished" for cell in bare])
    return None if None in found or not any(bare) else found


def objects(values: Sequence[Any]) -> Column:
    """The values as a column of objects."""
    return np.fromiter(values, dtype=object, count=len(values))


def text_of(value: Any) -> str:
    """A value as the cell of a table. Two different texts never become one."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else label(value)
