"""Lines of text as numbers of subwords, which are sentencepiece's numbers plus one. Needs no torch.

0 is padding, 1 unknown text, 2 the beginning, and 3 the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.nmt.bpe import Bpe

PAD, UNKNOWN, BEGIN, END = range(4)
_SHIFT = 1
_AT_ONCE = 4096  # lines


@dataclass(frozen=True, eq=False)
class NumberLines:
    """Lines of numbers in one array, which may be mapped from a file.

    Attributes:
        numbers: of all lines, one after the other.
        starts: where each line begins, and where the last line ends, shape (lines + 1,).
    """

    numbers: NDArray[Any]
    starts: Ints

    @classmethod
    def of(cls, lines: Iterable[Sequence[int]]) -> NumberLines:
        """The lines in one array."""
        held = [np.asarray(line, np.int64) for line in lines]
        return cls(np.concatenate([np.empty(0, np.int64), *held]), _starts(map(len, held)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, line: int) -> NDArray[Any]:
        return self.numbers[self.starts[line] : self.starts[line + 1]]

    @cached_property
    def lengths(self) -> Ints:
        """The length of each line."""
        return np.diff(self.starts)

    def padded(self, chosen: Sequence[int] | Ints) -> Ints:
        """The lines with these numbers in one array, shape (lines, longest)."""
        starts, lengths = self.starts[:-1][chosen], self.lengths[chosen]
        held = np.arange(lengths.max()) < lengths[:, None]
        array = np.full(held.shape, PAD, dtype=np.int64)
        before = np.cumsum(lengths) - lengths
        array[held] = self.numbers[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]
        return array


@dataclass(frozen=True, eq=False)
class Pairs:
    """Source and target lines that belong together."""

    source: NumberLines
    target: NumberLines

    def __len__(self) -> int:
        return len(self.source)

    def words(self, chosen: Sequence[int] | Ints) -> int:
        """How many target subwords, END included, the pairs with these numbers have."""
        return int(self.target.lengths[chosen].sum())


def vocabulary_size(bpe: Bpe) -> int:
    """The size of the vocabulary of a side with these subwords, PAD included."""
    return len(bpe) + _SHIFT


def encode(bpe: Bpe, lines: Sequence[str]) -> list[list[int]]:
    """The numbers of each line's subwords, with END."""
    return [[number + _SHIFT for number in line] + [END] for line in bpe.numbers(lines)]


def cut(line: Sequence[int], most: int) -> Sequence[int]:
    """A line cut to `most` numbers, with END."""
    return line if len(line) <= most else [*line[: most - 1], END]


def write_encoded(bpe: Bpe, lines: Iterable[str], path: Path) -> None:
    """Write the numbers of a part's lines to two files, which `read_encoded` maps into memory."""
    lengths, left = list[int](), iter(lines)
    with path.open("wb") as file:
        while some := list(islice(left, _AT_ONCE)):
            found = encode(bpe, some)
            lengths += map(len, found)
            file.write(np.concatenate(found).astype(_small(bpe)).tobytes())
    np.save(_starts_path(path), _starts(lengths))


def read_encoded(bpe: Bpe, path: Path) -> NumberLines:
    """The lines that `write_encoded` wrote with the same subwords."""
    starts: Ints = np.load(_starts_path(path), mmap_mode="r")
    return NumberLines(np.memmap(path, _small(bpe), "r", shape=(int(starts[-1]),)), starts)


def _starts_path(path: Path) -> Path:
    return path.with_name(path.name + ".starts.npy")


def _small(bpe: Bpe) -> np.dtype[Any]:
    return np.min_scalar_type(vocabulary_size(bpe))


def _starts(lengths: Iterable[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))])


def decode(bpe: Bpe, numbers: Sequence[int]) -> str:
    """The text of a line of numbers, up to its end."""
    line = list(numbers)
    if END in line:
        line = line[: line.index(END)]
    return bpe.text([number - _SHIFT for number in line if number > END])
