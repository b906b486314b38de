"""One hyperparameter: its values, its scale, and its features for surrogates.

Numbers are scaled so that the ends of the grid are 0 and 1. Ordered labels are scaled by their rank. A
categorical hyperparameter has one column for each category (or no column if there is only one category). The
column of a configuration's category is 1/sqrt(2), and the others are 0. So any two categories are 1 apart.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.objectives import LARGEST_VALUE
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.files import check_column, check_label
from hpobench_nmt.core.system.text import brief

_MOST_EXACT = 2**53  # the whole numbers up to here are exact as doubles

Scale = Literal["linear", "log"]
Kind = Literal["numeric", "ordinal", "categorical"]
Value = float | int | str | bool | tuple[Any, ...] | None
"""A hyperparameter's value: a number, or a label (a text, a boolean, a number, None or a tuple of these)."""

_MOST_SHOWN = 10
_MOST_LISTED = 12
SAME = 1e-9
"""Numbers with a smaller relative difference are one value of a grid."""
ROUNDED = 1e-6
"""The same for numbers that float32 may have rounded, if only one value of the grid is this near."""
# Below this, float32 represents every whole number exactly.
_WHOLE_SINGLE = 2.0**24
# Below this, float64 represents every whole number exactly.
_WHOLE = 2**53


