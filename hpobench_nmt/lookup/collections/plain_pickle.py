"""Pickles of plain values, read without unpickling.

A pickle is a program that builds a value, and the usual reader runs whatever functions it names. This reader
supports lists, dictionaries, tuples, texts, numbers, booleans and None, and refuses every other instruction.

symbol   meaning
stack    values under construction
marks    heights of the stack at which a list's or a dictionary's items begin
memo     values by number, for those that occur more than once
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError

# Instructions whose argument is the value itself.
_VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
# Instructions that take values from the stack: their number, or None for those since the last mark.
_TAKEN = {
    "APPEND": 1, "APPENDS": None, "SETITEM": 2, "SETITEMS": None,
    "TUPLE": None, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3,
}  # fmt: skip
_MOST_DIGITS = 400


class _Refused(Exception):
    pass


def read_plain_pickle(content: bytes, path: Path) -> Any:
    """The value that a pickle of protocol 2 or later holds. O(content).

    Raises InputError if it is not a pickle, is cut short, or holds anything but plain values.
    """
    try:
        return _value(content)
    except _Refused as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: not a pickle of plain values ({type(error).__name__}).") from None


def _value(content: bytes) -> Any:
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def taken(count: int | None) -> list[Any]:
        start = marks.pop() if count is None else len(stack) - count
        if start < 0:
            raise IndexError
        items = stack[start:]
        del stack[start:]
        return items

    for code, argument, place in pickletools.genops(content):
        name = code.name
        items = taken(_TAKEN[name]) if name in _TAKEN else []
        if name in _VALUES:
            if isinstance(argument, int) and argument.bit_length() > 4 * _MOST_DIGITS:
                raise _Refused(f"a whole number of more than {_MOST_DIGITS} digits (byte {place}).")
            stack.append(argument)
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            marks.append(len(stack))
        elif name.startswith("APPEND"):
            _last(stack, list).extend(items)
        elif name.startswith("SETITEM"):
            _last(stack, dict).update(zip(map(_key, items[::2]), items[1::2], strict=True))
        elif name in _TAKEN:
            stack.append(tuple(items))
        elif name == "STOP":
            (value,) = stack
            return value
        elif name not in ("PROTO", "FRAME"):
            raise _Refused(f"holds more than plain values: the instruction {name} (byte {place}) is refused.")
    raise ValueError


def _last(stack: list[Any], kind: type) -> Any:
    """The value on top of the stack, to which items are added."""
    if type(stack[-1]) is not kind:
        raise TypeError
    return stack[-1]


def _key(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool):
        raise TypeError
    return value
