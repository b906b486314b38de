"""Numbers in CSV files: read as Python reads them, to the last bit, and written so that they come back."""

from __future__ import annotations

import csv
import io
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.csv_writing import csv_of, plain
from hpobench_nmt.lookup.disk.rows import (
    Wanted,
    _of_arrow,
    doubles_of,
    number_column,
    parse_columns,
    read_csv,
    read_rows,
)

PATH = Path("t.csv")


def parsed(text, names=("a", "b")):
    content = text if isinstance(text, bytes) else text.encode()
    return {name: column.tolist() for name, column in parse_columns(content, Wanted(names), PATH).items()}


def bits(numbers):
    return [struct.pack("<d", x) if x == x else b"nan" for x in numbers]


DIGITS = st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
HALFWAY = st.builds(
    # Between two doubles, and a digit beyond: what a parser that is not exact gets wrong.
    lambda x, tail: f"{(x + math.nextafter(x, math.inf)) / 2:.60e}".replace("e", f"{tail}e"),
    st.floats(1e-10, 1e10),
    st.sampled_from(["", "1"]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(DIGITS, HALFWAY, st.floats(allow_nan=False).map(repr)), min_size=1, max_size=20))
def test_both_ways_read_what_pythons_float_reads(cells):
    expected = [float(cell) for cell in cells]
    content = "a\n" + "\n".join(cells) + "\n"
    fast = _of_arrow(content.encode(), Wanted(["a"]), ())
    assert fast is not None, "the fast way must take ordinary numbers"
    assert bits(fast["a"].tolist()) == bits(expected)
    # A number that only Python takes sends the whole file the other way.
    assert bits(parsed(content + "10\u00a0\n", ["a"])["a"]) == bits([*expected, 10.0])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(allow_infinity=False), st.floats(allow_infinity=False)), min_size=1, max_size=30
    )
)
def test_what_is_written_comes_back(rows):
    columns = {"a": np.array([r[0] for r in rows]), 'b, "c"': np.array([r[1] for r in rows])}
    content = csv_of(columns)
    back = parse_columns(content, Wanted(list(columns)), PATH)
    for name, column in columns.items():
        np.testing.assert_array_equal(back[name], column)
    cells = list(csv.reader(io.StringIO(content.decode())))
    assert cells[0] == list(columns)
    for cell, (x, _) in zip((c[0] for c in cells[1:]), rows, strict=True):
        if math.isnan(x):
            assert cell == ""
        elif x == math.floor(x) and abs(x) < 2**53:
            assert cell == str(int(x))
        else:
            assert cell == repr(x)


def test_whole_numbers_of_any_size_come_back():
    seeds = np.array([2**62 + 1, -5, 0])
    assert csv_of({"seed": seeds}).decode() == "seed\n4611686018427387905\n-5\n0\n"
    assert csv_of({"x": np.array([2.0**53, 1e300, -(2.0**53) + 1])}).decode() == (
        "x\n9007199254740992.0\n1e+300\n-9007199254740991\n"
    )


def test_more_rows_than_one_block(monkeypatch):
    numbers = np.arange(120_001) / 7
    shares = []
    content = csv_of({"a": numbers}, shares.append)
    assert shares == pytest.approx([50_000 / 120_001, 100_000 / 120_001, 1.0])
    np.testing.assert_array_equal(parse_columns(content, Wanted(["a"]), PATH)["a"], numbers)
    lines = content.decode().split("\n")
    lines[110_000] = "x"
    with pytest.raises(InputError, match=r"t\.csv, line 110001: 'a' is 'x', not a number"):
        parsed("\n".join(lines), ["a"])


@pytest.mark.parametrize("last", ["60", "60\u00a0"])  # only Python strips the second
def test_empty_cells_are_missing(last):
    cells = parsed(f"a,b\n1,\n2,NA\n3,NaN\n4,nan\n, 5 \n6,{last}\n")
    np.testing.assert_array_equal(cells["a"], [1, 2, 3, 4, np.nan, 6])
    np.testing.assert_array_equal(cells["b"], [np.nan, np.nan, np.nan, np.nan, 5, 60])


