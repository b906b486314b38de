"""Filters of the sentence pairs in a user's files: their settings, and how many pairs each filter drops."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.runner.corpora.corpus_reader import tokenising
from hpobench_nmt.runner.corpora.lines import Lines
from hpobench_nmt.runner.corpora.records import Text
from hpobench_nmt.runner.corpora.sentence_pairs import too_unlike, written_in
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.settings import Settings, setting, settings_of, texts_of

Filter = Literal["empty", "length", "ratio", "script", "copy", "duplicate", "held_out"]

_ABOUT_FILTERS = (
    "filters that drop pairs from train. empty: a side has no tokens; length: a side is shorter than "
    "min_words or longer than max_words; ratio: one side is longer than max_ratio times the other and 3 "
    "tokens; script: a side has no letter of its language's script; copy: both sides are the same; "
    "duplicate: the pair has occurred before; held_out: the source or target is in dev or test, ignoring "
    "case. A pair counts for the first of these that holds"
)


@dataclass(frozen=True, kw_only=True)
class PairOptions(Settings):
    """Options of all corpora of parallel texts in files."""

    source: str = setting(..., "the language to translate from, such as de")
    target: str = setting(..., "the language to translate to, such as en")
    tokenise: bool = tokenising(False)
    max_words: int = setting(
        250, "maximum number of tokens in a line; a longer line is an error, unless a filter drops it", low=1
    )
    min_words: int = setting(1, "for the filter length", low=1, added=True)
    max_ratio: float = setting(3.0, "for the filter ratio", low=1, added=True)
    filters: Filter | tuple[Filter, ...] = setting((), _ABOUT_FILTERS, added=True)


def check_filters(options: PairOptions) -> None:
    """Refuse a setting that no filter uses."""
    known = settings_of(type(options))
    for name, wanted in (("min_words", "length"), ("max_ratio", "ratio")):
        if getattr(options, name) != known[name].default and wanted not in texts_of(options.filters):
            raise InputError(f'[corpus]: {name} has no effect without filters = ["{wanted}"].')


Row = tuple[Text, Text]
"""The source and the target of a pair, as a file has them."""


@dataclass(frozen=True)
class Kept:
    """The tokenised pairs of a part, how many were read and kept, and how many each filter has dropped."""

    sides: tuple[Lines, Lines]
    read: int
    count: int
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """A sentence about the pairs of train that the filters dropped."""
        out = sum(self.dropped.values())
        by = ", ".join(f"{count:,} {name}" for name, count in self.dropped.items() if count)
        return f"train: {out:,} of {counted(self.read, 'pair')} left out{f' ({by})' if by else ''}"


def kept_pairs(
    rows: Iterable[Row], options: PairOptions, filters: Collection[str], held_out: Collection[str]
) -> Kept:
    """The pairs that pass the filters, in order.

    `held_out` has the case-folded lines of dev and test. Raises InputError for a line that is empty or too
    long, unless a filter drops the pair.
    """
    split = tokenise if options.tokenise else str.split
    languages = (options.source, options.target)
    dropped = Counter[str]()
    sources, targets = bytearray(), bytearray()  # millions of lines need no Python object each
    seen = set[bytes]()
    read = 0
    for row in rows:
        read += 1
        tokens = [split(side.text) for side in row]
        short, long = sorted(map(len, tokens))
        source, target = map(" ".join, tokens)
        folded = (source.casefold(), target.casefold()) if filters else (source, target)
        # In the order of Filter. A pair counts for the first filter that drops it.
        if "empty" in filters and not short:
            dropped["empty"] += 1
        elif "length" in filters and not options.min_words <= short <= long <= options.max_words:
            dropped["length"] += 1
        elif "ratio" in filters and too_unlike(short, long, options.max_ratio):
            dropped["ratio"] += 1
        elif "script" in filters and not all(map(written_in, (source, target), languages)):
            dropped["script"] += 1
        elif "copy" in filters and folded[0] == folded[1]:
            dropped["copy"] += 1
        elif "duplicate" in filters and (key := pair_key(source, target)) in seen:
            dropped["duplicate"] += 1
        elif "held_out" in filters and (folded[0] in held_out or folded[1] in held_out):
            dropped["held_out"] += 1
        else:
            if "duplicate" in filters:
                seen.add(key)
            _refuse_lengths(row, tokens, options)
            sources += f"{source}\n".encode()
            targets += f"{target}\n".encode()
    return Kept((Lines.ended(sources), Lines.ended(targets)), read, read - sum(dropped.values()), dropped)


def pair_key(source: str, target: str) -> bytes:
    """A pair in 16 bytes, because there may be millions."""
    return hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=16).digest()


def _refuse_lengths(row: Row, tokens: list[list[str]], options: PairOptions) -> None:
    for side, found in zip(row, tokens, strict=True):
        pair = "the line, and its partner in the other file" if row[0].path != row[1].path else "it"
        if not found:
            raise empty_line(side, pair)
        if len(found) > options.max_words:
            raise InputError(
                f"{side.place}: {len(found):,} tokens, but max_words is {options.max_words}. "
                f'Remove {pair}, or set max_words higher; or, in train, set filters = ["length"].'
            )


def empty_line(side: Text, pair: str) -> InputError:
    """The error about a side without tokens. `pair` names what to remove."""
    return InputError(
        f'{side.place}: empty. Remove {pair}; or, in train, set filters = ["empty"] in [corpus].'
    )
