"""Byte-pair encoding of one side of a corpus, by the sentencepiece library.

The library works on plain text, so that languages written without spaces need no word segmentation. Its
encoding can be undone exactly, so that BLEU is computed on the text itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.runner.corpora.subwords import BLANK, MARKS, WrongSize, learn_bpe
from hpobench_nmt.runner.family import TrainingFailed


class Bpe:
    """A learned segmentation of one language."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, lines: Sequence[str]) -> list[str]:
        """The lines as subwords separated by spaces; white space within a line counts as one space."""
        pieces = self._processor.encode([" ".join(line.split()) for line in lines], out_type=str)
        return [" ".join(line) for line in pieces]

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def numbers(self, lines: Sequence[str]) -> list[list[int]]:
        """The lines as numbers of subwords; white space within a line counts as one space."""
        found: list[list[int]] = self._processor.encode([" ".join(line.split()) for line in lines])
        return found

    def text(self, numbers: Sequence[int]) -> str:
        """The text that such numbers stand for, without the library's marks of beginning and end."""
        return str(self._processor.decode(list(numbers)))

    def decode(self, lines: Sequence[str]) -> list[str]:
        """The text that the subwords stand for."""
        # One by one, because sentencepiece 0.2.0 needs subwords in the first line of a list.
        return [str(self._processor.decode(line.split())) if line.strip() else "" for line in lines]


def read_bpe(path: Path) -> Bpe:
    """The segmentation in a file from anywhere. Raises InputError if it is not a sentencepiece model."""
    content = read_bytes(path, follow_link=False)
    if not content:  # sentencepiece accepts it, and prints an error at every use
        raise InputError(f"{path}: is not a sentencepiece model (it is empty).")
    try:
        return Bpe(content)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"{path}: is not a sentencepiece model ({error}).") from None


def evenly(total: int, count: int) -> Ints:
    """The numbers of `count` of `total` lines, evenly spaced, or of all lines if there are no more."""
    if count >= total:
        return np.arange(total)
    return np.linspace(0, total - 1, count).round().astype(np.int64)


def learn_on(lines: Sequence[str], sentences: int) -> Iterable[str]:
    """The training lines on which subwords are learned; with 0 sentences, all lines."""
    return lines if not sentences else [lines[i] for i in evenly(len(lines), sentences)]


def learn(lines: Iterable[str], symbols: int, side: str, merges: bool = False) -> bytes:
    """A model of that many subwords, including every character of the lines. Nothing in it is random.

    The symbols are the three marks (of unknown text, beginning and end), all characters, and the subwords
    that merges make. With `merges`, only the subwords that merges make count, as in Zhang & Duh (2020). The
    error names the side.

    Raises TrainingFailed if there are fewer symbols than characters, or more than the text has subwords.
    """
    plain = [" ".join(line.split()) for line in lines]
    uncounted = len(set().union(*plain, BLANK) - {" "}) + MARKS if merges else 0
    try:
        return learn_bpe(plain, symbols + uncounted)
    except WrongSize as error:
        raise TrainingFailed(f"bpe_symbols {symbols}: {_reason(error, side, uncounted)}") from None


def _reason(error: WrongSize, side: str, uncounted: int) -> str:
    """The reason of an error, without the subwords that the setting does not count."""
    if error.least is not None:
        return f"the {side} side alone has {error.least} characters and marks."
    if error.most is not None:
        what = "merges" if uncounted else "subwords"
        return f"the {side} side has no more than {error.most - uncounted} {what}."
    return f"no subwords could be learned on the {side} side ({error})."
