"""Cells of old sweeps: columns from records, and texts as numbers, durations, dates and states."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.hyperparameter import key_of, label
from hpobench_nmt.core.system.text import number_of
from hpobench_nmt.lookup.disk.rows import EMPTY, MISSING
from hpobench_nmt.lookup.imports.sweep import Column, State

_STATES: dict[str, State] = {
    **dict.fromkeys(("complete", "completed", "finished", "success", "succeeded", "done"), "finished"),
    **dict.fromkeys(("terminated", "ok"), "finished"),
    **dict.fromkeys(("fail", "failed", "crashed", "crash", "error", "errored", "diverged"), "failed"),
    **dict.fromkeys(("abandoned", "false"), "failed"),
    "true": "finished",
    **dict.fromkeys(("pruned", "stopped", "early_stopped"), "pruned"),
    **dict.fromkeys(
        ("running", "waiting", "pending", "scheduled", "queued", "paused", "preempted", "killed",
         "candidate", "staged"),
        "unfinished",
    ),
}  # fmt: skip

_UNITS = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", ""), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_CLOCK = re.compile(r"(?:(\d+) days?,? ?)?\+?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_ISO = re.compile(r"p(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?)?")
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d[:\-]\d\d.*)?|\d{4}/\d\d?/\d\d?.*|\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d"
)


def column_of(values: Sequence[Any]) -> Column:
    """The values as a column: doubles if each is a number or "" (no value), else objects."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return np.array(values, dtype=np.float64)
    if kinds <= {int, float, str} and all(value == "" for value in values if isinstance(value, str)):
        return np.array([math.nan if value == "" else value for value in values], dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = [_cell_of(value) for value in values]
    return column


def _cell_of(value: Any) -> Any:
    """A value of JSON as a cell, which can be compared with others: a list as a tuple, a section as text."""
    if isinstance(value, Mapping):
        return json.dumps(value) if value else ""
    if isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value):
            return json.dumps(value)
        return tuple(map(_cell_of, value))
    return value


def columns_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Records as columns, in the order in which their keys first occur, "" where a record lacks one."""
    keys: dict[str, None] = {}
    for record in records:
        keys.update(dict.fromkeys(record))
    return {key: column_of([record.get(key, "") for record in records]) for key in keys}


def flattened(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested sections as keys with dots: {"a": {"b": 1}} becomes {"a.b": 1}."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping) and value:
            found.update(flattened(value, f"{before}{key}."))
        else:
            found[f"{before}{key}"] = value
    return found


def absent(column: Column) -> Bools:
    """Where a column has no value at all, shape (N,). None is a value here."""
    if column.dtype != object:
        return np.isnan(column)
    distinct, places = distinct_of(column)
    return np.array([value != value or (isinstance(value, str) and value in EMPTY) for value in distinct])[
        places
    ]


def distinct_of(column: Column) -> tuple[list[Any], Ints]:
    """The distinct values of a column, and the place of each row's value among them.

    Doubles are in ascending order, objects in the order in which they first occur.
    """
    if column.dtype != object:
        values, places = np.unique(column, return_inverse=True)
        return values.tolist(), places
    cells = column.tolist()
    only_texts = set(map(type, cells)) <= {str}
    keys = cells if only_texts else list(map(key_of, cells))
    place_of = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    places = np.fromiter(map(place_of.__getitem__, keys), dtype=np.int64, count=len(cells))
    firsts = np.unique(places, return_index=True)[1]
    return [cells[row] for row in firsts.tolist()], places


def as_numbers(column: Column) -> tuple[Floats, int | None]:
    """A column as doubles, NaN if missing; and the first row whose cell is not a number, or None."""
    if column.dtype != object:
        return column.astype(np.float64), None
    distinct, places = distinct_of(column)
    numbers, wrong = np.full(len(distinct), np.nan), np.zeros(len(distinct), dtype=bool)
    for place, value in enumerate(distinct):
        if isinstance(value, (bool, int | float)):
            try:
                numbers[place] = float(value)
            except OverflowError:  # a whole number of JSON with more than 308 digits
                wrong[place] = True
        elif value is None or (isinstance(value, str) and value.strip() in MISSING):
            continue
        else:
            try:
                numbers[place] = (
                    number_of(value.strip().removesuffix("%")) if isinstance(value, str) else math.nan
                )
                wrong[place] = not isinstance(value, str)
            except ValueError:
                wrong[place] = True
    bad = np.flatnonzero(wrong[places])
    return numbers[places], int(bad[0]) if len(bad) else None


def as_seconds(column: Column) -> Floats:
    """Durations in seconds: from numbers, "1 day, 2:03:04", "1.5min", "PT1H2M"; NaN for other cells."""
    if column.dtype != object:
        return column.astype(np.float64)
    distinct, places = distinct_of(column)
    return np.array([_seconds(value) for value in distinct], dtype=np.float64)[places]


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip().lower()
    if found := _CLOCK.fullmatch(text) or (_ISO.fullmatch(text) if len(text) > 2 else None):
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    total, at = 0.0, 0
    while at < len(text) and (part := _PART.match(text, at)):
        if part[2] not in _UNITS:
            return math.nan
        total, at = total + float(part[1]) * _UNITS[part[2]], part.end()
    return total if text and at == len(text) else math.nan


def between(starts: Column, ends: Column) -> Floats:
    """Seconds from one column of dates to another, NaN where a cell is not a date."""
    return timestamps(ends) - timestamps(starts)


def timestamps(column: Column) -> Floats:
    """Dates in seconds, NaN where a cell is not a date. Numbers are milliseconds, as in MLflow."""
    if column.dtype != object:
        return np.asarray(column / 1000.0)
    distinct, places = distinct_of(column)
    return np.array([_timestamp(value) for value in distinct], dtype=np.float64)[places]


def _timestamp(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value) / 1000.0
    try:
        found = datetime.fromisoformat(str(value).strip())
        # Only differences count, so dates without a zone are read as if they were all in one zone.
        return (found - datetime(1970, 1, 1, tzinfo=found.tzinfo)).total_seconds()
    except (ValueError, OverflowError):
        return math.nan


def are_dates(column: Column) -> bool:
    """Whether a column has values, and all of them are dates."""
    if column.dtype != object:
        return False
    texts = [value for value in distinct_of(column)[0] if value not in EMPTY and value is not None]
    return bool(texts) and all(isinstance(text, str) and _DATE.fullmatch(text) for text in texts)


def states_of(cells: Iterable[Any]) -> Column | None:
    """The cells as a column of State; None if a cell is not a known state."""
    found = [_STATES.get(str(cell).rpartition(".")[2].strip().lower()) for cell in cells]
    if any(state is None for state in found):
        return None
    column = np.empty(len(found), dtype=object)
    column[:] = found
    return column


def text_of(value: Any) -> str:
    """A value as the cell of a table. Two different texts never become one."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else label(value)
