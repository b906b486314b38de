"""Columns of Parquet files, of every type that a frame may have."""

from __future__ import annotations

import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk import rows
from hpobench_nmt.lookup.disk.rows import Wanted, parse_columns

PATH = Path("rows.parquet")


def content_of(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def columns_of(names, labels=(), **arrays):
    return parse_columns(content_of(pa.table(arrays)), Wanted(names, labels), PATH)


def test_numbers_of_any_type_are_doubles_and_empty_cells_nan():
    tenth = decimal.Decimal("0.1")
    found = columns_of(
        ["float", "whole", "small", "half", "decimal", "category", "nothing", "truth"],
        ["truth"],
        float=pa.array([0.1, None, np.nan], pa.float64()),
        whole=pa.array([2**53 + 1, None, -3], pa.int64()),
        small=pa.array([0.1234567, 1.5, None], pa.float32()),
        half=pa.array(np.array([0.1, 0.5, 3.0], np.float16)),
        decimal=pa.array([tenth, None, -tenth], pa.decimal128(5, 2)),
        category=pa.array([7, 8, 7]).dictionary_encode(),
        nothing=pa.nulls(3),
        truth=pa.array([True, None, False]),
    )
    np.testing.assert_array_equal(found["float"], [0.1, np.nan, np.nan])
    np.testing.assert_array_equal(found["whole"], [2.0**53, np.nan, -3])
    np.testing.assert_array_equal(found["small"], [0.1234567, 1.5, np.nan])
    np.testing.assert_array_equal(found["half"], [0.1, 0.5, 3.0])
    np.testing.assert_array_equal(found["decimal"], [0.1, np.nan, -0.1])
    assert found["category"].tolist() == [7.0, 8.0, 7.0]
    assert np.isnan(found["nothing"]).all() and found["nothing"].shape == (3,)
    assert found["truth"].tolist() == ["true", "", "false"]
    assert all(found[name].dtype == float for name in found if name != "truth")


def test_texts_are_stripped_and_empty_where_there_are_none():
    texts = ["a", " b ", None]
    found = columns_of(
        ["text", "large", "category"],
        ["text", "large", "category"],
        text=pa.array(texts, pa.string()),
        large=pa.array(texts, pa.large_string()),
        category=pa.array(texts, pa.string()).dictionary_encode(),
    )
    assert list(found) == ["text", "large", "category"]
    for column in found.values():
        assert column.tolist() == ["a", "b", ""]


def test_string_views_are_texts():
    try:
        found = columns_of(["view"], ["view"], view=pa.array(["a", " b ", None], pa.string_view()))
    except pa.ArrowNotImplementedError:
        pytest.skip("this Arrow cannot write string views")
    assert found["view"].tolist() == ["a", "b", ""]


@pytest.mark.parametrize(
    ("labels", "arrays", "message"),
    [
        ([], {"a": [1.0]}, "unknown column 'b'"),
        (
            [],
            {"a": [1.0], "b": [1.0], "c": [1.0]},
            "rows.parquet: column 'c' is not described in its datasheet.",
        ),
        (
            [],
            {"a": [1.0], "b": ["x"]},
            "rows.parquet: column 'b' holds values of type string, not numbers.",
        ),
        (["a"], {"a": [1.0], "b": [[1.0]]}, "column 'b' holds values of type list<"),
        (
            ["b"],
            {"a": [1.0], "b": [b"x"]},
            "column 'b' holds values of type binary, neither numbers nor texts.",
        ),
        ([], {"a": [], "b": []}, "rows.parquet: has no rows."),
    ],
)
def test_columns_that_cannot_be_are_refused(labels, arrays, message):
    with pytest.raises(InputError) as error:
        columns_of(["a", "b"], labels, **arrays)
    assert message in str(error.value)


def test_columns_that_are_ignored_are_there_and_any_may_be_where_all_are():
    content = content_of(pa.table({"a": [1.0], "b": ["x"], "c": [2.0]}))
    for ignored in (("b", "c"), None):
        assert list(parse_columns(content, Wanted(["a"], ignored=ignored), PATH)) == ["a"]
    with pytest.raises(InputError, match="column 'c' is not described"):
        parse_columns(content, Wanted(["a"], ignored=("b",)), PATH)
    with pytest.raises(InputError, match=r"unknown column 'd'.*\(rows\.parquet\)"):
        parse_columns(content, Wanted(["a"], ignored=("b", "c", "d")), PATH)


def test_a_column_that_is_there_twice_is_refused():
    twice = pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "b", "a"])
    with pytest.raises(InputError) as error:
        parse_columns(content_of(twice), Wanted(["a", "b"]), PATH)
    assert str(error.value) == "rows.parquet: column 'a' occurs twice."


@pytest.mark.parametrize(("most", "fits"), [(12, True), (11, False)])
def test_cells_are_counted_by_rows_and_columns(monkeypatch, most, fits):
    monkeypatch.setattr(rows, "_MOST_CELLS", most)
    columns = {name: [1.0, 2.0, 3.0, 4.0] for name in "abc"}
    if fits:
        assert len(columns_of(list("abc"), **columns)) == 3
    else:
        with pytest.raises(InputError, match="4 rows are too many for 3 columns"):
            columns_of(list("abc"), **columns)
