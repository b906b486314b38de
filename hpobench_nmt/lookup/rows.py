"""Rows of numbers and labels in CSV files, read and written exactly.

Every number is read as the nearest double, as Python's float() does, and written with the fewest digits that
are read back as the same double. Labels are texts; spaces around them do not count.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.errors import InputError, shortened, unknown
from hpobench_nmt.core.files import read_bytes
from hpobench_nmt.core.objectives import Metric, measured
from hpobench_nmt.core.text import number_of

if TYPE_CHECKING:  # pandas is slow to import, and a well-formed table is read without it
    import pandas as pd

Column = NDArray[Any]
"""A column of a CSV file: doubles, or an object array of texts."""
Progress = Callable[[float], None]
"""A function that is called with the share that is done, from 0 to 1."""

MAX_BYTES = 2**30
EMPTY = ("", "NA", "NaN", "nan")
"""Texts that mean no value in any column."""
# How databases, MLflow, pandas, polars, Excel and Weights & Biases write missing values.
MISSING = (*EMPTY, "None", "none", "null", "NULL", "<NA>", "N/A", "n/a", "#N/A", "-")
# Below this, every whole number is exactly a double.
_WHOLE = 2**53
# The number of rows that are converted from text to numbers, or back, at a time.
_BLOCK = 50_000
# About this many cells of a column show whether it holds few distinct values.
_SAMPLE = 1000
# Between these limits, Python and Arrow write a number without an exponent.
_DECIMAL = (1e-4, 1e9)


def read_rows(path: Path, follow_link: bool = False) -> bytes:
    """The content of a CSV file, of at most 1 GiB."""
    if not (path.is_file() or path.is_symlink()):
        raise InputError(f"{path.parent}: has no {path.name}.")
    return read_bytes(path, MAX_BYTES, follow_link)


def parse_columns(
    content: bytes,
    names: Sequence[str],
    path: Path,
    labels: Collection[str] = (),
    either: Collection[str] = (),
    ignored: Collection[str] | None = (),
    words: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Column]:
    """Columns of a CSV file: doubles, NaN where a cell is empty, or texts, "" where it is empty.

    O(cells): a million rows of ten columns of numbers take about a second.

    Args:
        content: content of the file.
        names: the columns to read. The file must have these and the ignored columns, and no others.
        path: path of the file, for messages.
        labels: the columns that hold texts.
        either: columns that hold numbers if every cell is a number, else texts.
        ignored: the columns to leave out; None: any other columns are left out.
        words: for columns of numbers, the word that marks a missing value.

    Raises:
        InputError: it is not a CSV table, a column is missing or unknown, or a cell in a column of numbers is
            not a number.
    """
    if len(names) > 1:  # in a single column, an empty cell is a blank line
        content = _without_blank_end(content)
    found = _parse_fast(content, names, labels, ignored)
    if found is None and either:
        texts = _parse_fast(content, names, {*labels, *either}, ignored)
        found = texts and {n: _numbers_if_all(c) if n in either else c for n, c in texts.items()}
    return _parse_slowly(content, names, path, labels, either, ignored, words) if found is None else found


def _parse_fast(
    content: bytes, names: Sequence[str], labels: Collection[str], ignored: Collection[str] | None = ()
) -> dict[str, Column] | None:
    """The columns of a well-formed file; None if anything is unusual, so that a closer look is needed."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    # A blank line counts as an empty row. Like float(), Arrow's parser rounds to the nearest double.
    options = arrow.ConvertOptions(
        column_types={name: pa.string() if name in labels else pa.float64() for name in names},
        null_values=list(EMPTY),
    )
    # Arrow's threads may outlive the reading by a moment. If the buffer belonged to Python, a thread that
    # releases it while Python shuts down would abort the process.
    copy = pa.BufferOutputStream()
    copy.write(content)
    try:
        table = arrow.read_csv(
            pa.BufferReader(copy.getvalue()),
            parse_options=arrow.ParseOptions(ignore_empty_lines=False),
            convert_options=options,
        )
        given = table.column_names
        if len(set(given)) < len(given) or not {*names} <= {*given} or table.num_rows == 0:
            return None
        if ignored is not None and {*given} != {*names, *ignored}:
            return None
        return {
            name: _texts_of(table.column(name).to_pylist())
            if name in labels
            else np.concatenate([doubles_of(c) for c in table.column(name).chunks])
            for name in names
        }
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _texts_of(cells: Sequence[str]) -> Column:
    column = np.empty(len(cells), dtype=object)
    column[:] = [cell.strip() for cell in cells]
    return column


def _numbers_if_all(texts: Column) -> Column:
    """Texts as doubles if each is a number or empty, else as they are. Sizes such as 64_64 are labels."""
    try:
        return np.array([np.nan if text in EMPTY else number_of(text) for text in texts])
    except ValueError:
        return texts


