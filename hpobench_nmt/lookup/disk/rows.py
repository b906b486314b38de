"""Rows of numbers and labels, read from CSV and Parquet files exactly.

Every number is read as the nearest double, as Python's float() does. Labels are texts; spaces around them do
not count.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Metric, measured
from hpobench_nmt.core.system.errors import InputError, check_known, shortened
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.text import counted, number_of

if TYPE_CHECKING:  # pandas is slow to import, and only fronts of CSV files need it
    import pandas as pd

Column = NDArray[Any]
"""A column of a file: doubles, or an object array of texts."""

MAX_BYTES = 2**30
PARQUET = ".parquet"
"""The suffix of a Parquet file. Files with any other suffix are read as CSV."""
EMPTY = ("", "NA", "NaN", "nan")
"""Texts that mean no value in any column."""
# How databases, MLflow, pandas, polars, Excel and Weights & Biases write missing values.
MISSING = (*EMPTY, "None", "none", "null", "NULL", "<NA>", "N/A", "n/a", "#N/A", "-")
# The number of rows that are converted from text to numbers at a time.
_BLOCK = 50_000
_MOST_CELLS = 2**28


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a file of rows.

    Attributes:
        names: the columns to read. The file must have these and the ignored columns, and no others.
        labels: the columns that hold texts.
        either: columns that hold numbers if every cell is a number, else texts.
        ignored: the columns to leave out; None: any other columns are left out.
        words: for columns of numbers, the word that marks a missing value.
    """

    names: Sequence[str]
    labels: Collection[str] = ()
    either: Collection[str] = ()
    ignored: Collection[str] | None = ()
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> set[str]:
        """The columns that may hold texts."""
        return {*self.labels, *self.either}


def read_rows(path: Path, follow_link: bool = False) -> bytes:
    """The content of a file of rows, of at most 1 GiB."""
    if not (path.is_file() or path.is_symlink()):
        raise InputError(f"{path.parent}: has no {path.name}.")
    return read_bytes(path, MAX_BYTES, follow_link)


def parse_columns(content: bytes, wanted: Wanted, path: Path) -> dict[str, Column]:
    """The wanted columns: doubles, NaN where a cell is empty, or texts, "" where it is empty.

    In a Parquet file, truth values count as the texts "true" and "false", and a number of 16 or 32 bits
    becomes the double with the fewest digits that identify it. O(cells): a million rows of ten columns of
    numbers in a CSV file take about a second.

    Raises:
        InputError: it is not such a file, it has too many cells, a column is missing, unknown, repeated or of
            the wrong type, a cell in a column of numbers is not a number, or, in a CSV file, a column in
            `either` holds numbers as well as labels. `path` is for these messages, and its suffix tells the
            format.
    """
    if path.suffix == PARQUET:
        return _of_parquet(content, wanted, path)
    if len(wanted.names) > 1:  # in a single column, an empty cell is a blank line
        content = _without_blank_end(content)
    columns = _of_arrow(content, wanted, wanted.labels)
    if columns is None and wanted.either:
        columns = _of_arrow(content, wanted, wanted.texts)
    if columns is None:
        columns = _of_lines(content, wanted, path)
    return columns | {name: _numbers_if_all(columns[name], name, path) for name in wanted.either}


def _of_arrow(content: bytes, wanted: Wanted, texts: Collection[str]) -> dict[str, Column] | None:
    """The columns of a well-formed CSV file; None if anything is unusual, so that a closer look is needed."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    # A blank line counts as an empty row. Like float(), Arrow's parser rounds to the nearest double.
    options = arrow.ConvertOptions(
        column_types={name: pa.string() if name in texts else pa.float64() for name in wanted.names},
        null_values=list(EMPTY),
    )
    parsing = arrow.ParseOptions(ignore_empty_lines=False)
    try:
        table = arrow_table(content, parse_options=parsing, convert_options=options)
        _check_names(table.column_names, wanted, Path())
        if table.num_rows == 0:
            return None
        return {
            name: _texts_of(table.column(name).to_pylist()) if name in texts else _doubles(table.column(name))
            for name in wanted.names
        }
    except (pa.ArrowException, UnicodeDecodeError, InputError):
        return None


def arrow_table(content: bytes, **options: Any) -> Any:
    """A CSV file as Arrow reads it, with these options of `read_csv`. Raises pyarrow's errors.

    While Arrow reads, it would handle Ctrl-C by itself, and lose one that comes just before the end.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    pa.enable_signal_handlers(False)
    return arrow.read_csv(arrow_file(content), **options)


