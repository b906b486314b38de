"""Texts of a user's files, one at a time: lines, tab-separated columns, JSON lines, Parquet; packed or not.

Every text comes with its file and line (or row), for errors. Memory does not grow with the file. A file is
refused if it unpacks to far more than its size, or if a line never seems to end.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from hpobench_nmt.core.system.errors import InputError, one_line, shortened
from hpobench_nmt.runner.corpora.contents import HEAD, PACKED, content_of, refuse_content
from hpobench_nmt.runner.corpora.text_reading import decoded, read_bytes
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.settings import setting, texts_of

Format = Literal["text", "tsv", "jsonl", "parquet"]
unpacking = partial(setting, about="unpack gz, xz and zst archives", added=True)

UNPACK = dict.fromkeys(PACKED, "Set unpack = true in [corpus]")
"""What to do about archives, for `Reading.advice`."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)
_MOST_RATIO, _SLACK = 200, 64 * 2**20  # real texts shrink to about a twentieth
_LONGEST_LINE = 64 * 2**20
_ROWS = 4096
_MOST_NAMES = 12
_PART_NAMES = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
_ENDINGS = {"tsv": "tsv", "jsonl": "jsonl?", "parquet": "parquet", "text": "txt"}


class Text(NamedTuple):
    """A text with its file and its line there (in Parquet, its row), counted from 1."""

    path: Path
    number: int
    text: str
    counted: str = "line"

    @property
    def place(self) -> str:
        """For errors."""
        return f"{self.path}, {self.counted} {self.number}"


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes:
        columns: where each text of a record is. In JSON lines and Parquet: a key or column, with a dot before
            a key inside it. In TSV: a heading of the first line, or, without headings, a number from 1. Plain
            text has no columns.
        advice: instructions for a file of another kind (`refuse_content`).
    """

    format: Format = "text"
    columns: tuple[str, ...] = ()
    unpack: bool = False
    advice: Mapping[str, str] = field(default_factory=dict)


def part_files(
    base: Path, value: str | tuple[str, ...], option: str, part: str, kind: Format
) -> tuple[Path, ...]:
    """The files that an option names, one or a list, in the option's order.

    A folder stands for its files of this format whose path contains the part's name, in alphabetical order.
    Data sets of Hugging Face have such names: data/train-00000-of-00002.parquet. A folder of plain text is
    not accepted. Raises InputError if no file is found.
    """
    found: list[Path] = []
    for name in texts_of(value):
        path = user_path(base, name, f"[corpus] {option}")
        found += _in_folder(path, option, part, kind) if kind != "text" and path.is_dir() else [path]
    if not found:
        raise InputError(f"[corpus] {option}: is an empty list. Name a file.")
    return tuple(found)


def file_names(paths: Sequence[Path]) -> str:
    """The names of files, for people. If there are many, their number and three of the names."""
    names = [path.name for path in paths]
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:2])}, … {names[-1]} ({len(names)} files)"
    return ", ".join(names)


def users_files(paths: Sequence[Path], licence: str, data_set: str = "") -> dict[str, str]:
    """The provenance of a corpus in a user's files, which may be a well-known data set."""
    source = f"{data_set and f'{data_set}, '}files of the user: {file_names(paths)}"
    return {"source": source, "version": "unknown: see sha256", "licence": licence}


def _in_folder(folder: Path, option: str, part: str, kind: Format) -> list[Path]:
    ending = re.compile(rf"\.{_ENDINGS[kind]}(\.({'|'.join(PACKED)}))?$")
    files = sorted(path for path in folder.rglob("*") if ending.search(path.name) and path.is_file())

    def is_of_part(path: Path) -> bool:
        words = re.split(r"[^a-z0-9]+", path.relative_to(folder).as_posix().lower())
        return any(word in _PART_NAMES[part] for word in words)

    found = [path for path in files if is_of_part(path)]
    if not found:
        names = " or ".join(_PART_NAMES[part])
        raise InputError(
            f"[corpus] {option}: {folder} has {len(files)} {kind} files, but none with {names} in its name. "
            f"Name the files: {option} = [...]."
        )
    return found


def records(paths: Sequence[Path], option: str, reading: Reading) -> Iterator[tuple[Text, ...]]:
    """The records of several files, one after the other: a text for each column, or a line of plain text.

    Lines end in \\n. A line of plain text keeps its \\n.

    Raises InputError, with the line, for a file that is missing, damaged, of another kind, or not UTF-8, or
    that lacks a column.
    """
    for path in paths:
        refuse_content(_head(path, option, reading), path, reading.format, reading.advice)
        if reading.format == "parquet":
            yield from _parquet(path, reading.columns)
        elif reading.format == "jsonl":
            yield from _json_lines(path, reading)
        elif reading.format == "tsv":
            yield from _tab_separated(path, reading)
        else:
            for number, line in _lines(path, reading):
                yield (Text(path, number, line),)


def _head(path: Path, option: str, reading: Reading) -> bytes:
    head = read_bytes(path, option, HEAD)
    if not reading.unpack or content_of(head) not in PACKED:
        return head
    try:
        with _opened(path, unpack=True) as file:
            return file.read(HEAD)
    except _DAMAGED:
        return b""  # `_lines` raises the error, with the line


