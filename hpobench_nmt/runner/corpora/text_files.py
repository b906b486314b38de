"""Language-model corpora in files that the user has: plain text, and four well-known data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Annotated, Literal, TypeVar

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader, TextOptions, Tokenise, Words
from hpobench_nmt.runner.corpora.text_reading import (
    decoded,
    lines_of,
    read_bytes,
    read_lines,
    read_text,
    status,
)
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.corpora.vocabulary import (
    END,
    byte_corpus,
    byte_names,
    character_corpus,
    subword_corpus,
    word_corpus,
)
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.family import Unit
from hpobench_nmt.runner.settings import About, Settings

_WORD = re.compile(r"\S+")
_MOST_DEV_WORDS = 100_000
_OWN_ENDS = (END, "</s>")

T = TypeVar("T", bound=TextOptions)


@dataclass(frozen=True, kw_only=True)
class _Files(Settings):
    train: Annotated[str, About("a UTF-8 text file to be train")]
    dev: Annotated[str, About("a UTF-8 text file to be dev")]
    test: Annotated[str, About("a UTF-8 text file to be test")]
    unit: Words = "word"
    tokenise: Tokenise = False


@dataclass(frozen=True, kw_only=True)
class TextFilesOptions(TextOptions, _Files):
    """Options of plain text, a file for each part."""


@dataclass(frozen=True, kw_only=True)
class _Folder(Settings):
    folder: Annotated[str, About("the folder of the three files")]
    unit: Annotated[Literal["word", "subword"], About("what a token is")] = "word"


@dataclass(frozen=True, kw_only=True)
class FolderOptions(TextOptions, _Folder):
    """Options of a data set in a folder."""


@dataclass(frozen=True, kw_only=True)
class _File(Settings):
    file: Annotated[str, About("the unpacked file")]


@dataclass(frozen=True, kw_only=True)
class FileOptions(TextOptions, _File):
    """Options of a data set in one file."""


@dataclass(frozen=True, kw_only=True)
class _File8(_File):
    unit: Words = "character"


@dataclass(frozen=True, kw_only=True)
class Text8Options(FileOptions, _File8):
    """Options of text8, which may be one of words or subwords: see `_word_parts`."""


# Where a part is: the option that says so, and the file.
Places = Mapping[str, tuple[str, Path]]


def _unit(options: TextOptions) -> Unit:
    """What a token is; enwik8 is of bytes."""
    unit: Unit = getattr(options, "unit", "character")
    return unit


def _corpus(name: str, places: Places, options: TextOptions, licence: str) -> Corpus:
    """A corpus of one file per part: words with <eos> at every line's end, or characters as they are."""
    provenance = _provenance(name, [path for _, path in places.values()], licence)
    if _unit(options) == "character":
        texts = {part: [read_text(path, option)] for part, (option, path) in places.items()}
        return character_corpus(name, texts, options, provenance, ends=False)
    words = {part: _words(read_lines(path, option), options, path) for part, (option, path) in places.items()}
    make = subword_corpus if _unit(options) == "subword" else word_corpus
    return make(name, words, options, provenance)


def _words(lines: list[str], options: TextOptions, path: Path) -> list[str]:
    """The words of every line, and its end. Raises InputError where a line has an end of its own."""
    for number, line in enumerate(lines, start=1):
        if line.rstrip().endswith(_OWN_ENDS):
            raise InputError(
                f"{path}, line {number}: ends in {line.split()[-1]}, but every line gets an {END} here. "
                "Remove it from the file."
            )
    split = tokenise if isinstance(options, TextFilesOptions) and options.tokenise else str.split
    return list(chain.from_iterable((*split(line), END) for line in lines))


def _split(options: TextOptions, content: bytes, path: Path) -> list[str]:
    text = decoded(content, path)
    return list(text) if _unit(options) == "character" else _words(lines_of(text), options, path)


