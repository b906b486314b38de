"""Parallel corpora in the user's files: a file for each side, or a file with both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader
from hpobench_nmt.runner.corpora.pair_filters import (
    Kept,
    PairOptions,
    Row,
    check_filters,
    empty_line,
    kept_pairs,
)
from hpobench_nmt.runner.corpora.records import (
    UNPACK,
    Reading,
    Text,
    file_names,
    part_files,
    records,
    unpacking,
    users_files,
)
from hpobench_nmt.runner.corpora.sentence_pairs import parallel_corpus
from hpobench_nmt.runner.corpora.text_reading import decoded, lines_of, status
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.settings import setting, texts_of

_SIDES = ("source", "target")

_one_file = partial(setting, about="a UTF-8 text file, one text per line, or a list of files")
_both_sides = partial(setting, about="a file, a list of files, or a folder of files with the part's name")
_column = partial(
    setting,
    about="column or key of its text, such as translation.de; in TSV, a number or a heading. Default: the "
    "language, or the first two columns of TSV",
)


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(PairOptions):
    """Options of parallel texts with a file for each side."""

    train_source: str | tuple[str, ...] = _one_file(...)
    train_target: str | tuple[str, ...] = _one_file(...)
    dev_source: str | tuple[str, ...] = _one_file(...)
    dev_target: str | tuple[str, ...] = _one_file(...)
    test_source: str | tuple[str, ...] = _one_file(...)
    test_target: str | tuple[str, ...] = _one_file(...)
    unpack: bool = unpacking(False)


@dataclass(frozen=True, kw_only=True)
class PairsOptions(PairOptions):
    """Options of parallel texts in files that have both sides."""

    train: str | tuple[str, ...] = _both_sides(...)
    dev: str | tuple[str, ...] = _both_sides(...)
    test: str | tuple[str, ...] = _both_sides(...)
    format: Literal["tsv", "jsonl", "parquet"] = setting(..., "what the files are")
    source_column: str = _column("")
    target_column: str = _column("")
    unpack: bool = unpacking(False)


Rows = Iterator[Row]
Files = Mapping[str, tuple[Path, ...]]
"""The files of each option that names files."""

T = TypeVar("T", bound=PairOptions)


def _side_files(options: ParallelOptions, base: Path) -> Files:
    return {
        option: part_files(base, getattr(options, option), option, part, "text")
        for part in PARTS
        for option in (f"{part}_source", f"{part}_target")
    }


def _side_rows(options: ParallelOptions, files: Files, part: str) -> Rows:
    """The lines of both sides. Raises InputError if one side has more lines."""
    advice = UNPACK | dict.fromkeys(("jsonl", "parquet"), 'Set name = "pairs" and format in [corpus]')
    reading = Reading(unpack=options.unpack, advice=advice)

    def side(name: str) -> Iterator[tuple[Text, ...]]:
        return records(files[name], name, reading)

    names = [f"{part}_{name}" for name in _SIDES]
    for number, row in enumerate(zip_longest(*map(side, names))):
        for name, found in zip(names, row, strict=True):
            if found is None:
                if not number:
                    raise InputError(f"[corpus] {name}: {file_names(files[name])} is empty.")
                texts = [[text for (text,) in side(name)] for name in names]
                blank = [text for lines in texts for text in lines if not text.text.strip()]
                if blank and not (part == "train" and "empty" in texts_of(options.filters)):
                    raise empty_line(blank[0], "the line, and its partner in the other file")
                raise _misaligned([[text.text for text in lines] for lines in texts], names, files)
        yield row[0][0], row[1][0]


def _misaligned(sides: list[list[str]], names: Sequence[str], files: Files) -> InputError:
    source, target = sides
    line = _misaligned_from(sides) + 1
    paths = [", ".join(map(str, files[name])) for name in names]
    return InputError(
        f"{paths[0]} has {len(source):,} lines but {paths[1]} has {len(target):,}: the two sides of a pair "
        f"must be on lines with the same number. By their lengths, the files stop matching at line {line:,}."
    )


def _misaligned_from(sides: list[list[str]]) -> int:
    """The line, counted from 0, at which two sides of unequal length most likely stop matching.

    The surplus lines of the longer side are assumed to be in one place. It is the place where the numbers of
    tokens agree best if these lines are left out, by the sum of the absolute log ratios. If several places
    are equally good, it is the last.
    """
    few, many = sorted((np.log([max(1, len(line.split())) for line in side]) for side in sides), key=len)
    extra = len(many) - len(few)
    before = np.abs(few - many[: len(few)])  # of lines above that place
    after = np.abs(few - many[extra:])  # of lines below it
    cost = np.append(0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0)
    return int(len(few) - np.argmin(cost[::-1].round(9)))


def _both_files(options: PairsOptions, base: Path) -> Files:
    return {part: part_files(base, getattr(options, part), part, part, options.format) for part in PARTS}


def _both_rows(options: PairsOptions, files: Files, part: str) -> Rows:
    numbers = options.format == "tsv"
    columns = (
        options.source_column or ("1" if numbers else options.source),
        options.target_column or ("2" if numbers else options.target),
    )
    advice = UNPACK | {kind: f'Set format = "{kind}" in [corpus]' for kind in ("jsonl", "parquet")}
    reading = Reading(options.format, columns, options.unpack, advice)
    return ((source, target) for source, target in records(files[part], part, reading))


def _read(name: str, options: PairOptions, files: Files, rows: Callable[[str], Rows]) -> Corpus:
    """The corpus. Only train is filtered, because scores are compared on dev and test."""

    def read(part: str, filters: Collection[str] = (), held_out: Collection[str] = ()) -> Kept:
        found = kept_pairs(rows(part), options, filters, held_out)
        if not found.read:
            option = next(option for option in files if option.startswith(part))
            raise InputError(f"[corpus] {option}: {file_names(files[option])} is empty.")
        return found

    kept = {part: read(part) for part in ("dev", "test")}
    filters = texts_of(options.filters)
    held_out = {line.casefold() for part in kept.values() for side in part.sides for line in side}
    kept["train"] = read("train", filters, held_out if "held_out" in filters else ())
    if not kept["train"].count:
        raise InputError(f"corpus {name!r}: no pair is left. {kept['train'].sentence}.")
    provenance = users_files([path for paths in files.values() for path in paths], "the user's")
    if filters:
        provenance["filters"] = kept["train"].sentence
    parts = {part: found.sides for part, found in kept.items()}
    return parallel_corpus(name, (options.source, options.target), parts, provenance)


def _split(options: PairOptions, content: bytes, path: Path) -> list[str]:
    split = tokenise if options.tokenise else str.split
    return [" ".join(split(line)) for line in lines_of(decoded(content, path))]


def _reader(
    name: str, kind: type[T], files: Callable[[T, Path], Files], rows: Callable[[T, Files, str], Rows]
) -> CorpusReader[T]:
    def depends(options: T, base: Path, cache: Path) -> list[str]:
        return [status(path, option) for option, paths in files(options, base).items() for path in paths]

    def read(options: T, base: Path, cache: Path) -> Corpus:
        found = files(options, base)
        return _read(name, options, found, lambda part: rows(options, found, part))

    return CorpusReader(name, "parallel", kind, depends, read, _split, check_filters)


PARALLEL = _reader("parallel", ParallelOptions, _side_files, _side_rows)
PAIRS = _reader("pairs", PairsOptions, _both_files, _both_rows)
