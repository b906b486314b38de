"""Pickles of plain values, and hostile ones: real exploits, every forbidden instruction, every cut."""

import os
import pickle
import pickletools
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle

PATH = Path("file.pkl")
ALLOWED = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
    "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "NEWTRUE", "NEWFALSE",
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text()
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.lists(inner, max_size=5).map(tuple)
    ),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_read_as_the_usual_reader_does(value, protocol):
    assert read_plain_pickle(pickle.dumps(value, protocol), PATH) == value


def test_what_occurs_twice_is_one_value():
    shared = ["a long text that is memoized"]
    first, second = read_plain_pickle(pickle.dumps([shared, shared]), PATH)
    assert first is second and first == shared


@pytest.mark.parametrize(
    "code", [c for c in pickletools.opcodes if c.name not in ALLOWED], ids=lambda c: c.name
)
def test_every_other_instruction_is_refused(code):
    # Whatever the argument of the instruction is: enough bytes and lines to be one.
    content = b"\x80\x04]" + code.code.encode("latin-1") + b"1\nsystem\n" + bytes(16) + b"."
    with pytest.raises(InputError, match=r"^file\.pkl: "):
        read_plain_pickle(content, PATH)


class Exploit:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_an_exploit_does_nothing_but_end_the_reading(tmp_path, protocol):
    mark = tmp_path / "hacked"
    content = pickle.dumps([1, {"a": Exploit(mark)}], protocol)
    with pytest.raises(InputError, match=r"file\.pkl: holds more than plain values: the instruction"):
        read_plain_pickle(content, PATH)
    assert not mark.exists()
    pickle.loads(content)  # noqa: S301 - it is a real exploit
    assert mark.exists()


@pytest.mark.parametrize(
    "value",
    [OrderedDict(a=1), np.float64(1.0), np.arange(3), {1, 2}, b"bytes", frozenset(), Path(), len, Exploit],
    ids=lambda value: type(value).__name__,
)
def test_values_that_need_a_class_are_refused(value):
    with pytest.raises(InputError, match="holds more than plain values: the instruction"):
        read_plain_pickle(pickle.dumps([value]), PATH)


def test_a_file_that_was_cut_or_changed_is_refused_or_read_as_plain_values():
    content = pickle.dumps([{"curve": [1.5, 2.5] * 3, "name": "x" * 300, "n": 7, "deep": ({}, None, True)}])
    for end in range(len(content)):
        with pytest.raises(InputError):
            read_plain_pickle(content[:end], PATH)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        changed = bytearray(content)
        changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            read_plain_pickle(bytes(changed), PATH)
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        b"\x80\x04.",
        b"\x80\x04]].",  # two values
        b"\x80\x04e.",  # no mark
        b"\x80\x04(e.",
        b"\x80\x04](K\x01K\x02u.",  # items of a dictionary for a list
        b"\x80\x04}(K\x01u.",  # a key without a value
        b"\x80\x04}]K\x01s.",  # a list as a key
        b"\x80\x04h\x05.",  # an unknown memo
        b"\x80\x04\x94.",  # nothing to remember
        b"\x80\x04\x87.",
        b"\x80\x04\x8c\xff\x00.",
        b"\x80\x04\x8c\x01\xff.",  # no UTF-8
        b"\x80\x04\x8b"
        + struct.pack("<i", 2**30)
        + b"x.",  # a number of a billion bytes, of which one is there
        b"\x80\x04X" + struct.pack("<I", 2**31) + b"x.",
    ],
)
def test_broken_programs_are_refused(content):
    with pytest.raises(InputError, match=r"^file\.pkl: not a pickle of plain values"):
        read_plain_pickle(content, PATH)


def test_a_number_that_would_take_hours_to_print_is_refused():
    with pytest.raises(InputError, match="more than 400 digits"):
        read_plain_pickle(pickle.dumps(10**500), PATH)
    assert read_plain_pickle(pickle.dumps(10**300), PATH) == 10**300


def test_very_deep_values_are_read_without_recursion():
    content = b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."
    value = read_plain_pickle(content, PATH)
    depth = 0
    while value:
        (value,) = value
        depth += 1
    assert depth == 99_999
