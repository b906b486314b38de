"""Subwords of a text by byte-pair encoding (Sennrich et al. 2016), learnt by the sentencepiece library.

A word starts as ▁, the mark of a blank, and its characters. Neighbouring pieces are merged as long as a
merged pair is in the vocabulary. The pair that was learnt first is merged first, and the leftmost among equal
pairs. The pieces, in the order in which they were learnt, therefore determine the segmentation, and a kept
model needs no file apart from its vocabulary.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise

from hpobench_nmt.core.system.errors import InputError

BLANK = "\u2581"
_NEVER = 1 << 62
MARKS = 3
"""<unk>, <s> and </s> in the library's models."""


class WrongSize(Exception):
    """No vocabulary of that size can be learnt.

    Attributes:
        least: the smallest size, which has all characters and the library's marks, if the size is smaller.
        most: the largest size, which has all pieces and the library's marks, if the size is larger.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.strip())
        low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
        high = re.search(r"value <= (\d+)", message)
        self.least = int(low[1]) if low else None
        self.most = int(high[1]) if high else None


def learn_bpe(texts: Iterable[str], size: int) -> bytes:
    """A model of sentencepiece with `size` pieces, its marks and all characters included. No randomness.

    Raises:
        InputError: sentencepiece is not installed.
        WrongSize: the texts have more characters, or yield fewer pieces.
    """
    try:
        import sentencepiece
    except ImportError:
        raise InputError("subwords need the package sentencepiece. Run: pip install sentencepiece") from None
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=1 << 30,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise WrongSize(str(error)) from None
    return model.getvalue()


def learn_subwords(texts: Iterable[str], size: int, name: str) -> tuple[str, ...]:
    """Pieces in the order of their merges, then all single characters; `size` in all. No randomness.

    Raises:
        InputError: sentencepiece is not installed, or the texts have more characters, or yield fewer pieces.
    """
    try:
        model = learn_bpe(texts, size + MARKS)
    except WrongSize as error:
        raise InputError(f"corpus {name!r}: {_reason(error, size)}") from None
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return tuple(processor.id_to_piece(i) for i in range(MARKS, size + MARKS))


def _reason(error: WrongSize, size: int) -> str:
    """The error in words that name the option."""
    beside = 2  # <unk> and <eos>, which `vocabulary` includes
    if error.least is not None:
        least = error.least - MARKS + beside
        return f"vocabulary {size + beside} is too small: train has {least} characters with <unk> and <eos>."
    if error.most is not None:
        most = error.most - MARKS + beside
        return f"vocabulary {size + beside} is too large: train has no more than {most} subwords."
    return f"no subwords could be learned on train ({error})."


def segmentation(pieces: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A function from a word to its pieces, the first with the mark of a blank. It remembers them.

    O(n^2) for n characters.
    """
    ranks = {piece: rank for rank, piece in enumerate(pieces)}

    @cache
    def split(word: str) -> tuple[str, ...]:
        parts = [*(BLANK + word)]
        while True:
            ranked = [(ranks.get(a + b, _NEVER), i) for i, (a, b) in enumerate(pairwise(parts))]
            rank, place = min(ranked, default=(_NEVER, 0))
            if rank == _NEVER:
                return tuple(parts)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    return split
