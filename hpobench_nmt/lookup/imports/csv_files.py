"""CSV files as people and programs write them: any separator, decimal commas, comments, byte-order marks."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.text import number_of, shows_number
from hpobench_nmt.lookup.disk.rows import EMPTY, Progress, arrow_file, check_once, doubles_of
from hpobench_nmt.lookup.imports.sweep import Column

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ",;\t|"
_MOST_CELLS = 2**28
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_DECIMAL_POINT = r"^\s*[+-]?[\d,]*\.\d+([eE][+-]?\d+)?\s*$"
_PERCENT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+) ?%|" + "|".join(EMPTY[1:]))
_SAMPLE = 100
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Progress is reported each time this many columns have been parsed.
_COLUMNS_A_STEP = 8


@dataclass(frozen=True)
class CsvColumns:
    """The columns of a CSV file by name, and a function that returns the line of a row for messages."""

    columns: dict[str, Column]
    place: Callable[[int], str]


@dataclass(frozen=True)
class _Layout:
    """Where the rows of a file begin, and how they are written."""

    names: list[str]
    separator: str
    body: bytes
    first_line: int
    comments: bool


def read_csv_columns(content: bytes, path: Path, progress: Progress = lambda share: None) -> CsvColumns:
    """The columns of a CSV file: doubles where all cells are numbers or empty, else texts. O(cells).

    The separator is the comma, semicolon, tab or bar, whichever is most frequent in the first line. If it is
    not the comma, and no cell is a number with a decimal point, numbers may have a decimal comma. Lines that
    begin with # are left out if the file begins with such a line.

    Raises InputError, with the line, if the file is not such a table.
    """
    layout = _layout(_utf8(content, path), path)
    return CsvColumns(_columns(layout, path, progress), lambda row: f"line {_line_of(layout, row)}")


def csv_names(content: bytes, path: Path) -> list[str]:
    """The names of the columns, as `read_csv_columns` returns them."""
    return _layout(_utf8(content, path), path).names


def _utf8(content: bytes, path: Path) -> bytes:
    if content[:2] in _UTF16:  # "Unicode text" of Excel
        try:
            return content.decode("utf-16").encode()
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-16 text, as its first bytes say.") from None
    return content.removeprefix(b"\xef\xbb\xbf")


def _layout(content: bytes, path: Path) -> _Layout:
    at, line, comment, separator = 0, 1, b"", ""
    comments = False
    while at < len(content):
        end = content.find(b"\n", at) + 1 or len(content)
        text = content[at:end].strip()
        if text.startswith(b"sep=") and len(text) == 5:  # written by Excel
            separator = text[4:].decode("ascii", "replace")
        elif text.startswith(b"#") and text[1:2] != b"":
            comment, comments = text, True
        elif text:
            break
        at, line = end, line + 1
    head = _head(content[at:], path, line)
    separator = separator or max(_SEPARATORS, key=head.count)
    lines = csv.reader(
        io.StringIO(content[at : at + 2**20].decode("utf-8", "replace"), newline=""), delimiter=separator
    )
    names = [name.strip() for name in _first(lines, path, line)]
    body, first_line = content[at:], line
    for _ in range(lines.line_num):
        body = body[body.find(b"\n") + 1 or len(body) :]
        first_line += 1
    if comment and any(map(shows_number, names)):  # the header is a comment, as numpy.savetxt writes it
        named = [name.strip() for name in comment.lstrip(b"# ").decode("utf-8", "replace").split(separator)]
        if len(named) == len(names):
            names, body, first_line = named, content[at:], line
    if len(set(names)) < len(names):  # pandas writes two rows of headings: params, and lr below it
        second = [name.strip() for name in next(lines, [])]
        twice = {k for k, name in enumerate(names) if name and names.count(name) > 1}
        if len(second) == len(names) and all(second[k] and not shows_number(second[k]) for k in twice):
            names = ["_".join(filter(None, pair)) for pair in zip(names, second, strict=True)]
            body, first_line = body[body.find(b"\n") + 1 or len(body) :], first_line + 1
    if len(names) > 1 and 2 * sum(map(shows_number, names)) >= len(names):
        raise InputError(
            f"{path}, line {line}: holds numbers where the names of the columns should be. Add a first line "
            "with their names."
        )
    if len(names) == 1:
        raise InputError(
            f"{path}, line {line}: only one column, {shortened(names[0])}. A sweep needs a first line with "
            f"the names of its columns, separated by commas, semicolons, tabs or |."
        )
    check_once(names, path)
    return _Layout(names, separator, body, first_line, comments)


def _head(content: bytes, path: Path, line: int) -> str:
    """The first line that is not a comment, without its quoted parts."""
    end = content.find(b"\n")
    try:
        text = content[: end if end >= 0 else len(content)].decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}, line {line}: not UTF-8 text.") from None
    if not text.strip():
        raise InputError(f"{path}: has no rows.")
    return re.sub(r'"[^"]*"', "", text)


def _first(lines: Any, path: Path, line: int) -> list[str]:
    try:
        found: list[str] = next(lines)
        return found
    except (csv.Error, StopIteration) as error:
        raise InputError(f"{path}, line {line}: not a CSV table ({error}).") from None


def _columns(layout: _Layout, path: Path, progress: Progress) -> dict[str, Column]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    body = layout.body
    if layout.comments:
        body = b"\n".join(line for line in body.split(b"\n") if not line.startswith(b"#"))
    if not body.strip():
        raise InputError(f"{path}: has no rows.")
    names = [str(place) for place in range(len(layout.names))]
    try:
        table = arrow.read_csv(
            arrow_file(body),
            read_options=arrow.ReadOptions(column_names=names),
            parse_options=arrow.ParseOptions(delimiter=layout.separator, newlines_in_values=b'"' in body),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=EMPTY
            ),
        )
    except pa.ArrowException as error:
        raise _explained(layout, body, path, str(error)) from None
    if table.num_rows * len(names) > _MOST_CELLS:
        raise InputError(f"{path}: has more than {_MOST_CELLS:,} cells.")
    columns: dict[str, Column] = {}
    commas = layout.separator != "," and not any(map(_has_points, table.columns))
    for place, name in enumerate(layout.names):
        columns[name] = _column(table.column(place), commas)
        if place % _COLUMNS_A_STEP == 0:
            progress(place / len(names))
    return columns


def _has_points(cells: pa.ChunkedArray) -> bool:
    """Whether a cell is a number with a decimal point, so that commas in this file are not decimal commas."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(cells, _DECIMAL_POINT)).as_py())


