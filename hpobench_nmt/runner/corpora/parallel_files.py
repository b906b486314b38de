"""Parallel corpora in plain text files of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus, Lines
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader, Tokenise
from hpobench_nmt.runner.corpora.sentence_pairs import parallel_corpus
from hpobench_nmt.runner.corpora.text_reading import decoded, lines_of, read_lines, status
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.settings import About, Settings

_FILES = tuple(f"{part}_{side}" for part in PARTS for side in ("source", "target"))


_File = Annotated[str, About("a UTF-8 text file, one text per line")]


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(Settings):
    """Options of parallel texts in files."""

    source: Annotated[str, About("the language to translate from, such as de")]
    target: Annotated[str, About("the language to translate to, such as en")]
    train_source: _File
    train_target: _File
    dev_source: _File
    dev_target: _File
    test_source: _File
    test_target: _File
    tokenise: Tokenise = False
    max_words: Annotated[int, About("a line with more tokens is an error", low=1)] = 250


def _path(options: ParallelOptions, base: Path, option: str) -> Path:
    return user_path(base, getattr(options, option), f"[corpus] {option}")


def _depends(options: ParallelOptions, base: Path, cache: Path) -> list[str]:
    return [status(_path(options, base, option), option) for option in _FILES]


def _read(options: ParallelOptions, base: Path, cache: Path) -> Corpus:
    sides = {option: _lines(_path(options, base, option), option, options) for option in _FILES}
    for part in PARTS:
        source, target = len(sides[f"{part}_source"]), len(sides[f"{part}_target"])
        if source != target:
            paths = [_path(options, base, f"{part}_{side}") for side in ("source", "target")]
            line = _misaligned_from(sides[f"{part}_source"], sides[f"{part}_target"]) + 1
            raise InputError(
                f"{paths[0]} has {source:,} lines but {paths[1]} has {target:,}: the two sides of a pair "
                f"must be on lines of the same number. By their lengths they go apart at line {line:,}."
            )
    parts = {part: (sides[f"{part}_source"], sides[f"{part}_target"]) for part in PARTS}
    provenance = {
        "source": f"files of the user: {', '.join(_path(options, base, o).name for o in _FILES)}",
        "version": "unknown: see sha256",
        "licence": "the user's",
    }
    return parallel_corpus("parallel", (options.source, options.target), parts, provenance)


def _misaligned_from(source: Lines, target: Lines) -> int:
    """The line, counted from 0, from which two sides of unlike length most likely no longer belong together.

    The longer side has this many lines more; the place where leaving them out makes the numbers of tokens
    agree best (the sum of the absolute log ratios), the last such place where there are several.
    """
    few, many = sorted((np.log([len(line.split()) for line in side]) for side in (source, target)), key=len)
    extra = len(many) - len(few)
    before = np.abs(few - many[: len(few)])  # of lines above that place
    after = np.abs(few - many[extra:])  # of lines below it
    cost = np.append(0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0)
    return int(len(few) - np.argmin(cost[::-1].round(9)))


def _split(options: ParallelOptions, content: bytes, path: Path) -> list[str]:
    split = tokenise if options.tokenise else str.split
    return [" ".join(split(line)) for line in lines_of(decoded(content, path))]


def _lines(path: Path, option: str, options: ParallelOptions) -> Lines:
    """A file's tokenised lines. Raises InputError for an empty file, or a line that is empty or over-long."""
    lines = []
    for number, line in enumerate(read_lines(path, option), 1):
        found = tokenise(line) if options.tokenise else line.split()
        if not found:
            raise InputError(
                f"{path}, line {number}: empty. Remove the line, and its partner in the other file."
            )
        if len(found) > options.max_words:
            raise InputError(
                f"{path}, line {number}: {len(found):,} tokens, but max_words is {options.max_words}. "
                "Remove the line and its partner in the other file, or set max_words higher."
            )
        lines.append(" ".join(found))
    if not lines:
        raise InputError(f"[corpus] {option}: {path} is empty.")
    return tuple(lines)


PARALLEL = CorpusReader("parallel", "parallel", ParallelOptions, _depends, _read, _split)