@contextmanager
def _opened(path: Path, *, unpack: bool) -> Iterator[IO[bytes]]:
    """The file's content, unpacked if asked for. Reading a damaged archive raises one of `_DAMAGED`."""
    with path.open("rb") as plain:
        kind = content_of(plain.read(6)) if unpack else ""
        plain.seek(0)
        if kind not in PACKED:
            yield plain
            return
        if kind == "zst":
            import pyarrow as pa

            stream: Any = pa.CompressedInputStream(plain, "zstd")
        else:
            stream = gzip.open(plain) if kind == "gz" else lzma.open(plain)  # noqa: SIM115 (closed with plain)
        yield io.BufferedReader(cast(io.RawIOBase, stream), HEAD)


def _lines(path: Path, reading: Reading) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers. Only \\n ends a line, and the last line may lack it."""
    most = path.stat().st_size * _MOST_RATIO + _SLACK
    longest = _LONGEST_LINE + 1 if reading.unpack else -1
    number, size = 0, 0
    try:
        with _opened(path, unpack=reading.unpack) as file:
            while line := file.readline(longest):
                number += 1
                size += len(line)
                if len(line) == longest:
                    raise InputError(f"{path}, line {number}: has more than {_LONGEST_LINE:,} bytes.")
                if size > most:
                    raise InputError(
                        f"{path}, line {number}: the archive unpacks to more than {_MOST_RATIO} times its "
                        "size, which no text does. Unpack it first if you trust it."
                    )
                yield number, decoded(line, path, number)
    except _DAMAGED as error:
        raise InputError(
            f"{path}, after line {number}: the file is cut off or damaged ({one_line(error)}). Get it again."
        ) from None


def _json_lines(path: Path, reading: Reading) -> Iterator[tuple[Text, ...]]:
    for number, line in _lines(path, reading):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: is not a JSON object: {shortened(line.strip())}.")
        yield tuple(
            Text(path, number, _text(_under(record, column, path, number), column, f"{path}, line {number}"))
            for column in reading.columns
        )


def _under(record: dict[str, Any], column: str, path: Path, number: int) -> Any:
    """The value of a key, or of a key inside another: "translation.de"."""
    if column in record:
        return record[column]
    value: Any = record
    for key in column.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(shortened, list(record)[:10]))
            raise InputError(f"{path}, line {number}: has no key {column!r}. Its keys: {there}.")
        value = value[key]
    return value


def _text(value: Any, column: str, place: str) -> str:
    """A value as a text. None is an empty text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{place}: {column} is {json.dumps(value)[:60]}, not a text.")
    if _SURROGATE.search(value):
        raise InputError(f"{place}: {column} contains a lone surrogate, which is not a character.")
    return value


def _tab_separated(path: Path, reading: Reading) -> Iterator[tuple[Text, ...]]:
    places: list[int] = []
    if all(column.isdecimal() for column in reading.columns):
        places = [int(column) - 1 for column in reading.columns]
        if -1 in places:
            raise InputError(
                f"{path}: column '0' does not exist. Without headings, columns are numbered from 1."
            )
    for number, line in _lines(path, reading):
        cells = line.rstrip("\n").split("\t")
        if not places:
            for column in reading.columns:
                if column not in cells:
                    raise InputError(
                        f"{path}, line {number}: has no heading {column!r}. "
                        f"Its headings: {', '.join(map(shortened, cells[:10]))}."
                    )
            places = [cells.index(column) for column in reading.columns]
            continue
        if max(places) >= len(cells):
            column = reading.columns[places.index(max(places))]
            raise InputError(
                f"{path}, line {number}: column {column!r} is missing. The line's columns: {len(cells)}."
            )
        yield tuple(Text(path, number, cells[place]) for place in places)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[tuple[Text, ...]]:
    """The rows of a Parquet file. Only the given columns are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    most, size, number = path.stat().st_size * _MOST_RATIO + _SLACK, 0, 0
    try:
        with pq.ParquetFile(path) as file:
            for column in columns:
                _refuse_no_texts(file.schema_arrow, column, path)
            for batch in file.iter_batches(_ROWS, columns=list(columns)):
                values = [_column(batch, column).to_pylist() for column in columns]
                size += sum(len(text or "") for texts in values for text in texts)
                if size > most:
                    raise InputError(
                        f"{path}, row {number + 1}: the texts take more than {_MOST_RATIO} times the file's "
                        "size, which no corpus does."
                    )
                for row in zip(*values, strict=True):
                    number += 1
                    yield tuple(Text(path, number, text or "", "row") for text in row)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}, after row {number}: the file is cut off or damaged ({one_line(error)}). Get it again."
        ) from None


def _keys(names: Sequence[str], column: str) -> list[str]:
    return [column] if column in names else column.split(".")


def _refuse_no_texts(schema: Any, column: str, path: Path) -> None:
    """Raise InputError if a Parquet file lacks a column, or if the column does not hold texts."""
    import pyarrow as pa

    first, *rest = _keys(schema.names, column)
    place = schema.get_field_index(first)  # -1 also if the name occurs twice
    found: Any = schema.field(place).type if place >= 0 else None
    for key in rest:
        inside = pa.types.is_struct(found) and found.get_field_index(key) >= 0 if found else False
        found = found.field(key).type if inside else None
    if found is None:
        names = ", ".join(f"{f.name} ({shortened(str(f.type))})" for f in list(schema)[:10])
        raise InputError(f"{path}: has no column {column!r}. Its columns: {names}.")
    of = found.value_type if pa.types.is_dictionary(found) else found
    if not (pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)):
        raise InputError(f"{path}: column {column!r} has the type {found}, not text.")


def _column(batch: Any, column: str) -> Any:
    import pyarrow.compute as pc

    first, *rest = _keys(batch.schema.names, column)
    values = batch.column(first)
    return pc.struct_field(values, rest) if rest else values
