"""From texts to a text corpus: cut to length, choose the vocabulary from train, number the tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, TextCorpus
from hpobench_nmt.runner.corpora.corpus_reader import TextOptions
from hpobench_nmt.runner.corpora.subwords import BLANK, learn_subwords, segmentation
from hpobench_nmt.runner.family import Unit

UNKNOWN, END = "<unk>", "<eos>"
_END_CODE = 0x110000  # END among characters: the first number that is not a code point

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Numbering:
    """Makes the corpus of that name from texts: with the lengths and vocabulary that the options ask for."""

    name: str
    options: TextOptions
    provenance: Mapping[str, str]

    def words(self, parts: Mapping[str, Sequence[str]]) -> TextCorpus:
        """A corpus of words, given as one sequence per part; of subwords, if these are the options' unit."""
        if getattr(self.options, "unit", "word") == "subword":
            return self._subwords(parts)
        code: dict[str, int] = {}
        coded = {}
        for part in PARTS:
            tokens = self._cut(parts[part], part)
            coded[part] = np.fromiter((code.setdefault(t, len(code)) for t in tokens), np.int64, len(tokens))
        names = tuple(code)
        return self._numbered("word", coded, names.__getitem__)

    def _subwords(self, parts: Mapping[str, Sequence[str]]) -> TextCorpus:
        """END is a token by itself.

        The vocabulary is <unk>, <eos> and the pieces that are learnt on all of train (corpora/subwords.py).
        """
        if not self.options.vocabulary:
            raise InputError(
                f'corpus {self.name!r}: unit = "subword" needs vocabulary, the number of subwords.'
            )
        special = (UNKNOWN, END)
        texts = (" ".join(words) for is_end, words in groupby(parts["train"], END.__eq__) if not is_end)
        pieces = learn_subwords(texts, self.options.vocabulary - len(special), self.name)
        vocabulary = (*special, *pieces)
        number = {token: i for i, token in enumerate(vocabulary)}
        streams = {}
        for part in PARTS:
            tokens = segmented(parts[part], vocabulary)
            streams[part] = self._cut(np.array([number.get(token, 0) for token in tokens], np.int64), part)
        self._check_lengths(streams)
        return self._described("subword", vocabulary, streams)

    def characters(self, parts: Mapping[str, Sequence[str]], ends: bool) -> TextCorpus:
        """A corpus of characters, given as the documents of each part. With `ends`, END follows each."""
        end = np.full(int(ends), _END_CODE, np.uint32)
        coded = {}
        for part in PARTS:
            pieces = [end[:0]]
            for text in parts[part]:
                pieces += [np.frombuffer(text.encode("utf-32-le"), "<u4"), end]
            coded[part] = self._cut(np.concatenate(pieces), part)
        return self._numbered("character", coded, lambda code: END if code == _END_CODE else chr(code))

    def bytes(self, parts: Mapping[str, bytes]) -> TextCorpus:
        """A corpus of bytes. Bytes that are not printable ASCII have names such as <0A>."""
        coded = {part: self._cut(np.frombuffer(parts[part], np.uint8), part) for part in PARTS}
        return self._numbered("character", coded, _byte_name)

    def _cut(self, tokens: Any, part: str) -> Any:
        """The last tokens of train, or the first of dev or test: as many as the options allow (0: all)."""
        limit = getattr(self.options, f"{part}_tokens")
        if not limit:
            return tokens
        return tokens[-limit:] if part == "train" else tokens[:limit]

    def _numbered(self, unit: Unit, coded: Mapping[str, Codes], token: Callable[[int], str]) -> TextCorpus:
        """A corpus of tokens that are still in arbitrary codes, with the vocabulary chosen from train.

        The vocabulary is <unk>, <eos> if it occurs, and train's other tokens by decreasing frequency. A
        vocabulary of characters has <unk> only if a character is left out. Raises InputError for a part with
        fewer than two tokens, because nothing could be predicted.
        """
        self._check_lengths(coded)
        size = max(int(codes.max()) for codes in coded.values()) + 1
        counts = np.bincount(coded["train"], minlength=size)
        names = {int(code): token(int(code)) for code in np.flatnonzero(counts)}
        special = [UNKNOWN, *(text for text in names.values() if text == END)]
        frequent = sorted(
            (c for c, text in names.items() if counts[c] >= self.options.min_count and text not in special),
            key=lambda c: (-counts[c], names[c]),
        )
        if self.options.vocabulary:
            frequent = frequent[: self.options.vocabulary - len(special)]
        vocabulary = (*special, *(names[code] for code in frequent))
        number = np.zeros(size, np.int64)  # of each code
        number[frequent] = np.arange(len(special), len(vocabulary))
        number[[code for code, text in names.items() if text == END]] = 1
        if unit == "character" and not any((number[codes] == 0).any() for codes in coded.values()):
            vocabulary, number = vocabulary[1:], number - 1
        return self._described(unit, vocabulary, {part: number[codes] for part, codes in coded.items()})

    def _check_lengths(self, parts: Mapping[str, Codes]) -> None:
        for part, codes in parts.items():
            if len(codes) < 2:
                raise InputError(
                    f"corpus {self.name!r}: {part} has {len(codes)} tokens but needs at least 2: its source "
                    f"is too short, or the options of the corpus leave out too much of it."
                )

    def _described(self, unit: Unit, vocabulary: tuple[str, ...], streams: Mapping[str, Ints]) -> TextCorpus:
        """The corpus, with its sizes and the share of <unk> in its provenance."""
        lengths = ", ".join(f"{part} {len(stream):,}" for part, stream in streams.items())
        about = f"{lengths} {unit}s; vocabulary {len(vocabulary):,}"
        if vocabulary[0] == UNKNOWN:
            shares = ", ".join(f"{part} {(stream == 0).mean():.2%}" for part, stream in streams.items())
            about += f"; {UNKNOWN}: {shares}"
        provenance = {**self.provenance, "size": about}
        return TextCorpus(self.name, unit, vocabulary, **streams, provenance=provenance)


def segmented(words: Sequence[str], vocabulary: Sequence[str]) -> list[str]:
    """Words as subwords of the vocabulary of a subword corpus. END is not split."""
    split = segmentation(vocabulary)
    return [piece for word in words for piece in ((END,) if word == END else split(word))]


def words_and_characters(vocabulary: Sequence[str], tokens: Ints) -> tuple[int, int]:
    """The number of words, and of characters, in a sequence of subwords.

    The blank before a word counts as a character. <eos> counts as a word and as a character, and <unk> as a
    character.
    """
    begins = [token == END or token.startswith(BLANK) for token in vocabulary]
    lengths = [1 if token in (UNKNOWN, END) else len(token) for token in vocabulary]
    return max(1, int(np.take(begins, tokens).sum())), int(np.take(lengths, tokens).sum())


def byte_names(content: bytes) -> list[str]:
    """The tokens of bytes."""
    names = [_byte_name(byte) for byte in range(256)]
    return [names[byte] for byte in content]


def _byte_name(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 else f"<{byte:02X}>"
