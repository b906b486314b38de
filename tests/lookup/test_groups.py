"""Rows that agree with one another, compared with a dictionary of tuples."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.lookup.groups import group_ids, in_groups

# From few values, so that rows agree, to so many that no product of two columns is an integer of 64 bits.
SIZES = st.sampled_from([1, 2, 3, 2**20, 2**31, 2**61])


@st.composite
def tables(draw):
    n_rows = draw(st.integers(1, 12))
    sizes = draw(st.lists(SIZES, min_size=1, max_size=5))
    cells = [st.sampled_from([0, size - 1, size // 2]) for size in sizes]
    return [draw(st.lists(cell, min_size=n_rows, max_size=n_rows)) for cell in cells]


@settings(max_examples=60, deadline=None)
@given(tables())
def test_ids_are_equal_where_all_columns_are(columns):
    ids = group_ids([np.array(column, dtype=np.int64) for column in columns])
    rows = list(zip(*columns, strict=True))
    assert (ids.shape, ids.dtype) == ((len(rows),), np.int64)
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            assert (ids[i] == ids[j]) == (row == other)


def test_ids_at_the_limit_of_an_integer():
    """A product of 2**62 is still taken as it is; one beyond it is not."""
    for first, second in (
        (2**31, 2**31),
        (2**31 + 1, 2**31),
        (2**62 - 1, 2),
        (2**40, 2**40),
        (2**62, 1),
        (3, 2**61),
    ):
        columns = [np.array([first - 1, 0, first - 1, first - 2]), np.array([second - 1, second - 1, 0, 0])]
        columns += [np.array([0, 1, 0, 1])]
        assert len(set(group_ids(columns).tolist())) == len(set(zip(*map(tuple, columns), strict=True)))


def test_no_rows_have_no_ids():
    empty = np.empty(0, dtype=np.int64)
    assert group_ids([empty, empty]).tolist() == []
    rows, follows = in_groups(empty)
    assert rows.tolist() == follows.tolist() == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=15))
def test_groups_are_rows_of_one_id(ids):
    groups = defaultdict(list)
    for row, number in enumerate(ids):
        groups[number].append(row)
    expected = [group for _, group in sorted(groups.items()) if len(group) > 1]
    rows, follows = in_groups(np.array(ids, dtype=np.int64))
    assert rows.tolist() == [row for group in expected for row in group]
    assert follows.tolist() == [place > 0 for group in expected for place in range(len(group))]