def arrow_file(content: bytes) -> Any:
    """The content as a file for Arrow, in Arrow's own memory.

    Arrow's threads may outlive the reading by a moment. If the buffer belonged to Python, a thread that
    releases it while Python shuts down would abort the process.
    """
    import pyarrow as pa

    copy = pa.BufferOutputStream()
    copy.write(content)
    return pa.BufferReader(copy.getvalue())


def check_once(names: Sequence[str], path: Path) -> None:
    """Refuse a file with two columns of one name."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"{path}: column {shortened(name)} occurs twice.")


def _check_names(found: Sequence[str], wanted: Wanted, path: Path) -> None:
    """Refuse a file whose columns are not the wanted ones."""
    check_once(found, path)
    check_known("column", (*wanted.names, *(wanted.ignored or ())), found, f"({path})")
    allowed = found if wanted.ignored is None else (*wanted.names, *wanted.ignored)
    for name in found:
        if name not in allowed:
            raise InputError(
                f"{path}: column {shortened(name)} is not described in its datasheet. To leave it out, "
                f"name it there: ignore = [{shortened(name)}], or add the table with --accept other."
            )


def _texts_of(cells: Sequence[str | None]) -> Column:
    column = np.empty(len(cells), dtype=object)
    column[:] = ["" if cell is None else cell.strip() for cell in cells]
    return column


def _doubles(column: Any) -> Floats:
    """Arrow's column of doubles as an array, with NaN for nulls."""
    return np.concatenate([doubles_of(chunk) for chunk in column.chunks])


def doubles_of(chunk: Any) -> Floats:
    """Arrow's doubles as an array, with NaN for nulls. Arrow's own to_numpy would import pandas."""
    here = slice(chunk.offset, chunk.offset + len(chunk))
    valid, values = chunk.buffers()
    found = np.frombuffer(values)[here]
    if valid is None:
        return found
    return np.where(np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[here], found, np.nan)


def _of_lines(content: bytes, wanted: Wanted, path: Path) -> dict[str, Column]:
    """The columns of a CSV file, parsed by Python's own float(). Errors name the line."""
    lines = _lines(content, path)
    names = next(lines)
    _check_names(names, wanted, path)
    parts: dict[str, list[Column]] = {name: [] for name in wanted.names}
    first = 0
    while block := list(islice(lines, _BLOCK)):
        for name, cells in zip(names, zip(*block, strict=True), strict=True):
            if name in wanted.texts:
                parts[name].append(_texts_of(cells))
            elif name in parts:
                parts[name].append(number_column(cells, name, path, first, wanted.words.get(name)))
        first += len(block)
    return {name: np.concatenate(part) for name, part in parts.items()}


def _lines(content: bytes, path: Path) -> Iterator[list[str]]:
    """The lines of a CSV file as texts, first the header. A blank line is a row of empty cells."""
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text.") from None
    empty = True
    try:
        names: list[str] = next(lines, [])
        if not names:
            raise InputError(f"{path}: not a CSV table: its first line must name the columns.")
        if len(names) == 1:
            _check_lone_column(names[0], path)
        yield names
        for cells in lines:
            empty = False
            if 0 < len(cells) < len(names):
                raise InputError(f"{path}, line {lines.line_num}: only {len(cells)} of {len(names)} cells.")
            if len(cells) > len(names):
                more = f"line {lines.line_num} has {len(cells)} cells for {counted(len(names), 'column')}"
                raise InputError(f"{path}: not a CSV table ({more}).")
            yield cells or [""] * len(names)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table (line {lines.line_num}: {error}).") from None
    if empty:
        raise InputError(f"{path}: has no rows.")


def _without_blank_end(content: bytes) -> bytes:
    """The content without blank lines at its end, which editors add and which are not rows."""
    kept = content.rstrip()
    return kept + b"\n" if len(content) > len(kept) > 0 else content


def _check_lone_column(name: str, path: Path) -> None:
    """Refuse a first line of one cell that is a comment or has other separators."""
    if name.startswith("#"):
        raise InputError(f"{path}, line 1: a comment. Remove it: the first line must name the columns.")
    for separator, shown in ((";", "';'"), ("\t", "tabs"), ("|", "'|'")):
        if separator in name:
            raise InputError(
                f"{path}: the columns are separated by {shown}. Save it with ',' between them, and with a "
                "point in numbers such as 0.5."
            )


