"""From texts to a text corpus: cut to length, choose the vocabulary from train, number the tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, TextCorpus
from hpobench_nmt.runner.corpora.corpus_reader import TextOptions
from hpobench_nmt.runner.corpora.subwords import BLANK, Segmentation, learn_subwords
from hpobench_nmt.runner.family import Unit

UNKNOWN, END = "<unk>", "<eos>"
_END_CODE = 0x110000  # END among characters: the first number that is not a code point

Codes = NDArray[np.integer[Any]]


def word_corpus(
    name: str, parts: Mapping[str, Sequence[str]], options: TextOptions, provenance: Mapping[str, str]
) -> TextCorpus:
    """A corpus of words, given as one sequence per part; see `_numbered`."""
    code: dict[str, int] = {}
    coded = {}
    for part in PARTS:
        tokens = _cut(parts[part], part, options)
        coded[part] = np.fromiter((code.setdefault(t, len(code)) for t in tokens), np.int64, len(tokens))
    names = tuple(code)
    return _numbered(name, "word", coded, names.__getitem__, options, provenance)


def subword_corpus(
    name: str, parts: Mapping[str, Sequence[str]], options: TextOptions, provenance: Mapping[str, str]
) -> TextCorpus:
    """A corpus of subwords, given as the words of each part. END is a token by itself.

    The vocabulary is <unk>, <eos> and the pieces that are learnt on all of train (corpora/subwords.py).
    """
    if not options.vocabulary:
        raise InputError(f'corpus {name!r}: unit = "subword" needs vocabulary, the number of subwords.')
    special = (UNKNOWN, END)
    texts = (" ".join(words) for is_end, words in groupby(parts["train"], END.__eq__) if not is_end)
    pieces = learn_subwords(texts, options.vocabulary - len(special), name)
    vocabulary = (*special, *pieces)
    number = {token: i for i, token in enumerate(vocabulary)}
    streams = {}
    for part in PARTS:
        tokens = segmented(parts[part], vocabulary)
        streams[part] = _cut(np.array([number.get(token, 0) for token in tokens], np.int64), part, options)
    _check_lengths(name, streams)
    return _described(name, "subword", vocabulary, streams, provenance)


def segmented(words: Sequence[str], vocabulary: Sequence[str]) -> list[str]:
    """Words as subwords of the vocabulary of a subword corpus. END is not split."""
    segmentation = Segmentation(vocabulary)
    return [piece for word in words for piece in ((END,) if word == END else segmentation.split(word))]


def words_and_characters(vocabulary: Sequence[str], tokens: Ints) -> tuple[int, int]:
    """The number of words, and of characters, in a sequence of subwords.

    The blank before a word counts as a character. <eos> counts as a word and as a character, and <unk> as a
    character.
    """
    begins = [token == END or token.startswith(BLANK) for token in vocabulary]
    lengths = [1 if token in (UNKNOWN, END) else len(token) for token in vocabulary]
    return max(1, int(np.take(begins, tokens).sum())), int(np.take(lengths, tokens).sum())


def character_corpus(
    name: str,
    parts: Mapping[str, Sequence[str]],
    options: TextOptions,
    provenance: Mapping[str, str],
    *,
    ends: bool,
) -> TextCorpus:
    """A corpus of characters, given as the documents of each part. With `ends`, END follows each document."""
    end = np.full(int(ends), _END_CODE, np.uint32)
    coded = {}
    for part in PARTS:
        pieces = [end[:0]]
        for text in parts[part]:
            pieces += [np.frombuffer(text.encode("utf-32-le"), "<u4"), end]
        coded[part] = _cut(np.concatenate(pieces), part, options)

    def token(code: int) -> str:
        return END if code == _END_CODE else chr(code)

    return _numbered(name, "character", coded, token, options, provenance)


def byte_corpus(
    name: str, parts: Mapping[str, bytes], options: TextOptions, provenance: Mapping[str, str]
) -> TextCorpus:
    """A corpus of bytes. Bytes that are not printable ASCII have names such as <0A>."""
    coded = {part: _cut(np.frombuffer(parts[part], np.uint8), part, options) for part in PARTS}
    return _numbered(name, "character", coded, _byte_name, options, provenance)


def byte_names(content: bytes) -> list[str]:
    """The tokens of bytes."""
    names = [_byte_name(byte) for byte in range(256)]
    return [names[byte] for byte in content]


def _byte_name(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 else f"<{byte:02X}>"


def _cut(tokens: Any, part: str, options: TextOptions) -> Any:
    """The last tokens of train, or the first of dev or test: as many as the options allow (0: all)."""
    limit = {"train": options.train_tokens, "dev": options.dev_tokens, "test": options.test_tokens}[part]
    if not limit:
        return tokens
    return tokens[-limit:] if part == "train" else tokens[:limit]


def _numbered(
    name: str,
    unit: Unit,
    coded: Mapping[str, Codes],
    token: Callable[[int], str],
    options: TextOptions,
    provenance: Mapping[str, str],
) -> TextCorpus:
    """A corpus of tokens that are still in arbitrary codes, with the vocabulary chosen from train.

    The vocabulary is <unk>, <eos> if it occurs, and train's other tokens by decreasing frequency. A
    vocabulary of characters has <unk> only if a character is left out. Raises InputError for a part with
    fewer than two tokens, because nothing could be predicted.
    """
    _check_lengths(name, coded)
    size = max(int(codes.max()) for codes in coded.values()) + 1
    counts = np.bincount(coded["train"], minlength=size)
    names = {int(code): token(int(code)) for code in np.flatnonzero(counts)}
    special = [UNKNOWN, *(text for text in names.values() if text == END)]
    frequent = sorted(
        (c for c, text in names.items() if counts[c] >= options.min_count and text not in special),
        key=lambda c: (-counts[c], names[c]),
    )
    if options.vocabulary:
        frequent = frequent[: options.vocabulary - len(special)]
    vocabulary = (*special, *(names[code] for code in frequent))
    number = np.zeros(size, np.int64)  # of each code
    number[frequent] = np.arange(len(special), len(vocabulary))
    number[[code for code, text in names.items() if text == END]] = 1
    if unit == "character" and not any((number[codes] == 0).any() for codes in coded.values()):
        vocabulary, number = vocabulary[1:], number - 1
    streams = {part: number[codes] for part, codes in coded.items()}
    return _described(name, unit, vocabulary, streams, provenance)


def _check_lengths(name: str, parts: Mapping[str, Codes]) -> None:
    for part, codes in parts.items():
        if len(codes) < 2:
            raise InputError(
                f"corpus {name!r}: {part} has {len(codes)} tokens but needs at least 2: its source is too "
                f"short, or the options of the corpus leave out too much of it."
            )


def _described(
    name: str,
    unit: Unit,
    vocabulary: tuple[str, ...],
    streams: Mapping[str, Ints],
    provenance: Mapping[str, str],
) -> TextCorpus:
    """The corpus, with its sizes and the share of <unk> in its provenance."""
    lengths = ", ".join(f"{part} {len(stream):,}" for part, stream in streams.items())
    about = f"{lengths} {unit}s; vocabulary {len(vocabulary):,}"
    if vocabulary[0] == UNKNOWN:
        shares = ", ".join(f"{part} {(stream == 0).mean():.2%}" for part, stream in streams.items())
        about += f"; {UNKNOWN}: {shares}"
    return TextCorpus(name, unit, vocabulary, **streams, provenance={**provenance, "size": about})
