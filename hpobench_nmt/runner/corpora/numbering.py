"""From texts to a text corpus: cut to length, choose the vocabulary on train, number the tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from hpobench_nmt.errors import InputError
from hpobench_nmt.runner.corpora.corpus import PARTS, Ints, TextCorpus, Unit
from hpobench_nmt.runner.corpora.reader import Options

UNKNOWN, END = "<unk>", "<eos>"


def text_corpus(
    name: str, unit: Unit, parts: Mapping[str, Sequence[str]], options: Options, provenance: Mapping[str, str]
) -> TextCorpus:
    """A corpus of train, dev and test tokens.

    The vocabulary is <unk>, <eos> if it occurs, and train's other tokens by falling frequency. A vocabulary
    of characters has <unk> only if a character is left out.

    Options: train_tokens, dev_tokens, test_tokens, vocabulary, min_count (see `reader`).

    Raises:
        InputError: a part that is empty.
    """
    kept = {part: cut(parts[part], part, options[f"{part}_tokens"]) for part in PARTS}
    for part, tokens in kept.items():
        if len(tokens) < 2:
            raise InputError(f"corpus {name!r}: no text is left for {part}. Loosen the corpus's options.")
    counts = Counter(kept["train"])
    special = [UNKNOWN] + [END] * (END in counts)
    frequent = sorted(
        (token for token, count in counts.items() if count >= options["min_count"] and token not in special),
        key=lambda token: (-counts[token], token),
    )
    if options["vocabulary"]:
        frequent = frequent[: options["vocabulary"] - len(special)]
    number = {token: i for i, token in enumerate([*special, *frequent])}
    streams = {part: _numbered(tokens, number) for part, tokens in kept.items()}
    vocabulary = tuple(number)
    if unit == "character" and not any((stream == 0).any() for stream in streams.values()):
        vocabulary = vocabulary[1:]
        streams = {part: stream - 1 for part, stream in streams.items()}
    return TextCorpus(
        name, unit, vocabulary, **streams, provenance={**provenance, "size": _size(unit, vocabulary, streams)}
    )


def cut(tokens: Sequence[str], part: str, limit: int) -> Sequence[str]:
    """The last so many tokens of train, the first so many of dev and test; all for 0."""
    if not limit:
        return tokens
    return tokens[-limit:] if part == "train" else tokens[:limit]


def _numbered(tokens: Sequence[str], number: Mapping[str, int]) -> Ints:
    return np.fromiter((number.get(token, 0) for token in tokens), np.int64, len(tokens))


def _size(unit: Unit, vocabulary: tuple[str, ...], streams: Mapping[str, Ints]) -> str:
    lengths = ", ".join(f"{part} {len(stream):,}" for part, stream in streams.items())
    text = f"{lengths} {unit}s; vocabulary {len(vocabulary):,}"
    if vocabulary[0] == UNKNOWN:
        shares = ", ".join(f"{part} {(stream == 0).mean():.2%}" for part, stream in streams.items())
        text += f"; {UNKNOWN}: {shares}"
    return text
