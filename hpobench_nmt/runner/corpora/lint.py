"""Likely faults of a corpus: train in dev or test, repeated lines, copies, marks of ends, decomposed letters,
invisible characters, segments too short for BLEU.

Nothing here changes a corpus. Its provenance has the findings, so ledgers and datasheets have them as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any
from unicodedata import is_normalized

import numpy as np

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.runner.corpora.corpus import PARTS, Corpus, ParallelCorpus, TextCorpus
from hpobench_nmt.runner.corpora.pair_filters import pair_key

_SHORT_LINE = 5
"""Shorter lines, such as headings, are not compared, because they often occur in two parts."""
_LINES = f"lines with {_SHORT_LINE} tokens or more"
_OWN_ENDS = ("<eos>", "</s>")
_INVISIBLE = re.compile("[\u00ad\u200b\ufeff]")
"""Soft hyphens, zero-width spaces and byte-order marks, which make another word of a word."""
_MARKS = "invisible characters (U+FEFF, U+00AD or U+200B)"
_BLEU_ORDER = 4
_FEW = 0.1


def findings(corpus: Corpus) -> str:
    """Sentences about likely faults, with counts; "" if nothing is found. Linear in the corpus's size."""
    found = _of_text(corpus) if isinstance(corpus, TextCorpus) else _of_pairs(corpus)
    return "; ".join(filter(None, found))


def lengths(corpus: ParallelCorpus) -> str:
    """Tokens per line of train, for each side: median, 99th percentile, maximum."""
    sides = []
    for language, lines in zip((corpus.source, corpus.target), corpus.train, strict=True):
        counts = np.fromiter((line.count(" ") + 1 for line in lines), np.int64, len(lines))
        middle, most = np.percentile(counts, [50, 99], method="inverted_cdf").astype(int)
        sides.append(f"{language} median {middle}, 99% up to {most}, longest {counts.max()}")
    return f"tokens per line of train: {'; '.join(sides)}"


def in_vain(options: Any, corpus: Corpus) -> list[str]:
    """Options that ask for more than the corpus has, one sentence each."""
    if not isinstance(corpus, TextCorpus):
        return []
    there = {f"{part}_tokens": (len(getattr(corpus, part)), f"tokens of {part}") for part in PARTS}
    there["vocabulary"] = (len(corpus.vocabulary), "words in the vocabulary")
    return [
        f"{name} asks for {getattr(options, name):,} {what}, and there are {size:,}"
        for name, (size, what) in there.items()
        if getattr(options, name, 0) > size
    ]


def _of_pairs(corpus: ParallelCorpus) -> list[str]:
    parts = {part: getattr(corpus, part) for part in PARTS}
    found = []
    for index, side in enumerate(("source", "target")):
        held_out = {*parts["dev"][index], *parts["test"][index]}
        train = {line for line in corpus.train[index] if line in held_out}
        found += [_leak(parts[part][index], train, f"{side} lines", part) for part in ("dev", "test")]
    pairs = len(corpus.train[0])
    distinct = _distinct(pair_key(*pair) for pair in zip(*corpus.train, strict=True))
    if distinct < pairs:
        found.append(f"pairs of train that occur before: {pairs - distinct:,} of {pairs:,}")
    for part, (source, target) in parts.items():
        if copies := sum(map(str.__eq__, source, target)):
            found.append(f"both sides of {counted(copies, 'pair')} of {part} are the same")
        ends = sum(line.endswith(_OWN_ENDS) for line in chain(source, target))
        decomposed = sum(not is_normalized("NFC", line) for line in chain(source, target))
        found.append(f"lines of {part} that end in <eos> or </s>: {ends:,}" if ends else "")
        found.append(f"lines of {part} with decomposed letters (NFD): {decomposed:,}" if decomposed else "")
        marked = sum(map(bool, map(_INVISIBLE.search, chain(source, target))))
        found.append(f"lines of {part} with {_MARKS}: {marked:,}" if marked else "")
    references = parts["dev"][1]
    enough = sum(line.count(" ") + 1 >= _BLEU_ORDER for line in references)
    if enough < _FEW * len(references):
        found.append(
            f"{enough:,} of {len(references):,} target lines of dev have {_BLEU_ORDER} words, which BLEU "
            f'needs: use dev_chrf, or bleu_tokenizer = "char"'
        )
    return found


def _of_text(corpus: TextCorpus) -> list[str]:
    end = next((name for name in ("<eos>", "\n") if name in corpus.vocabulary), None)
    found = []
    if end is not None:
        number = corpus.vocabulary.index(end)
        lines = {part: _lines(getattr(corpus, part), number) for part in PARTS}
        train = set(lines["train"])
        found += [_leak(lines[part], train, _LINES, part) for part in ("dev", "test")]
        if len(train) < len(lines["train"]):
            count = len(lines["train"])
            found.append(f"{_LINES} of train that occur before: {count - len(train):,} of {count:,}")
    if "</s>" in corpus.vocabulary and "<eos>" in corpus.vocabulary:
        found.append("</s> is a word of train, beside the <eos> at the end of every line")
    decomposed = [name for name in corpus.vocabulary if not is_normalized("NFC", name)]
    if corpus.unit == "character":  # a combining mark alone counts as normalized
        decomposed = [name for name in corpus.vocabulary if not is_normalized("NFC", f"e{name}")]
    if decomposed:
        found.append(f"{corpus.unit}s with decomposed letters (NFD): {len(decomposed):,}")
    if marked := sum(map(bool, map(_INVISIBLE.search, corpus.vocabulary))):
        found.append(f"{corpus.unit}s with {_MARKS}: {marked:,}")
    return found


def _distinct(keys: Iterable[bytes]) -> int:
    """The number of distinct keys. A set of them would take five times the memory."""
    block = bytearray()
    for key in keys:
        block += key
    numbers = np.frombuffer(block, np.uint64).reshape(-1, 2)
    ordered = numbers[np.lexsort(numbers.T)]
    return int((ordered[1:] != ordered[:-1]).any(axis=1).sum()) + 1


def _lines(stream: Ints, end: int) -> list[bytes]:
    """The lines of a stream that are long enough to be compared."""
    small = stream.astype(np.int32)
    ends = np.flatnonzero(stream == end)
    starts = np.append(0, ends[:-1] + 1) if len(ends) else ends
    return [small[a:b].tobytes() for a, b in zip(starts, ends, strict=True) if b - a >= _SHORT_LINE]


def _leak(lines: Sequence[Any], train: set[Any], what: str, part: str) -> str:
    there = sum(map(train.__contains__, lines))
    return f"{what} of {part} that are in train: {there:,} of {len(lines):,}" if there else ""
