"""Parquet files from elsewhere, which are read only if their content is not larger than it should be.

A few bytes of a compressed file may decompress to any number of rows, and a repeated text to any number of
bytes. So the sizes in the file's metadata are checked first, and each different text is read only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def open_bounded(content: bytes, texts: Sequence[str], most_rows: int, most_bytes: int) -> pq.ParquetFile:
    """Open a file after checking its rows and decompressed bytes. Columns `texts` become dictionaries.

    Raises ValueError if it is larger or a column occurs twice, and pyarrow's errors if it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(pa.BufferReader(content))
    if len({*schema.names}) < len(schema.names):
        raise ValueError("a column occurs twice")
    plain = {field.name for field in schema if not pa.types.is_nested(field.type)}
    there = [name for name in texts if name in plain]
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=there, page_checksum_verification=True)
    about = file.metadata
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if about.num_rows > most_rows or size > most_bytes:
        raise ValueError("more than there should be")
    return file


def values_in(file: pq.ParquetFile, column: str) -> int:
    """How many values a column of lists has."""
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return sum(
        g.column(j).num_values
        for g in groups
        for j in range(g.num_columns)
        if g.column(j).path_in_schema.split(".")[0] == column
    )


def texts_of(column: Any) -> list[Any]:
    """The entries of a column of texts that was read as a dictionary, with None for missing entries."""
    whole = column.unify_dictionaries().combine_chunks()
    known = [*whole.dictionary.to_pylist(), None]
    return [known[code] for code in whole.indices.fill_null(len(known) - 1).to_pylist()]