def _numbers_if_all(column: Column, name: str, path: Path) -> Column:
    """Texts as doubles if each is a number or empty, or as they are if none is a number.

    Sizes such as 64_64 are labels. Raises InputError for numbers beside labels, which are probably a typo.
    """
    if column.dtype != object:
        return column
    known = {text: _number_or_none(text) for text in set(column)}
    label = next((place for place, text in enumerate(column) if known[text] is None), None)
    if label is None:
        return np.array([known[text] for text in column], dtype=np.float64)
    if any(number is not None for text, number in known.items() if text not in EMPTY):
        raise InputError(
            f"{line_of(path, label)}: {name} is {shortened(column[label])}, but others of its cells are "
            'numbers. If all are labels, write in its section: kind = "categorical".'
        )
    return column


def _number_or_none(text: str) -> float | None:
    try:
        return np.nan if text in EMPTY else number_of(text)
    except ValueError:
        return None


def line_of(path: Path, row: int) -> str:
    """The location of a row in a file, for messages."""
    return f"{path}, row {row}" if path.suffix == PARQUET else f"{path}, line {row + 2}"


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file with a header, every cell as text."""
    import pandas as pd

    if not path.is_file():
        raise InputError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}.")
    lines = _lines(_without_blank_end(read_bytes(path, MAX_BYTES)), path)
    names = next(lines)
    _check_names(names, Wanted((), ignored=None), path)
    return pd.DataFrame(dict(zip(names, zip(*lines, strict=True), strict=True)), dtype=str)


def number_column(
    cells: Sequence[Any], name: str, path: Path, first: int = 0, word: str | None = None
) -> Floats:
    """A column of texts as numbers, NaN where a cell is empty or equal to `word`.

    Raises InputError with the line if another cell is not a number. `first` is the number of the first row.
    """
    numbers, wrong = numbers_of(cells, word)
    if wrong is not None:
        row, text = wrong
        raise InputError(
            f"{path}, line {first + row + 2}: {shortened(name)} is {text[:40]!r}, not a number. For a "
            f"missing value, leave the cell empty or write None, null, <NA>, N/A or -; for a metric, "
            f"`missing` may name another word."
        )
    return numbers


def numbers_of(cells: Sequence[Any], word: str | None = None) -> tuple[Floats, tuple[int, str] | None]:
    """Cells as numbers, NaN if missing or equal to `word`; and place and text of the first other cell."""
    numbers = np.empty(len(cells))
    for place, cell in enumerate(cells):
        text = str(cell).strip()
        try:
            numbers[place] = np.nan if text in MISSING or text == word else number_of(text)
        except ValueError:
            return numbers, (place, text)
    return numbers, None


def values_of(metric: Metric, cells: Floats) -> Floats:
    """Numbers from a file as values of a metric, NaN also where they stand for a missing value."""
    values = measured(cells)
    return np.where(values == metric.missing, np.nan, values)  # no number equals None


def _of_parquet(content: bytes, wanted: Wanted, path: Path) -> dict[str, Column]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(arrow_file(content))
        found, n_rows = file.schema_arrow.names, file.metadata.num_rows
        _check_names(found, wanted, path)
        if n_rows == 0:
            raise InputError(f"{path}: has no rows.")
        # A few bytes of a compressed file may decode to any number of cells.
        if n_rows * len(found) > _MOST_CELLS:
            raise InputError(f"{path}: {n_rows:,} rows are too many for {counted(len(found), 'column')}.")
        table = file.read([*wanted.names], use_threads=False)
        texts = wanted.texts
        return {name: _of_any_type(table.column(name), name, path, name in texts) for name in wanted.names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a Parquet file ({' '.join(str(error).split())[:200]}).") from None


def _of_any_type(cells: Any, name: str, path: Path, texts: bool) -> Column:
    """A column of Parquet as doubles, or as texts if it may hold texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.string())
    kind = cells.type
    if texts and kind in (pa.string(), pa.large_string(), pa.string_view()):
        return _texts_of(cells.to_pylist())
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):  # 0.1 is meant, not 0.10000000149
        numbers = np.array(cells.to_pylist(), dtype=kind.to_pandas_dtype())
        return np.asarray(numbers.astype(str).astype(np.float64))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # A whole number beyond 2^53 becomes the nearest double, as in a CSV file.
        return _doubles(cells.cast(pa.float64(), safe=False))
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    wanted = "neither numbers nor texts" if texts else "not numbers"
    raise InputError(f"{path}: column {shortened(name)} holds values of type {kind}, {wanted}.")