@dataclass(frozen=True)
class Hyperparameter:
    """One axis of the search space.

    Attributes:
        name: the name of its column in a table.
        values: the grid. A numeric hyperparameter has ascending numbers in raw units, whose ends map to 0
            and 1. An ordinal one has labels in their order, and a categorical one has labels in any order.
        scale: "linear" if steps between numbers matter, "log" if ratios matter.
        unit: shown to people.
        kind: "numeric", "ordinal" (ordered labels) or "categorical" (unordered labels).
        integer: whether numbers must be whole. With None, they must be whole if all values are, or if the
            ends of a range have the type int.
        active_if: conditions that must all hold for the hyperparameter to be active. Each is a pair of
            another hyperparameter's name and its values, such as (("optimizer", ("adam", "rmsprop")),). If
            empty, it is always active.
        default: the value that surrogates use where it is inactive; None means the first value.
        continuous: whether the two values are the ends of a range of numbers. Tables have grids; the space
            of a function to minimise may have ranges.
    """

    name: str
    values: tuple[Value, ...]
    scale: Scale = "linear"
    unit: str = ""
    kind: Kind = "numeric"
    integer: bool | None = None
    active_if: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    default: Value = None
    continuous: bool = False

    def __post_init__(self) -> None:
        """Refuse a grid that cannot be scaled, or labels that cannot be distinguished."""
        check_column("hyperparameter", self.name, self.unit)
        where = f"hyperparameter {self.name!r}"
        for attribute, choices in (("kind", get_args(Kind)), ("scale", get_args(Scale))):
            if getattr(self, attribute) not in choices:
                names = [repr(choice) for choice in choices]
                listed = f"{', '.join(names[:-1])} or {names[-1]}"
                raise InputError(f"{where}: {attribute} must be {listed}, not {getattr(self, attribute)!r}.")
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise InputError(f"{where} has no values.")
        if not _are_conditions(self.active_if):
            example = '(("optimizer", ("adam", "rmsprop")),)'
            raise InputError(f"{where}: active_if must be pairs such as {example}, not {self.active_if!r}.")
        conditions = tuple((name, tuple(map(_plain, values))) for name, values in self.active_if)
        object.__setattr__(self, "active_if", conditions)
        object.__setattr__(self, "default", _plain(self.default))
        if self.kind == "numeric":
            self._check_numbers(where)
        else:
            self._check_labels(where)
        if self.default is not None:
            if self.default != self.default:
                raise InputError(f"{where}: a default must be one of the values, not nan.")
            if not self.active_if:
                raise InputError(
                    f"{where}: a default is only for a hyperparameter that may be inactive: add active_if."
                )
            self.code(self.default)

    def _check_numbers(self, where: str) -> None:
        if not set(map(type, self.values)) <= {int, float} and not all(is_number(v) for v in self.values):
            shown = _shown(self.values)
            raise InputError(f"{where}: {shown} are not all numbers; labels need kind = 'categorical'.")
        if self.continuous and self.integer is None:
            whole = all(isinstance(end, int | np.integer) for end in self.values)
            object.__setattr__(self, "integer", whole)
        # 1 and 1.0 are the same number, as are 0 and -0.0, so tables with either of them have the same hash.
        given: Any = self.values
        try:
            object.__setattr__(self, "values", tuple(float(value) + 0.0 for value in given))
        except OverflowError:
            raise InputError(f"{where} has a value beyond {LARGEST_VALUE:g}.") from None
        numbers, shown = self.numbers, _shown(self.values)
        if not all(map(math.isfinite, numbers)):
            raise InputError(f"{where} has a value that is not finite: {shown}.")
        if max(map(abs, numbers)) > LARGEST_VALUE:
            raise InputError(f"{where} has a value beyond {LARGEST_VALUE:g}.")
        if any(isinstance(v, int | np.integer) and abs(int(v)) > _MOST_EXACT for v in given):
            raise InputError(
                f"{where}: whole numbers beyond 2^53 cannot be told apart: {shown}. Subtract an offset, or "
                "take their logarithm."
            )
        if any(map(operator.le, numbers[1:], numbers)):
            raise InputError(f"{where}: values must be ascending and distinct, not {shown}.")
        if self.scale == "log" and numbers[0] <= 0:
            raise InputError(f"{where}: a log scale needs positive values, not {numbers[0]:g}.")
        if self.scale == "log" and numbers[0] < 1 / LARGEST_VALUE:
            raise InputError(f"{where}: a log scale needs values of {1 / LARGEST_VALUE:g} or more.")
        if self.continuous and len(numbers) != 2:
            raise InputError(f"{where}: a range needs two ends, not {shown}.")
        if self.integer and any(v != math.floor(v) for v in numbers):
            raise InputError(f"{where} takes whole numbers only, not {shown}.")

    def _check_labels(self, where: str) -> None:
        if self.scale != "linear" or self.integer is not None or self.continuous:
            raise InputError(
                f"{where}: scales and ranges are only for numbers, but its kind is {self.kind!r}."
            )
        object.__setattr__(self, "values", tuple(map(_plain, self.values)))
        texts = []
        for value in self.values:
            if not _is_label(value):
                shown = brief(value, 60)
                raise InputError(
                    f"{where}: a label must be a text, a boolean, a number, None or a tuple of these, not "
                    f"{shown}."
                )
            texts.append(check_label(f"{where}: the label", label(value)))
            if not texts[-1]:
                raise InputError(f"{where}: an empty text is not a label: an empty cell means inactive.")
        twice = {text for text in texts if texts.count(text) > 1} if len(set(texts)) < len(texts) else ()
        if twice:
            raise InputError(f"{where}: the label {min(twice)!r} occurs twice.")
        if None in self.values and self.active_if:
            raise InputError(f"{where}: None would mean that it is inactive. Use the text 'none' instead.")

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers on a scale, not labels."""
        return self.kind == "numeric"

    @property
    def whole(self) -> bool:
        """Whether it is numeric and takes whole numbers only."""
        if not self.is_numeric:
            return False
        return all(v == math.floor(v) for v in self.numbers) if self.integer is None else self.integer

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The values as floats if it is numeric, else the positions of the labels."""
        numbers: Any = self.values if self.is_numeric else range(len(self.values))
        return tuple(map(float, numbers))

    @property
    def labels(self) -> tuple[str, ...]:
        """Its values as texts, as people and CSV files see them."""
        return tuple(map(label, self.values))

    @property
    def values_text(self) -> str:
        """The values in a line; of more than 12, their number and the ends."""
        shown = self.short_labels
        if len(shown) <= _MOST_LISTED:
            return ", ".join(shown)
        what = f"from {shown[0]} to {shown[-1]}" if self.is_numeric else "labels"
        return f"{len(shown):,} {what}"

    @property
    def short_labels(self) -> tuple[str, ...]:
        """Its values as texts in a message; numbers have at most six digits."""
        return tuple(label(value) if value is None else short_label(value) for value in self.values)

    @property
    def condition(self) -> str:
        """The condition under which it is active, in words; "" if it is always active."""
        pairs = ((name, " or ".join(map(short_label, values))) for name, values in self.active_if)
        return " and ".join(f"{name} is {values}" for name, values in pairs)

    @property
    def n_features(self) -> int:
        """Number of its columns among the features."""
        return len(self.values) if self.kind == "categorical" and len(self.values) > 1 else 1

    @cached_property
    def _place_of(self) -> dict[Any, int]:
        return {key_of(value): place for place, value in enumerate(self.values)}

    def code(self, value: object) -> float:
        """A value as a number: itself, or a label's position; NaN for None or NaN, which mean inactive.

        Raises InputError, which names the nearest value, if it is not one of the values.
        """
        if isinstance(value, list | tuple) and not self.is_numeric:  # files have lists instead of tuples
            value = _plain(value)
        if (value is None and None not in self.values) or value != value:
            if self.active_if:
                return math.nan
            raise InputError(f"hyperparameter {self.name!r} is always active: give it a value.")
        if isinstance(value, np.generic):
            # The number that float32 shows: 0.1, not 0.10000000149.
            value = float(str(value)) if isinstance(value, np.float32 | np.float16) else value.item()
        if self.continuous and is_number(value) and self.ends[0] <= value <= self.ends[1]:
            if value == math.floor(value) or not self.whole:
                return float(value)
            raise InputError(f"{self.name} takes whole numbers only, not {value!r}.")
        place = self._place_of.get(key_of(value)) if _is_label(value) else None
        if place is not None:
            return self.numbers[place]
        if self.is_numeric and is_number(value) and abs(value) <= LARGEST_VALUE:
            near = float(self.snapped(np.array([value], dtype=np.float64))[0])
            if near in self.numbers:
                return near
        if isinstance(value, str) and not self.is_numeric:
            raise unknown(f"value of {self.name}", value, self.labels)
        known = f"not one of {_shown(self.values)}"
        if self.continuous:
            known = f"not between {self.ends[0]:g} and {self.ends[1]:g}"
        raise InputError(f"{self.name} is {brief(value)}, which is {known}.")

    def snapped(self, codes: Floats) -> Floats:
        """Numbers of shape (N,). Those that differ from a grid value only by rounding are replaced by it.

        Other programs may have computed a logarithm and its inverse, or have stored numbers as float32.
        """
        grid = np.array(self.numbers)
        above = np.searchsorted(grid, codes).clip(max=len(grid) - 1)
        if ((grid[above] == codes) | np.isnan(codes)).all():
            return codes
        pair = np.stack([grid[np.maximum(above - 1, 0)], grid[above]])
        off = np.abs(pair - codes)
        nearest = np.where(off[0] < off[1], pair[0], pair[1])
        near = off <= ROUNDED * np.abs(pair)
        exact = self.whole & (codes == np.floor(codes)) & (np.abs(codes) < _WHOLE_SINGLE)
        one = near.any(axis=0) & ~(near.all(axis=0) & (pair[0] != pair[1])) & ~exact
        return np.where(one | (off.min(axis=0) <= SAME * np.abs(nearest)), nearest, codes)

    def value(self, code: float) -> Value:
        """The value of a code, with whole numbers as int; None for NaN, which means inactive."""
        if math.isnan(code):
            return None
        if not self.is_numeric:
            return self.values[int(code)]
        return int(code) if self.whole else float(code)

    def column(self, codes: Floats) -> NDArray[Any]:
        """Codes of shape (N,) as values: numbers, or an object array of labels with None where inactive.

        Whole numbers have the type int64, unless some are inactive, which only floats can represent.
        """
        if self.is_numeric:
            whole = self.whole and (np.abs(codes) < _WHOLE).all()  # False if one is NaN
            return codes.astype(np.int64) if whole else codes
        values = np.empty(len(self.values) + 1, dtype=object)
        values[:-1] = self.values
        return values[self.places(codes)]

    def places(self, codes: Floats) -> Ints:
        """The position of each code among the values, shape as codes; one past the last if inactive."""
        if not self.is_numeric:
            return np.where(np.isnan(codes), len(self.values), np.nan_to_num(codes)).astype(np.int64)
        return np.searchsorted(np.array(self.numbers), codes)

    def counted_as(self, codes: Floats) -> Floats:
        """The codes, with the code of the default where inactive."""
        if not np.isnan(codes).any():
            return codes
        default = self.values[0] if self.default is None else self.default
        return np.where(np.isnan(codes), self.code(default), codes)

    def scaled(self, codes: Floats) -> Floats:
        """Codes of numbers or ordered labels mapped to [0, 1], any shape; inactive ones as the default.

        A single value maps to 0.
        """
        codes = self.counted_as(codes)
        low, high = self.ends
        if low == high:
            return np.zeros_like(codes)
        if self.scale == "log":
            return np.log(codes / low) / math.log(high / low)
        return (codes - low) / (high - low)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number, or the first and the last position of labels."""
        return self.numbers[0], self.numbers[-1]

    def features(self, codes: Floats) -> Floats:
        """Codes of shape (N,) as features, shape (N, n_features)."""
        if self.n_features == 1:
            return self.scaled(codes)[:, None]
        return np.asarray((self.counted_as(codes)[:, None] == np.arange(len(self.values))) / math.sqrt(2))


def label(value: Value) -> str:
    """A value as people and CSV files see it: true and false, whole numbers without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"({', '.join(map(label, value))}{',' * (len(value) == 1)})"
    return repr(int(value)) if value == math.floor(value) and abs(value) < _WHOLE else repr(float(value))