def first_label(texts: Column) -> int | None:
    """The place of the first text that is not a number, if the column also holds numbers; else None."""
    known = {text: _is_number(text) for text in set(texts) if text not in EMPTY}
    if not any(known.values()) or all(known.values()):
        return None
    return next(place for place, text in enumerate(texts) if not known.get(text, True))


def _is_number(text: str) -> bool:
    return _numbers_if_all(np.array([text], dtype=object)).dtype != object


def doubles_of(chunk: Any) -> Floats:
    """Arrow's doubles as an array, with NaN for nulls. Arrow's own to_numpy would import pandas."""
    here = slice(chunk.offset, chunk.offset + len(chunk))
    valid, values = chunk.buffers()
    found = np.frombuffer(values)[here]
    if valid is None:
        return found
    return np.where(np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[here], found, np.nan)


def _parse_slowly(
    content: bytes,
    names: Sequence[str],
    path: Path,
    labels: Collection[str],
    either: Collection[str],
    ignored: Collection[str] | None,
    words: Mapping[str, str],
) -> dict[str, Column]:
    """The columns, parsed by Python's own float(); errors name the line."""
    blocks: dict[str, list[Column]] = {name: [] for name in names}
    first = 0
    _check_cells(content, path)
    for frame in _text_blocks(content, path):
        for name in (*names, *(ignored or ())):
            if name not in frame.columns:
                raise unknown("column", name, map(str, frame.columns), f"({path})")
        extra = [str(name) for name in frame.columns if name not in blocks]
        if ignored is not None and (extra := [name for name in extra if name not in ignored]):
            raise InputError(f"{path}: {undescribed(extra[0])}")
        for name in names:
            as_text = name in labels or name in either
            column = (
                _texts_of(frame[name].tolist())
                if as_text
                else number_column(frame, name, path, first, words.get(name))
            )
            blocks[name].append(column)
        first += len(frame)
    columns = {name: np.concatenate(parts) for name, parts in blocks.items()}
    return {name: _numbers_if_all(c) if name in either else c for name, c in columns.items()}


def _text_blocks(content: bytes, path: Path) -> Iterator[pd.DataFrame]:
    """A CSV file in blocks of rows, every cell as text."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas would cut lines that are longer than the header, with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            options = {"dtype": str, "keep_default_na": False, "skip_blank_lines": False, "index_col": False}
            names: list[str] = next(_lines(content), [])
            empty = True
            for block in pd.read_csv(io.BytesIO(content), chunksize=_BLOCK, **options):  # type: ignore[call-overload]
                if len(block):
                    empty = False
                    if len(names) == len(block.columns) and len(set(names)) == len(names):
                        block.columns = pd.Index(names)  # pandas names columns without a name
                    yield block
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}, line {_first_line_not_utf8(content)}: not UTF-8 text.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV table ({' '.join(str(error).split())}).") from None
    if empty:
        raise InputError(f"{path}: has no rows.")


def _without_blank_end(content: bytes) -> bytes:
    """The content without blank lines at its end, which editors add and which are not rows."""
    kept = content.rstrip()
    return kept + b"\n" if len(content) > len(kept) > 0 else content


def _lines(content: bytes) -> Any:
    return csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""))


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


def _check_cells(content: bytes, path: Path) -> None:
    """Refuse other separators, repeated columns, and lines that lack cells, except blank lines."""
    lines = _lines(content)
    try:
        names: list[str] = next(lines, [])
        if len(names) == 1:
            _check_lone_column(names[0], path)
        for name, times in Counter(names).items():
            if times > 1:
                raise InputError(f"{path}: column {shortened(name)} occurs twice.")
        for cells in lines:
            if 0 < len(cells) < len(names):
                raise InputError(f"{path}, line {lines.line_num}: only {len(cells)} of {len(names)} cells.")
    except (csv.Error, UnicodeDecodeError):
        return  # the next reader reports the error


def _first_line_not_utf8(content: bytes) -> int:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return content[: error.start].count(b"\n") + 1
    return 1


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file with a header, every cell as text."""
    import pandas as pd

    if not path.is_file():
        raise InputError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}.")
    content = _without_blank_end(read_bytes(path, MAX_BYTES))
    _check_cells(content, path)
    return pd.concat(_text_blocks(content, path), ignore_index=True)


def undescribed(name: str) -> str:
    """The message on a column that the datasheet does not describe."""
    return (
        f"column {shortened(name)} is not described in its datasheet. To leave it out, name it there: "
        f"ignore = [{shortened(name)}], or add the table with --ignore-other."
    )


def number_column(
    frame: pd.DataFrame, name: str, path: Path, first: int = 0, word: str | None = None
) -> Floats:
    """A column of texts, as read_csv returns it, as numbers, NaN where a cell is empty.

    A cell that equals `word` counts as empty. Raises InputError with the line if another cell is not a
    number. `first` is the number of the frame's first row.
    """
    if name not in frame.columns:
        raise unknown("column", name, map(str, frame.columns), f"({path})")
    numbers, wrong = numbers_of(frame[name].tolist(), word)
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