def _column(cells: pa.ChunkedArray, decimal_commas: bool) -> Column:
    """Cells as numbers if each is a number or empty, else as texts. Each distinct cell is converted once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_arrays(cells.chunks)
    numbers = _numbers(whole)
    if numbers is not None:
        return numbers
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    distinct = ["" if text is None else text.strip() for text in encoded.dictionary.to_pylist()]
    if decimal_commas:
        distinct = [text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text for text in distinct]
    if any(text.endswith("%") for text in distinct) and all(map(_PERCENT.fullmatch, filter(None, distinct))):
        distinct = [text.removesuffix("%") for text in distinct]
    places = np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(encoded)]
    try:
        numbers = np.array([math.nan if text in EMPTY else number_of(text) for text in distinct])
    except ValueError:
        numbers = np.empty(0)
    if len(_distinct(numbers)) == len(set(distinct) - set(EMPTY)):
        return numbers[places]
    texts = np.empty(len(distinct), dtype=object)
    texts[:] = distinct
    return np.asarray(texts[places])


def _numbers(texts: pa.Array) -> Floats | None:
    """Texts as doubles, NaN for null; None if a text is not a number, or two texts are one number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.cast(texts[:_SAMPLE], pa.float64())  # a sample first, because a failing cast of many texts is slow
        numbers = doubles_of(pc.cast(texts, pa.float64()))
        return numbers if pc.count_distinct(texts).as_py() == len(_distinct(numbers)) else None
    except pa.ArrowException:
        return None


def _distinct(numbers: Floats) -> Floats:
    return np.unique(numbers[~np.isnan(numbers)])


def _explained(layout: _Layout, body: bytes, path: Path, error: str) -> InputError:
    """The error for a file that Arrow cannot read, with the line that is wrong if it can be found."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        line = layout.first_line + body[: wrong.start].count(b"\n")
        return InputError(f"{path}, line {line}: not UTF-8 text.")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator)
    wanted = len(layout.names)
    try:
        for cells in rows:
            if cells and len(cells) != wanted:
                line = layout.first_line + rows.line_num - 1
                return InputError(f"{path}, line {line}: {len(cells)} cells, where the header has {wanted}.")
    except csv.Error as wrong_cell:
        error = str(wrong_cell)
    return InputError(f"{path}: not a CSV table ({' '.join(error.split())[:100]}).")


def _line_of(layout: _Layout, row: int) -> int:
    """The line of the file in which a row ends."""
    text = layout.body.decode("utf-8", "replace")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator)
    found = -1
    for cells in rows:
        found += bool(cells) and not (layout.comments and cells[0].startswith("#"))
        if found == row:
            return layout.first_line + rows.line_num - 1
    return layout.first_line + row
