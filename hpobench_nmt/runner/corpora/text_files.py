"""Language-model corpora in files that the user has: plain text, and four well-known data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from sys import intern

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus
from hpobench_nmt.runner.corpora.corpus_reader import (
    LENGTH_OPTIONS,
    TOKENISE_OPTION,
    UNIT_OPTION,
    VOCABULARY_OPTIONS,
    CorpusReader,
    Options,
)
from hpobench_nmt.runner.corpora.text_reading import (
    decoded,
    lines_of,
    read_bytes,
    read_lines,
    read_text,
    status,
)
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.corpora.vocabulary import END, byte_corpus, byte_names, character_corpus, word_corpus
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.settings import Setting

_WORD = re.compile(r"\S+")
_MOST_DEV_WORDS = 100_000

# Where a part is: the option that says so, and the file.
Places = Mapping[str, tuple[str, Path]]


def _corpus(name: str, places: Places, options: Options, licence: str) -> Corpus:
    """A corpus of one file per part: words with <eos> at every line's end, or characters as they are."""
    provenance = _provenance(name, [path for _, path in places.values()], licence)
    if options.get("unit") == "character":
        texts = {part: [read_text(path, option)] for part, (option, path) in places.items()}
        return character_corpus(name, texts, options, provenance, ends=False)
    words = {part: _words(read_lines(path, option), options) for part, (option, path) in places.items()}
    return word_corpus(name, words, options, provenance)


def _words(lines: list[str], options: Options) -> list[str]:
    split = tokenise if options.get("tokenise") else str.split
    return list(chain.from_iterable((*split(line), END) for line in lines))


def _split(options: Options, content: bytes, path: Path) -> list[str]:
    text = decoded(content, path)
    return list(text) if options.get("unit") == "character" else _words(lines_of(text), options)


def _provenance(name: str, paths: list[Path], licence: str) -> dict[str, str]:
    return {
        "source": f"{name}, files of the user: {', '.join(path.name for path in paths)}",
        "version": "unknown: see sha256",
        "licence": licence,
    }


def _own_places(options: Options, base: Path) -> Places:
    return {part: (part, user_path(base, options[part], f"[corpus] {part}")) for part in PARTS}


def _folder_places(names: tuple[str, str, str]) -> Callable[[Options, Path], Places]:
    def places(options: Options, base: Path) -> Places:
        folder = user_path(base, options["folder"], "[corpus] folder")
        return {part: ("folder", folder / name) for part, name in zip(PARTS, names, strict=True)}

    return places


def _reader(
    name: str, places: Callable[[Options, Path], Places], options: tuple[Setting, ...], licence: str
) -> CorpusReader:
    def depends(options: Options, base: Path, cache: Path) -> list[str]:
        return [status(path, option) for option, path in places(options, base).values()]

    def read(options: Options, base: Path, cache: Path) -> Corpus:
        return _corpus(name, places(options, base), options, licence)

    return CorpusReader(name, "text", (*options, *VOCABULARY_OPTIONS, *LENGTH_OPTIONS), depends, read, _split)


def _one_file(name: str, *more: Setting) -> CorpusReader:
    """A data set in one file: its first 90 % are train, the next 5 % dev, the last 5 % test.

    If `more` has an option `unit`, it may be one of words: see `_word_parts`.
    """

    def path(options: Options, base: Path) -> Path:
        return user_path(base, options["file"], "[corpus] file")

    def depends(options: Options, base: Path, cache: Path) -> list[str]:
        return [status(path(options, base), "file")]

    def read(options: Options, base: Path, cache: Path) -> Corpus:
        content = read_bytes(path(options, base), "file")
        if content[:4] == b"PK\x03\x04":
            raise InputError(f"[corpus] file: {path(options, base)} is a zip archive. Unpack it first.")
        if options.get("unit") == "word":
            text = decoded(content, path(options, base))
            return word_corpus(name, _word_parts(text), options, provenance_of(options, base))
        first, second = len(content) * 90 // 100, len(content) * 95 // 100
        parts = {"train": content[:first], "dev": content[first:second], "test": content[second:]}
        return byte_corpus(name, parts, options, provenance_of(options, base))

    def provenance_of(options: Options, base: Path) -> dict[str, str]:
        return _provenance(name, [path(options, base)], "text of Wikipedia: CC BY-SA and GFDL")

    def split(options: Options, content: bytes, path: Path) -> list[str]:
        return decoded(content, path).split() if options.get("unit") == "word" else byte_names(content)

    file = Setting("file", None, str, description="the unpacked file")
    options = (file, *more, *VOCABULARY_OPTIONS, *LENGTH_OPTIONS)
    return CorpusReader(name, "text", options, depends, read, split)


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


_FOLDER = Setting("folder", None, str, description="the folder of the three files")
_FILES = tuple(Setting(part, None, str, description=f"a UTF-8 text file to be {part}") for part in PARTS)

TEXT = _reader("text", _own_places, (*_FILES, UNIT_OPTION, TOKENISE_OPTION), "the user's")
PTB = _reader(
    "ptb",
    _folder_places(("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt")),
    (_FOLDER,),
    "LDC User Agreement",
)
WIKITEXT_2 = _reader(
    "wikitext-2",
    _folder_places(("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens")),
    (_FOLDER,),
    "CC BY-SA 3.0",
)
ENWIK8 = _one_file("enwik8")
TEXT8 = _one_file("text8", replace(UNIT_OPTION, default="character"))
