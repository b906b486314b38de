"""Rows that agree with one another in some columns, found by sorting: O(N log N) for N rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Ints

_ROOM = 2**62


def group_ids(columns: Sequence[Ints]) -> Ints:
    """One number per row, shape (N,), the same for rows that agree in all columns.

    The columns, one or more, hold whole numbers of 0 or more, each of shape (N,).
    """
    ids = columns[0]
    for column in columns[1:]:
        if len(column) == 0:
            break
        if (int(ids.max()) + 1) * (int(column.max()) + 1) > _ROOM:
            ids, column = _renumbered(ids), _renumbered(column)  # now both are below N
        ids = ids * (int(column.max()) + 1) + column
    return ids


def _renumbered(ids: Ints) -> Ints:
    """The same groups with numbers from 0, without gaps."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def in_groups(ids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The rows whose id another row has too, and which of them belong to the group of the one before.

    As positions in ids, sorted by id and then by position, and a flag for each.
    """
    order = np.argsort(ids, kind="stable")
    follows = np.zeros(len(ids), dtype=bool)
    follows[1:] = ids[order[1:]] == ids[order[:-1]]
    member = follows.copy()
    member[:-1] |= follows[1:]
    return order[member], follows[member]
