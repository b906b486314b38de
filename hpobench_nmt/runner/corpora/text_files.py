"""Language-model corpora in the user's files: texts of any format, and four well-known data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Literal, TypeVar

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.contents import HEAD, refuse_content
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader, TextOptions, tokenising, unit_of_tokens
from hpobench_nmt.runner.corpora.records import (
    UNPACK,
    Format,
    Reading,
    Text,
    part_files,
    records,
    unpacking,
    users_files,
)
from hpobench_nmt.runner.corpora.text_reading import decoded, lines_of, read_bytes, status
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.corpora.vocabulary import END, Numbering, byte_names
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.family import Unit
from hpobench_nmt.runner.settings import Settings, setting

_WORD = re.compile(r"\S+")
_MOST_DEV_WORDS = 100_000
_OWN_ENDS = (END, "</s>")
_ABOUT_FORMAT = (
    "format of the files. Each line of a record's text is a line of the corpus. A folder means all its "
    "files of this format with the part's name"
)

T = TypeVar("T", bound=TextOptions)


@dataclass(frozen=True, kw_only=True)
class _Files(Settings):
    train: str | tuple[str, ...] = setting(..., "a UTF-8 text file, or a list of files, for train")
    dev: str | tuple[str, ...] = setting(..., "likewise, to be dev")
    test: str | tuple[str, ...] = setting(..., "likewise, to be test")
    unit: Unit = unit_of_tokens("word")
    tokenise: bool = tokenising(False)
    format: Format = setting("text", _ABOUT_FORMAT, added=True)
    column: str = setting(
        "text", "column or key of a text, such as text or document.text; in TSV, a number or a heading",
        added=True,
    )  # fmt: skip
    unpack: bool = unpacking(False)


@dataclass(frozen=True, kw_only=True)
class TextFilesOptions(TextOptions, _Files):
    """Options of texts with files for each part."""


@dataclass(frozen=True, kw_only=True)
class _Folder(Settings):
    folder: str = setting(..., "the folder of the three files")
    unit: Literal["word", "subword"] = setting("word", "what a token is")


@dataclass(frozen=True, kw_only=True)
class FolderOptions(TextOptions, _Folder):
    """Options of a data set in a folder."""


@dataclass(frozen=True, kw_only=True)
class _File(Settings):
    file: str = setting(..., "the unpacked file")


@dataclass(frozen=True, kw_only=True)
class FileOptions(TextOptions, _File):
    """Options of a data set in one file."""


@dataclass(frozen=True, kw_only=True)
class _File8(_File):
    unit: Unit = unit_of_tokens("character")


@dataclass(frozen=True, kw_only=True)
class Text8Options(FileOptions, _File8):
    """Options of text8, which may also be read as words or subwords (`_word_parts`)."""


# For each part, the option that names its files, and the files.
Places = Mapping[str, tuple[str, tuple[Path, ...]]]


def _unit(options: TextOptions) -> Unit:
    """The unit of the tokens. enwik8 has no such option: its characters are bytes."""
    unit: Unit = getattr(options, "unit", "character")
    return unit


def _corpus(name: str, places: Places, options: TextOptions, licence: str) -> Corpus:
    """A corpus from files for each part: words or subwords with <eos> after every line, or all characters."""
    provenance = users_files([path for _, paths in places.values() for path in paths], licence, name)
    numbering = Numbering(name, options, provenance)
    reading = _reading(options)
    texts = {
        part: (text for (text,) in records(paths, option, reading))
        for part, (option, paths) in places.items()
    }
    if _unit(options) == "character":
        return numbering.characters({part: [_joined(texts[part])] for part in texts}, ends=False)
    return numbering.words({part: _words(texts[part], options) for part in texts})


def _reading(options: TextOptions) -> Reading:
    """How the files of each part are read. The files of well-known data sets are plain text."""
    if not isinstance(options, TextFilesOptions):
        return Reading()
    kinds = ("jsonl", "parquet")
    advice = UNPACK | {kind: f'Set format = "{kind}", and column, in [corpus]' for kind in kinds}
    columns = () if options.format == "text" else (options.column,)
    return Reading(options.format, columns, options.unpack, advice)


def _check(options: TextOptions) -> None:
    """Refuse a setting without effect."""
    if isinstance(options, TextFilesOptions) and options.format == "text" and options.column != "text":
        raise InputError('[corpus]: column has no effect with format = "text".')


def _joined(texts: Iterable[Text]) -> str:
    """All texts, with an end of line between two texts."""
    parts: list[str] = []
    for text in texts:
        if parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        parts.append(text.text)
    return "".join(parts)


def _words(texts: Iterable[Text], options: TextOptions) -> list[str]:
    """The words of every line, and END after each line. Raises InputError if a line already has an end."""
    split = tokenise if isinstance(options, TextFilesOptions) and options.tokenise else str.split
    words: list[str] = []
    for text in texts:
        for line in lines_of(text.text):
            if line.rstrip().endswith(_OWN_ENDS):
                raise InputError(
                    f"{text.place}: ends in {line.split()[-1]}, but every line gets an {END} here. "
                    "Remove it from the file."
                )
            # Equal words share one object.
            words += map(intern, split(line))
            words.append(END)
    return words


def _split(options: TextOptions, content: bytes, path: Path) -> list[str]:
    text = decoded(content, path)
    if _unit(options) == "character":
        return list(text)
    return _words((Text(path, n, line + "\n") for n, line in enumerate(lines_of(text), start=1)), options)


def _own_places(options: TextFilesOptions, base: Path) -> Places:
    return {p: (p, part_files(base, getattr(options, p), p, p, options.format)) for p in PARTS}


def _folder_places(name: str) -> Callable[[FolderOptions, Path], Places]:
    """The files of a folder; their names differ in the word in braces: train, valid or test."""

    def places(options: FolderOptions, base: Path) -> Places:
        folder = user_path(base, options.folder, "[corpus] folder")
        words = zip(PARTS, ("train", "valid", "test"), strict=True)
        return {part: ("folder", (folder / name.format(word),)) for part, word in words}

    return places


def _file_place(options: FileOptions, base: Path) -> Places:
    return {"all": ("file", (user_path(base, options.file, "[corpus] file"),))}


def _one_file(name: str, places: Places, options: TextOptions, licence: str) -> Corpus:
    """A data set in one file. Of bytes, the first 90% are train, the next 5% dev, and the last 5% test."""
    ((option, (path,)),) = places.values()
    content = read_bytes(path, option)
    numbering = Numbering(name, options, users_files([path], licence, name))
    refuse_content(content[:HEAD], path, "text", {})
    if _unit(options) != "character":
        return numbering.words(_word_parts(decoded(content, path)))
    first, second = len(content) * 90 // 100, len(content) * 95 // 100
    return numbering.bytes({"train": content[:first], "dev": content[first:second], "test": content[second:]})


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
        return [status(path, option) for option, paths in places(options, base).values() for path in paths]

    def read(options: T, base: Path, cache: Path) -> Corpus:
        return corpus(name, places(options, base), options, licence)

    return CorpusReader(name, "text", kind, depends, read, split, _check)


def _word_parts(text: str) -> dict[str, list[str]]:
    """Words without ends of lines. The last hundredth of the text is test, as in Mikolov et al. (2014).

    Of the words before it, the last 100,000 are dev, as in Krause et al. (2018, section 7.2), or the last
    tenth if that is less. A word on the border belongs to test.
    """
    border = text.rfind(" ", 0, len(text) * 99 // 100) + 1
    # Equal words share one object, because text8 has 17 million words.
    first, test = ([intern(m[0]) for m in _WORD.finditer(t)] for t in (text[:border], text[border:]))
    dev = min(_MOST_DEV_WORDS, len(first) // 10)
    return {"train": first[: len(first) - dev], "dev": first[len(first) - dev :], "test": test}


TEXT = _reader("text", TextFilesOptions, _own_places, "the user's")
PTB = _reader("ptb", FolderOptions, _folder_places("ptb.{}.txt"), "LDC User Agreement")
WIKITEXT_2 = _reader("wikitext-2", FolderOptions, _folder_places("wiki.{}.tokens"), "CC BY-SA 3.0")
_WIKIPEDIA = "text of Wikipedia: CC BY-SA and GFDL"
ENWIK8 = _reader("enwik8", FileOptions, _file_place, _WIKIPEDIA, _one_file, _split_file)
TEXT8 = _reader("text8", Text8Options, _file_place, _WIKIPEDIA, _one_file, _split_file)
