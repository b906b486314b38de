"""Lines of text in one block of bytes, which may be mapped from a file. A line needs no Python object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints

Bytes = NDArray[np.uint8]
_END = 10  # a line feed
_AT_ONCE = 1 << 24  # bytes
_LINES_AT_ONCE = 4096


class Lines(Sequence[str]):
    """Lines that contain no line feeds. They equal any sequence of the same lines.

    Attributes:
        data: the lines in UTF-8, with a line feed between two lines. May be mapped from a file.
    """

    def __init__(self, data: Bytes) -> None:
        self.data = data

    @classmethod
    def of(cls, lines: Iterable[str]) -> Lines:
        """The given lines, at least one."""
        if isinstance(lines, Lines):
            return lines
        return cls(np.frombuffer("\n".join(lines).encode(), np.uint8))

    @classmethod
    def ended(cls, block: bytearray) -> Lines:
        """The lines of a block in which each ends in a line feed."""
        return cls(np.frombuffer(block, np.uint8)[:-1])

    @cached_property
    def starts(self) -> Ints:
        """The offset of each line, and of a line that would follow the last, shape (lines + 1,)."""
        pieces = range(0, len(self.data), _AT_ONCE)
        after = [np.flatnonzero(self.data[at : at + _AT_ONCE] == _END) + at + 1 for at in pieces]
        return np.concatenate([[0], *after, [len(self.data) + 1]])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self[i] for i in range(*place.indices(len(self))))
        number = range(len(self))[place]
        return self.data[self.starts[number] : self.starts[number + 1] - 1].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _LINES_AT_ONCE):
            last = min(first + _LINES_AT_ONCE, len(self))
            yield from self.data[self.starts[first] : self.starts[last] - 1].tobytes().decode().split("\n")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Lines):
            return np.array_equal(self.data, other.data)
        if isinstance(other, Sequence) and not isinstance(other, str):
            return tuple(self) == tuple(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]