def short_label(value: Value) -> str:
    """A value in a message or a chart: numbers with six digits at most."""
    if value is None:
        return "inactive"
    return label(value) if isinstance(value, str | bool | tuple) else f"{value:g}"


def _is_label(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_label, value))
    if is_number(value):
        return abs(value) <= LARGEST_VALUE
    return value is None or isinstance(value, str | bool)


def _plain(value: Any) -> Any:
    """A label as it is read back from a file, in Python's own types; 2.0 becomes 2. Tables' hashes use it."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE else value


def key_of(value: Any) -> tuple[bool, Any]:
    """A value as a key that distinguishes True from 1, which Python takes for the same key."""
    parts = tuple(map(key_of, value)) if isinstance(value, tuple) else value
    return isinstance(value, bool | np.bool_), parts


def _are_conditions(active_if: object) -> bool:
    """Whether active_if is a tuple or list of pairs, each a name and a tuple or list of values."""
    return isinstance(active_if, tuple | list) and all(
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], tuple | list)
        for pair in active_if
    )


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number and not a boolean."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _shown(values: Sequence[Value]) -> str:
    """Values in a message, some of them if there are many."""
    shown = ", ".join(brief(v, 60) for v in values[:_MOST_SHOWN])
    return f"[{shown}]{'…' * (len(values) > _MOST_SHOWN)}"
