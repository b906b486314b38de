"""Rows of numbers and labels, written to CSV files exactly.

Every number is written with the fewest digits that are read back as the same double.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.lookup.disk.rows import Column

Progress = Callable[[float], None]
"""A function that is called with the share that is done, from 0 to 1."""

# Below this, every whole number is exactly a double.
_WHOLE = 2**53
# The number of rows that are converted to text at a time.
_BLOCK = 50_000
# About this many cells of a column show whether it holds few distinct values.
_SAMPLE = 1000
# Between these limits, Python and Arrow write a number without an exponent.
_DECIMAL = (1e-4, 1e9)


def csv_of(columns: Mapping[str, Column], progress: Progress = lambda share: None) -> bytes:
    """Columns of numbers or texts as a CSV file: NaN as an empty cell, whole numbers without a point."""
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(columns)
    parts = [header.getvalue().encode()]
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, _BLOCK):
        cells = [_texts(column[start : start + _BLOCK]) for column in columns.values()]
        parts.append(("\n".join(map(",".join, zip(*cells, strict=True))) + "\n").encode())
        progress(min(1.0, (start + _BLOCK) / n_rows))
    return b"".join(parts)


def plain(number: float) -> int | float:
    """A number, as an integer if it is whole, so that files have `1024` instead of `1024.0`."""
    return int(number) if number == math.floor(number) and abs(number) < _WHOLE else float(number)


def _texts(cells: Column) -> list[str]:
    # Most columns hold few distinct values, so each is turned into text once.
    sample = cells[:: max(1, len(cells) // _SAMPLE)]
    values = cells
    place: Any = slice(None)
    if 2 * len(np.unique(sample)) <= len(sample):
        values, place = np.unique(cells, return_inverse=True)
    if values.dtype == object:
        return list(np.array(list(map(_quoted, values)), dtype=object)[place])
    texts = np.empty(len(values), dtype=object)
    texts[:] = _float_texts(values) if values.dtype == np.float64 else list(map(repr, values.tolist()))
    if values.dtype.kind == "f":
        whole = (values == np.floor(values)) & (np.abs(values) < _WHOLE)
        texts[whole] = list(map(str, values[whole].astype(np.int64).tolist()))
        texts[np.isnan(values)] = ""
    return list(texts[place])


def _float_texts(values: Floats) -> list[str]:
    """Each number as Python's repr writes it. Without an exponent, Arrow writes the same, and faster."""
    if len(values) <= _SAMPLE:  # importing Arrow would take longer
        return list(map(repr, values.tolist()))
    import pyarrow as pa

    texts: list[str] = pa.array(values).cast(pa.string()).to_pylist()
    sizes = np.abs(values)
    for place in np.flatnonzero(~((sizes >= _DECIMAL[0]) & (sizes < _DECIMAL[1]))).tolist():
        texts[place] = repr(values[place].item())
    return texts


def _quoted(text: str) -> str:
    if not text:
        return ""
    cell = io.StringIO()
    csv.writer(cell, lineterminator="").writerow([text])
    return cell.getvalue()