@pytest.mark.parametrize("last", ["60", "60\u00a0"])
def test_a_blank_line_is_an_empty_row(last):
    """It is not left out: the rows after it would have other numbers than the lines."""
    one = parsed(f"a\n1\n\n{last}\n", ["a"])
    np.testing.assert_array_equal(one["a"], [1, np.nan, 60])
    two = parsed(f"a,b\n1,2\n\n3,{last}\n")
    np.testing.assert_array_equal(two["a"], [1, np.nan, 3])
    np.testing.assert_array_equal(two["b"], [2, np.nan, 60])
    with pytest.raises(InputError, match="line 5: 'a' is 'x'"):
        parsed("a\n1\n\n\nx\n", ["a"])


def test_a_column_of_texts_as_numbers():
    cells = ["1", " 2.5 ", "", "NA"]
    np.testing.assert_array_equal(number_column(cells, "a", PATH), [1, 2.5, np.nan, np.nan])
    for first, line in (({}, 3), ({"first": 10}, 13)):
        with pytest.raises(InputError, match=rf"t\.csv, line {line}: 'b' is 'x', not a number"):
            number_column(["1", "x", "", ""], "b", PATH, **first)


def test_columns_in_any_order_quotes_and_line_ends():
    assert parsed('b,a\r\n"1",2\r\n3,4') == {"a": [2, 4], "b": [1, 3]}
    assert parsed("\ufeffa,b\n1,2\n") == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n", "t.csv, line 3: 'b' is 'x', not a number"),
        ("a,b\n1,2\n3,Nothing\n", "t.csv, line 3: 'b' is 'Nothing'"),
        ("a,b\n1,true\n", "t.csv, line 2: 'b' is 'true'"),
        ("a,b\n1,0x10\n", "t.csv, line 2: 'b' is '0x10'"),
        # What Arrow takes as missing where it is not told otherwise.
        ("a,b\n1,#N/A N/A\n", "t.csv, line 2: 'b' is '#N/A N/A'"),
        ("a,b\n1,1.#IND\n", "t.csv, line 2: 'b' is '1.#IND'"),
        ("a,b\n1," + "x" * 50 + "\n", "'b' is '" + "x" * 40 + "', not a number."),
        ("a,b\n1,2\x1b[0m\n", r"'2\x1b[0m'"),
        ("a\n1\n", "unknown column 'b'. Known: a. (t.csv)"),
        ("a,b,c\n1,2,3\n", "t.csv: column 'c' is not described"),
        ("a,b,b\n1,2,3\n", "t.csv: column 'b' occurs twice."),
        ("a,b\n1,2\n3\n4,5\n", "t.csv, line 3: only 1 of 2 cells."),
        ("a,b\n1,2\n3,4\n5", "t.csv, line 4: only 1 of 2 cells."),
        ("a,b\n1,2,3\n", "t.csv: not a CSV table"),
        ("a,b\n", "t.csv: has no rows"),
        ("", "t.csv: not a CSV table"),
        (b"a,b\n1,2\n1,\xff\n", "t.csv, line 3: not UTF-8 text."),
        (b"a,\xff\n1,2\n", "not UTF-8 text"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(InputError) as error:
        parsed(text)
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


def test_whole_numbers_are_plain():
    for number, expected in (
        (3.0, 3),
        (-3.0, -3),
        (0.0, 0),
        (2.5, 2.5),
        (-0.5, -0.5),
        (2.0**53 - 1, 2**53 - 1),
        (1 - 2.0**53, 1 - 2**53),
        (2.0**53, 2.0**53),
        (-(2.0**53), -(2.0**53)),
        (1e300, 1e300),
    ):
        found = plain(np.float64(number))
        assert (found, type(found)) == (expected, type(expected))


def test_rows_are_read_from_a_file_and_through_a_link_only_if_asked(tmp_path):
    with pytest.raises(InputError, match=rf"{tmp_path}: has no rows\.csv\."):
        read_rows(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_bytes(b"a\n1\n")
    assert read_rows(tmp_path / "rows.csv") == b"a\n1\n"
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    assert read_rows(tmp_path / "link.csv", follow_link=True) == b"a\n1\n"
    with pytest.raises(InputError, match=r"link\.csv: is a symbolic link, which is not followed"):
        read_rows(tmp_path / "link.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"has no folder\."):
        read_rows(tmp_path / "folder")


def test_a_csv_file_as_texts(tmp_path):
    path = tmp_path / "t.csv"
    with pytest.raises(InputError, match=rf"{path}: no such file\."):
        read_csv(path)
    path.write_text('a,b\n1.0,NA\n,"x, y"\n')
    frame = read_csv(path)
    assert frame.to_dict("list") == {"a": ["1.0", ""], "b": ["NA", "x, y"]}
    path.write_text("a\n" + "7\n" * 50_001)
    assert read_csv(path).index.tolist() == list(range(50_001))
    path.write_text("a,b\n1,2,3\n")
    with pytest.raises(InputError, match=rf"{path}: not a CSV table"):
        read_csv(path)


@pytest.mark.parametrize("first", [0, 3, 8])
def test_a_part_of_an_array_has_its_own_gaps(first):
    values = [1.5, None, 3.0, None, None, 6.0, 7.0, 8.0, None, 10.0, 11.0]
    part = pa.array(values).slice(first, 3)
    expected = [math.nan if value is None else value for value in values[first : first + 3]]
    np.testing.assert_array_equal(doubles_of(part), expected)


READING = """
import os, signal, sys, threading, time
from pathlib import Path
from hpobench_nmt.lookup.disk.rows import Wanted, parse_columns

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
content, wanted = b"a,b\\n" + b"1,2\\n" * 2000, Wanted(("a", "b"))
parse_columns(content, wanted, Path("t.csv"))
lost = 0
for wait in range(40):
    sent = threading.Event()

    def send():
        time.sleep(0.003 + 0.0001 * wait)
        os.kill(os.getpid(), signal.SIGINT)
        sent.set()

    thread = threading.Thread(target=send)
    try:
        thread.start()
        while not sent.is_set():
            parse_columns(content, wanted, Path("t.csv"))
        time.sleep(0.05)
        lost += 1
    except KeyboardInterrupt:
        pass
    thread.join()
sys.exit(lost)
"""


def test_ctrl_c_while_a_file_is_read_is_not_lost():
    """Arrow's own handler of the signal loses a third of them: `run` then waited for its workers for ever."""
    assert subprocess.run([sys.executable, "-c", READING], timeout=60).returncode == 0


def test_many_numbers_are_written_as_python_does():
    """Arrow writes them, but for those of which it writes another text."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2**63, 5000, dtype=np.int64).view(np.float64)
    numbers = np.concatenate([bits[np.isfinite(bits)], 10 ** rng.uniform(-7, 18, 5000), -rng.random(3000)])
    numbers = np.concatenate(
        [numbers, np.round(numbers[-6000:], 3), [1e-4, 1e9, 999999999.9999999, 1e15, 1e16]]
    )
    lines = (
        csv_of({"x": numbers, "few": np.resize([0.1, 1e-05, np.nan, 3.0], len(numbers))}).decode().split("\n")
    )
    wanted = [str(int(x)) if x == np.floor(x) and abs(x) < 2**53 else repr(x) for x in numbers.tolist()]
    assert [line.split(",")[0] for line in lines[1:-1]] == wanted
    assert [line.split(",")[1] for line in lines[1:5]] == ["0.1", "1e-05", "", "3"]
