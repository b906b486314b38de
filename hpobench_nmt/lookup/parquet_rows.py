"""Rows of numbers and labels in Parquet files, in the form that `rows.parse_columns` returns for CSV."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.errors import InputError, shortened, unknown
from hpobench_nmt.core.text import counted
from hpobench_nmt.lookup.rows import Column, undescribed

_MOST_CELLS = 2**28


def parquet_columns(
    content: bytes,
    names: Sequence[str],
    path: Path,
    labels: Collection[str] = (),
    ignored: Collection[str] | None = (),
) -> dict[str, Column]:
    """Columns of a Parquet file: doubles, NaN where a cell is empty, or texts, "" where it is empty.

    Texts and categories of texts become texts, truth values become "true" and "false", and numbers become
    doubles. A number of 16 or 32 bits becomes the double with the fewest digits that identify it. O(cells).

    The file must have the columns `names` and `ignored`, and no others; if `ignored` is None, it may have any
    others. Only the columns in `labels` may hold texts.

    Raises:
        InputError: it is not a Parquet file, it has too many cells, or a column is missing, unknown, repeated
            or of the wrong type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = pa.BufferOutputStream()  # Arrow's own memory: see rows._parse_fast
    copy.write(content)
    try:
        file = pq.ParquetFile(pa.BufferReader(copy.getvalue()))
        found, n_rows = file.schema_arrow.names, file.metadata.num_rows
        for name in (*names, *(ignored or ())):
            if name not in found:
                raise unknown("column", name, found, f"({path})")
        for name in found:
            if found.count(name) > 1:
                raise InputError(f"{path}: column {shortened(name)} occurs twice.")
            if name not in names and ignored is not None and name not in ignored:
                raise InputError(f"{path}: {undescribed(name)}")
        if n_rows == 0:
            raise InputError(f"{path}: has no rows.")
        # A few bytes of a compressed file may decode to any number of cells.
        if n_rows * len(found) > _MOST_CELLS:
            raise InputError(f"{path}: {n_rows:,} rows are too many for {counted(len(found), 'column')}.")
        table = file.read([*names], use_threads=False)
        return {name: _column(table.column(name), name, path, name in labels) for name in names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a Parquet file ({' '.join(str(error).split())[:200]}).") from None


def _column(cells: Any, name: str, path: Path, texts: bool) -> Column:
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    kind = cells.type
    if pa.types.is_boolean(kind):
        cells, kind = cells.cast(pa.string()), pa.string()
    if texts and kind in (pa.string(), pa.large_string(), pa.string_view()):
        column = np.empty(len(cells), dtype=object)
        column[:] = ["" if cell is None else cell.strip() for cell in cells.to_pylist()]
        return column
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):  # 0.1 is meant, not 0.10000000149
        single = np.float16 if pa.types.is_float16(kind) else np.float32
        numbers = np.array([np.nan if cell is None else cell for cell in cells.to_pylist()], dtype=single)
        return np.asarray(numbers.astype(str).astype(np.float64))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # A whole number beyond 2^53 becomes the nearest double, as in a CSV file.
        doubles = cells.cast(pa.float64(), safe=False).to_pylist()
        return np.array([np.nan if cell is None else cell for cell in doubles])
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    wanted = "neither numbers nor texts" if texts else "not numbers"
    raise InputError(f"{path}: column {shortened(name)} holds values of type {kind}, {wanted}.")
