"""Content of TOML and JSON files, checked against a type before anything is done with it.

1. Describe the content: `class Person(Strict, frozen=True): name: str; age: Whole = 0`.
2. Read it: `load_toml(path, Person)`, `load_json(path, Person)`, or for content that is already parsed, such
   as a line of a ledger, `checked(parse_json(line, where), Person, where)`.
3. Use `Finite`, `Whole` and the other types below for numbers, `Literal["a", "b"]` for a choice, and
   `dict[str, Person]` for named sections. A field without a default is required.
4. Put further checks into `__post_init__`, which raises InputError. File and key are added to its message.
5. Any fault raises one InputError in one line: file, key, what is expected, and the nearest valid key. Names
   that become parts of paths must also pass `check_name`.
"""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, inspect

from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.files import read_json, read_toml
from hpobench_nmt.core.system.text import printable

T = TypeVar("T")

LARGEST = sys.float_info.max
"""The largest finite number: Annotated[float, Meta(gt=0, le=LARGEST)] refuses infinity."""
LARGEST_WHOLE = 2**63 - 1
"""The largest whole number in a file."""

Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
"""A number, whole or not; neither NaN nor infinite."""
NonNegative = Annotated[float, Meta(ge=0, le=LARGEST)]
"""A finite number of 0 or more."""
Whole = Annotated[int, Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
"""A whole number that fits into 64 bits."""
Natural = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
"""A whole number of 0 or more."""
Positive = Annotated[int, Meta(ge=1, le=LARGEST_WHOLE)]
"""A whole number of 1 or more."""

Amount = Positive | Annotated[float, Meta(gt=0, le=LARGEST)]
"""A finite number above 0. A whole number stays an int."""

_WRITTEN_BITS = 14_000  # fewer than 4,300 digits
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 60


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a file. It is frozen, and a key that is not one of its fields is an error."""


def load_toml(path: Path, kind: type[T], follow_link: bool = True) -> T:
    """The content of a TOML file as a value of this type; InputError if it cannot be read or is wrong."""
    return checked(read_toml(path, follow_link), kind, str(path))


def load_json(path: Path, kind: type[T], follow_link: bool = True) -> T:
    """The content of a JSON file as a value of this type; InputError if it cannot be read or is wrong."""
    return checked(read_json(path, follow_link), kind, str(path))


def checked(content: object, kind: type[T], where: str) -> T:
    """Parsed TOML or JSON as a value of this type. Only whole numbers are converted, to floats.

    The type is derived from Strict, or the type of a field of such a type. Messages begin with `where`, such
    as "FILE, line 3".
    """
    try:
        try:
            return msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            raise _explained(error, content, kind, where) from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply.") from None
    except UnicodeEncodeError:
        raise InputError(f"{where}: contains a lone surrogate, which is not a character.") from None


_Path = tuple[str | int, ...]


def _explained(error: msgspec.ValidationError, content: Any, kind: Any, where: str) -> InputError:
    error, value, kind, path = _innermost(error, content, kind)
    what, expected = str(error), inspect.type_info(kind)
    if isinstance(error.__cause__, InputError):
        return InputError(f"{where}: {_named(path)}{error.__cause__}")
    if found := re.fullmatch(r"(?s)Object contains unknown field `(.*)`", what):
        return unknown("key", found[1], _fields(kind), f"({where})", _joined(path) + "." if path else "")
    if found := re.fullmatch(r"Object missing required field `(.*)`", what):
        known = _fields(kind)  # empty for a dataclass
        needed = f"; it must be {_described(inspect.type_info(known[found[1]]))}" if known else ""
        return InputError(f"{where}: {_joined((*path, found[1]))} is missing{needed}.")
    if what.endswith("`key` in `$`"):
        what = what.rpartition(" - at ")[0]
        return InputError(f"{where}: {_named(path)}a key in it cannot be used: {printable(what)}.")
    subject = _joined(path) or "the content"
    return InputError(f"{where}: {subject} must be {_described(expected)}, not {_shown(value)}.")


def _innermost(
    error: msgspec.ValidationError, content: Any, kind: Any
) -> tuple[msgspec.ValidationError, Any, Any, _Path]:
    """The error of the smallest part of the content that is wrong, that part, its type and its path.

    msgspec's own message names places, but not the keys of dictionaries.
    """
    path: _Path = ()
    while True:
        for step, value, inner in _parts(content, kind):
            try:
                msgspec.convert(value, inner)
            except msgspec.ValidationError as deeper:
                error, content, kind, path = deeper, value, inner, (*path, step)
                break
        else:
            return error, content, kind, path


def _parts(content: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The values in a mapping or list by key or index, with their types, up to a key that is wrong itself."""
    for each in _alternatives(kind):
        origin, inner, fields = get_origin(each), get_args(each), _fields(each)
        named = origin in (dict, Mapping)
        if isinstance(content, list) and origin in (list, tuple, Sequence):
            yield from ((place, value, inner[0]) for place, value in enumerate(content))
        elif isinstance(content, Mapping) and (named or fields):
            for key, value in content.items():
                if not isinstance(key, str) or (fields and key not in fields and issubclass(each, Strict)):
                    return
                if named or key in fields:
                    yield key, value, inner[1] if named else fields[key]


def _fields(kind: Any) -> dict[str, Any]:
    """The types of the fields of a structure by name, or of the structure in a union; {} for other types."""
    structs = (
        each for each in _alternatives(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)
    )
    return {field.encode_name: field.type for each in structs for field in msgspec.structs.fields(each)}


def _alternatives(kind: Any) -> list[Any]:
    """The types in a union, or the type itself, without metadata."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [each for member in get_args(kind) for each in _alternatives(member)]
    return [kind]


def _shown(value: object) -> str:
    """A value in a message: short, however long, large or deep it is."""
    large = "such a large number"  # more than 4,300 digits, which Python refuses to write
    if isinstance(value, int) and value.bit_length() > _WRITTEN_BITS:
        return large
    try:
        return printable(_repr.repr(value))
    except ValueError:  # such a number is inside
        return large


def _named(path: _Path) -> str:
    return f"{_joined(path)}: " if path else ""


def _joined(path: _Path) -> str:
    """A path as people write it: metrics.dev_bleu.values[2]."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if len(step) <= 60 else f"{step[:60]}…"
            text += ("." if text else "") + (name if re.fullmatch(r"[\w-]+", name) else repr(name))
    return text


_WORDS: dict[Any, tuple[str, str]] = {
    inspect.StrType: ("a string", "strings"),
    inspect.BoolType: ("true or false", "true or false"),
    inspect.StructType: ("a section", "sections"),
    inspect.NoneType: ("null", "null"),
}


def _described(kind: Any, several: bool = False) -> str:
    """A value of this type, in words."""
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    match kind:
        case inspect.LiteralType():
            return _either(repr(value) for value in kind.values)
        case inspect.UnionType():
            # If any number is allowed, whole numbers need not be named.
            any_number = any(isinstance(t, inspect.FloatType) for t in kind.types)
            left_out = (inspect.NoneType, inspect.IntType) if any_number else inspect.NoneType
            return _either(_described(t, several) for t in kind.types if not isinstance(t, left_out))
        case inspect.IntType() | inspect.FloatType():
            adjective = "whole" if isinstance(kind, inspect.IntType) else "finite"
            return (f"{adjective} numbers" if several else f"a {adjective} number") + _range(kind)
        case inspect.ListType() | inspect.VarTupleType():
            return ("lists" if several else "a list") + " of " + _described(kind.item_type, several=True)
        case inspect.DictType():
            inner = _described(kind.value_type, several=True)
            return ("sections" if several else "a section") + f" of {inner}"
    one, many = _WORDS.get(type(kind), ("another value", "values"))
    return many if several else one


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The bounds of a number in words, without bounds that only mean that it is finite or has 64 bits."""
    bounds = {
        "of {:g} or more": kind.ge,
        "of {:g} at most": kind.le,
        "above {:g}": kind.gt,
        "below {:g}": kind.lt,
    }
    stated = {
        words: b for words, b in bounds.items() if b is not None and abs(b) not in (LARGEST, LARGEST_WHOLE)
    }
    if kind.ge in stated.values() and kind.le in stated.values():
        return f" from {kind.ge:g} to {kind.le:g}"
    return f" {' and '.join(words.format(bound) for words, bound in stated.items())}".rstrip()


def _either(options: Any) -> str:
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else str(last)