def _provenance(name: str, paths: list[Path], licence: str) -> dict[str, str]:
    return {
        "source": f"{name}, files of the user: {', '.join(path.name for path in paths)}",
        "version": "unknown: see sha256",
        "licence": licence,
    }


def _own_places(options: TextFilesOptions, base: Path) -> Places:
    return {part: (part, user_path(base, getattr(options, part), f"[corpus] {part}")) for part in PARTS}


def _folder_places(names: tuple[str, str, str]) -> Callable[[FolderOptions, Path], Places]:
    def places(options: FolderOptions, base: Path) -> Places:
        folder = user_path(base, options.folder, "[corpus] folder")
        return {part: ("folder", folder / name) for part, name in zip(PARTS, names, strict=True)}

    return places


def _file_place(options: FileOptions, base: Path) -> Places:
    return {"all": ("file", user_path(base, options.file, "[corpus] file"))}


def _one_file(name: str, places: Places, options: TextOptions, licence: str) -> Corpus:
    """A data set in one file: its first 90 % are train, the next 5 % dev, the last 5 % test."""
    ((option, path),) = places.values()
    content, provenance = read_bytes(path, option), _provenance(name, [path], licence)
    if content[:4] == b"PK\x03\x04":
        raise InputError(f"[corpus] file: {path} is a zip archive. Unpack it first.")
    if _unit(options) != "character":
        make = subword_corpus if _unit(options) == "subword" else word_corpus
        return make(name, _word_parts(decoded(content, path)), options, provenance)
    first, second = len(content) * 90 // 100, len(content) * 95 // 100
    parts = {"train": content[:first], "dev": content[first:second], "test": content[second:]}
    return byte_corpus(name, parts, options, provenance)


def _split_file(options: TextOptions, content: bytes, path: Path) -> list[str]:
    return byte_names(content) if _unit(options) == "character" else decoded(content, path).split()


def _reader(
    name: str,
    kind: type[T],
    places: Callable[[T, Path], Places],
    licence: str,
    corpus: Callable[[str, Places, TextOptions, str], Corpus] = _corpus,
    split: Callable[[TextOptions, bytes, Path], list[str]] = _split,
) -> CorpusReader[T]:
    def depends(options: T, base: Path, cache: Path) -> list[str]:
        return [status(path, option) for option, path in places(options, base).values()]

    def read(options: T, base: Path, cache: Path) -> Corpus:
        return corpus(name, places(options, base), options, licence)

    return CorpusReader(name, "text", kind, depends, read, split)


def _word_parts(text: str) -> dict[str, list[str]]:
    """Words without ends of lines: the last hundredth of the text is test, as in Mikolov et al. (2014).

    Of the words before it the last 100,000 are dev, as in Krause et al. (2018, section 7.2), or the last
    tenth if that is less. A word on the border is test's.
    """
    border = text.rfind(" ", 0, len(text) * 99 // 100) + 1
    # A word that occurs often is one object: text8 has 17 million words.
    first, test = ([intern(m[0]) for m in _WORD.finditer(t)] for t in (text[:border], text[border:]))
    dev = min(_MOST_DEV_WORDS, len(first) // 10)
    return {"train": first[: len(first) - dev], "dev": first[len(first) - dev :], "test": test}


TEXT = _reader("text", TextFilesOptions, _own_places, "the user's")
PTB = _reader(
    "ptb",
    FolderOptions,
    _folder_places(("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt")),
    "LDC User Agreement",
)
WIKITEXT_2 = _reader(
    "wikitext-2",
    FolderOptions,
    _folder_places(("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens")),
    "CC BY-SA 3.0",
)
_WIKIPEDIA = "text of Wikipedia: CC BY-SA and GFDL"
ENWIK8 = _reader("enwik8", FileOptions, _file_place, _WIKIPEDIA, _one_file, _split_file)
TEXT8 = _reader("text8", Text8Options, _file_place, _WIKIPEDIA, _one_file, _split_file)
