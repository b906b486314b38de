"""Lines of text as numbers of subwords: sentencepiece's plus one. Needs no torch.

0 is padding, then come unknown text, beginning and end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.nmt.bpe import Bpe

Pairs = Sequence[tuple[list[int], list[int]]]
"""A source and a target line each."""

PAD, UNKNOWN, BEGIN, END = range(4)
_SHIFT = 1


def vocabulary_size(bpe: Bpe) -> int:
    """Of a side with these subwords, PAD included."""
    return len(bpe) + _SHIFT


def encode(bpe: Bpe, lines: Sequence[str]) -> list[list[int]]:
    """The numbers of each line's subwords, with END."""
    return [[number + _SHIFT for number in line] + [END] for line in bpe.numbers(lines)]


def decode(bpe: Bpe, numbers: Sequence[int]) -> str:
    """The text of a line of numbers, up to its end."""
    line = list(numbers)
    if END in line:
        line = line[: line.index(END)]
    return bpe.text([number - _SHIFT for number in line if number > END])


def padded(lines: Sequence[Sequence[int]]) -> Ints:
    """Lines of numbers in one array, shape (lines, longest)."""
    array = np.full((len(lines), max(map(len, lines))), PAD, dtype=np.int64)
    for row, line in zip(array, lines, strict=True):
        row[: len(line)] = line
    return array
