"""The settings of a model family, or the options of a corpus: a class of typed fields.

    @dataclass(frozen=True, kw_only=True)
    class Mine(Settings):
        cell: Literal["lstm", "rhn"] = setting("lstm", "the recurrent cell")
        layers: int = setting(3, "recurrent layers", 1, 20)

A field's type is int, float, bool, str or a Literal of strings. `T | tuple[T, ...]`, where T is such a type
of strings, accepts one string or a list. A spec must set a field whose default is `...`. The default of a new
field must keep the earlier behaviour, because a ledger without the field counts as having the default. Specs,
kept models and the documentation read all of this from the class, through `settings_of`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.space import Scale, Value
from hpobench_nmt.core.system.errors import InputError, unknown


@dataclass(frozen=True)
class Settings:
    """The settings of one configuration, or the options of a corpus, with their values."""


@dataclass(frozen=True)
class About:
    """A field's description and limits.

    Attributes:
        description: one line for people.
        low, high: the range of a number, ends included.
        scale: the scale of a grid of the field, unless the spec names another.
        unit: for people.
        on_grid: whether a grid may vary the field.
        added: whether the option was added after corpora had been prepared without it. Its default then does
            not enter their names in the cache, so that these corpora are still found.
    """

    description: str
    low: float = -math.inf
    high: float = math.inf
    scale: Scale = "linear"
    unit: str = ""
    on_grid: bool = True
    added: bool = False


def setting(default: Any, about: str, low: float = -math.inf, high: float = math.inf, **more: Any) -> Any:
    """A field of a class of settings. Its default is `...` if a spec must set it; `more` is as in `About`."""
    told = {"about": About(about, low, high, **more)}
    return field(metadata=told) if default is ... else field(default=default, metadata=told)


@dataclass(frozen=True)
class Setting:
    """A field of a class of settings.

    Attributes:
        kind: int, float, str or bool. A float setting accepts whole numbers as well.
        choices: the strings that are allowed; empty: any.
        default: the value if a spec does not set it; None if a spec must set it.
        several: whether the value may be a list of strings.
    """

    name: str
    kind: type[int] | type[float] | type[str] | type[bool]
    choices: tuple[str, ...]
    default: Value | None
    about: About
    several: bool = False

    def check_option(self, value: Any, where: str) -> float | int | str | bool | tuple[str, ...]:
        """`check` of one value, or of each value of a list if lists are allowed. A list becomes a tuple."""
        if self.several and isinstance(value, list | tuple):
            return tuple(str(self.check(text, where)) for text in value)
        return self.check(value, where)

    def check(self, value: Any, where: str) -> float | int | str | bool:
        """The value in the setting's own type.

        Raises InputError for a wrong type, a number out of range, or an unknown choice.
        """
        wrong = InputError(f"{where}: {self.name} must be {_NAMES[self.kind]}, not {_shown(value)}.")
        if self.kind in (str, bool):
            if not isinstance(value, self.kind):
                raise wrong
            if self.choices and value not in self.choices:
                raise unknown(self.name, str(value), self.choices, f"({where})")
            return value
        if not is_number(value) or not abs(value) <= sys.float_info.max:
            raise wrong
        if self.kind is int and value != int(value):
            raise wrong
        low, high = self.about.low, self.about.high
        if not low <= value <= high:
            raise InputError(f"{where}: {self.name} is {_shown(value)}, but goes from {low:g} to {high:g}.")
        return int(value) if self.kind is int else float(value)


def texts_of(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The value of a setting with `several` as a tuple, whether it is one string or a list."""
    return (value,) if isinstance(value, str) else value


def values_of(kind: type[Any], settings: Settings) -> dict[str, Any]:
    """The values of the settings that have the names of a dataclass's fields."""
    names = [each.name for each in fields(kind) if hasattr(settings, each.name)]
    return {name: getattr(settings, name) for name in names}


def _choices(of: Any) -> tuple[str, ...]:
    """The strings of a Literal, or of a union of Literals."""
    if get_origin(of) is Literal:
        return get_args(of)
    return tuple(dict.fromkeys(text for part in get_args(of) for text in _choices(part)))


_known: dict[type[Settings], Mapping[str, Setting]] = {}


def settings_of(kind: type[Settings]) -> Mapping[str, Setting]:
    """The fields of a class by name, in the order of the class."""
    if kind not in _known:
        hints = get_type_hints(kind)
        found = {each.name: _setting(each, hints[each.name]) for each in fields(kind)}
        _known[kind] = MappingProxyType(found)
    return _known[kind]


def _setting(each: Field[Any], of: Any) -> Setting:
    choices = _choices(of)
    default = None if each.default is MISSING else each.default
    several = any(get_origin(part) is tuple for part in get_args(of))
    kind = str if choices or several else of
    return Setting(each.name, kind, choices, default, each.metadata["about"], several)


def _shown(value: object) -> str:
    """A value in a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


_LONGEST_SHOWN = 60
_NAMES: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
