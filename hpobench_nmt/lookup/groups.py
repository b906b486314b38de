"""Rows that agree in some columns, found by sorting, O(N log N) for N rows; and means over such rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Ints

_ROOM = 2**62
_LARGEST_SEED = 2.0**53


def group_ids(columns: Sequence[Ints]) -> Ints:
    """One number per row, shape (N,), the same for rows that agree in all columns.

    The columns, one or more, hold whole numbers of 0 or more, each of shape (N,).
    """
    ids = columns[0]
    for column in columns[1:]:
        if len(column) == 0:
            break
        if (int(ids.max()) + 1) * (int(column.max()) + 1) > _ROOM:
            ids, column = ranks(ids), ranks(column)  # now both are below N
        ids = ids * (int(column.max()) + 1) + column
    return ids


def ranks(values: NDArray[Any]) -> Ints:
    """The rank of each value among the distinct values, from 0, shape (N,). All NaN have the last rank."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def in_groups(ids: Ints) -> tuple[Ints, Bools]:
    """The rows that share their id with another row, and which of them follow a row of the same group.

    The rows are positions in ids, sorted by id and then by position. Each has a flag.
    """
    order = np.argsort(ids, kind="stable")
    follows = np.zeros(len(ids), dtype=bool)
    follows[1:] = ids[order[1:]] == ids[order[:-1]]
    member = follows.copy()
    member[:-1] |= follows[1:]
    return order[member], follows[member]


def configurations_of(configs: Floats) -> tuple[Ints, Ints]:
    """Number the distinct configurations among T lines, in the order in which they first occur.

    `configs` has shape (T, H), NaN where inactive. Returns the first line of each of the N distinct
    configurations, ascending, shape (N,), and the number of each line's configuration, shape (T,).
    """
    ids = group_ids([ranks(column) for column in configs.T])
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    return np.sort(first), np.argsort(np.argsort(first))[number]


def means(values: Floats, number: Ints) -> Floats:
    """Mean metrics of each configuration, shape (N, M), from the metrics of all trainings, shape (T, M).

    A mean is missing if one of the trainings lacks the metric. The result of a failed training is unknown,
    and the mean of the others would be too good. `number` has each training's configuration, shape (T,).
    """
    counts = np.bincount(number)
    first = np.unique(number, return_index=True)[1]
    # Differences to the first value are averaged, so that the mean of equal values is exactly their value.
    return np.column_stack(
        [column[first] + np.bincount(number, column - column[first][number]) / counts for column in values.T]
    )


def training_numbers(number: Ints) -> Ints:
    """The number of each training among those of its configuration, from 1 in their order; shape (T,)."""
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    numbers = np.empty(len(number), dtype=np.int64)
    numbers[order] = np.arange(len(number)) - np.repeat(starts, np.bincount(number)) + 1
    return numbers


def wrong_seed(seeds: Floats, number: Ints) -> tuple[int, str] | None:
    """The first line with an invalid seed, and what is wrong with it; None if all seeds are valid."""
    wrong = ~((seeds == np.floor(seeds)) & (np.abs(seeds) <= _LARGEST_SEED))
    if wrong.any():
        line = int(np.flatnonzero(wrong)[0])
        return line, "the seed is empty, not a whole number, or beyond 2^53."
    pairs = group_ids([number, ranks(seeds)])
    _, first = np.unique(pairs, return_index=True)
    if len(first) < len(pairs):
        line = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        return line, f"seed {seeds[line]:.0f} occurs twice for this configuration."
    return None
