"""CSV files as people and programs write them: any separator, decimal commas, comments, byte-order marks."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.text import number_of, shows_number
from hpobench_nmt.lookup.disk.rows import EMPTY, check_once
from hpobench_nmt.lookup.imports.cells import objects
from hpobench_nmt.lookup.imports.sweep import Column

_SEPARATORS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?[\d,]*\.\d+([eE][+-]?\d+)?")
_PERCENT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+) ?%")
_COMMENTS = re.compile(rb"^#.*", re.MULTILINE)  # may be in any encoding
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class CsvColumns(NamedTuple):
    """The columns of a CSV file by name, and a function that returns the line of a row for messages."""

    columns: dict[str, Column]
    place: Callable[[int], str]


def read_csv_columns(content: bytes, path: Path) -> CsvColumns:
    """The columns of a CSV file: doubles where all cells are numbers or empty, else texts. O(cells).

    The separator is the comma, semicolon, tab or bar, whichever is most frequent in the first line. If it is
    not the comma, and no cell is a number with a decimal point, numbers may have a decimal comma. Lines that
    begin with # are left out if the file begins with such a line. Of columns with the same name and the same
    cells, one is kept.

    Raises InputError, with the line, if the file is not such a table.
    """
    lines = text_of(content, path).split("\n")
    first, separator, comment = _start(lines)
    if first == len(lines):
        raise InputError(f"{path}: has no rows.")
    rows = list(_rows(lines, first, separator, bool(comment), path))
    names, rows = _headings(rows, comment, separator, path)
    for line, cells in rows:
        if len(cells) != len(names):
            raise InputError(f"{path}, line {line}: {len(cells)} cells, where the header has {len(names)}.")
    if not rows:
        raise InputError(f"{path}: has no rows.")
    texts = [[cell.strip() for cell in cells] for cells in zip(*(cells for _, cells in rows), strict=True)]
    unlike = {name for k, name in enumerate(names) if texts[k] != texts[names.index(name)]}
    check_once([name for name in names if name in unlike], path)
    points = separator == "," or any(_DECIMAL_POINT.fullmatch(cell) for cells in texts for cell in cells)
    columns = {name: _column(cells, not points) for name, cells in zip(names, texts, strict=True)}
    return CsvColumns(columns, lambda row: f"line {rows[row][0]}")


def text_of(content: bytes, path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte-order mark; InputError, with the line, if it is
    another file.
    """
    if content[:2] in _UTF16:  # "Unicode text" of Excel
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-16 text, as its first bytes say.") from None
    content = _COMMENTS.sub(lambda found: found[0].decode("utf-8", "replace").encode(), content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text.") from None


def _start(lines: Sequence[str]) -> tuple[int, str, str]:
    """The place of the first line that is not a comment, the separator, and the last comment before it."""
    separator = comment = ""
    for place, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith("sep=") and len(bare) == len("sep=,"):  # written by Excel
            separator = bare[-1]
        elif bare.startswith("#") and len(bare) > 1:
            comment = bare
        elif bare:
            head = re.sub(r'"[^"]*"', "", line)
            return place, separator or max(_SEPARATORS, key=head.count), comment
    return len(lines), separator, comment


def _rows(
    lines: Sequence[str], first: int, separator: str, comments: bool, path: Path
) -> Iterator[tuple[int, list[str]]]:
    """The rows from this line, each with the number of its line."""
    kept = ("\n" if comments and line.startswith("#") else f"{line}\n" for line in lines[first:])
    reader = csv.reader(kept, delimiter=separator)
    try:
        yield from ((first + reader.line_num, cells) for cells in reader if any(map(str.strip, cells)))
    except csv.Error as error:
        raise InputError(f"{path}, line {first + reader.line_num}: not a CSV table ({error}).") from None


def _headings(
    rows: list[tuple[int, list[str]]], comment: str, separator: str, path: Path
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns, and the rows below them."""
    (line, head), below = rows[0], rows[1:]
    names = [name.strip() for name in head]
    named = [name.strip() for name in comment.lstrip("# ").split(separator)]
    if any(map(shows_number, names)) and len(named) == len(names):  # as numpy.savetxt writes the header
        return named, rows
    if below and len(set(names)) < len(names):  # pandas writes two rows of headings: params, and lr below it
        second = [name.strip() for name in below[0][1]]
        twice = [k for k, name in enumerate(names) if name and names.count(name) > 1]
        if len(second) == len(names) and all(second[k] and not shows_number(second[k]) for k in twice):
            names = ["_".join(filter(None, pair)) for pair in zip(names, second, strict=True)]
            below = below[1:]
    if len(names) == 1:
        raise InputError(
            f"{path}, line {line}: only one column, {shortened(names[0])}. A sweep needs a first line with "
            f"the names of its columns, separated by commas, semicolons, tabs or |."
        )
    if 2 * sum(map(shows_number, names)) >= len(names):
        raise InputError(
            f"{path}, line {line}: holds numbers where the names of the columns should be. Add a first line "
            "with their names."
        )
    return names, below


def _column(cells: Sequence[str], decimal_commas: bool) -> Column:
    """Cells as numbers if each is a number or empty, and no two texts are one number; else as texts."""
    read = {text: text for text in cells}
    if decimal_commas:
        read = {text: text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text for text in read}
    if all(text in EMPTY or _PERCENT.fullmatch(text) for text in read):
        read = {text: text.removesuffix("%").strip() for text in read}
    try:
        numbers = {text: math.nan if text in EMPTY else number_of(read[text]) for text in read}
    except ValueError:
        numbers = {}
    some = set(read) - set(EMPTY)
    if numbers and len({numbers[text] for text in some}) == len(some):
        return np.array([numbers[text] for text in cells])
    return objects([read[text] for text in cells])
