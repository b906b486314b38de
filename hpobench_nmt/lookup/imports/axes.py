"""What the cells of a hyperparameter are (numbers on a scale, or labels), and where it is inactive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.hyperparameter import Kind, Scale, Value, key_of, label
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.text import counted, number_of, short, shows_number
from hpobench_nmt.lookup.disk.rows import EMPTY
from hpobench_nmt.lookup.imports.cells import are_dates, distinct_of, text_of
from hpobench_nmt.lookup.imports.sweep import Column

# If a column with more distinct values mixes numbers and texts, it is a column of numbers with a typo.
_MOST_MIXED = 20
# A column of distinct texts with more rows than this names the trainings.
_MOST_NAMES = 10
# Numbers may be on a log scale, whatever lies between them, if the largest is this many times the smallest.
_WIDE = 10.0
# Values form a geometric grid if their ratios differ by less than this share.
_EVEN = 0.05
# A parent with more distinct values could explain anything.
_MOST_OF_PARENT = 8


@dataclass(frozen=True, eq=False)
class Axis:
    """A hyperparameter's cells, shape (N,), and what they are.

    Attributes:
        cells: doubles, NaN where there is no value; or, for labels, texts, "" where there is no value.
        kind, scale, values: as in a datasheet; only labels have values.
        active_if: where it is active, as in a datasheet.
        why: the reasons, for display.
    """

    cells: Column
    kind: Kind
    scale: Scale = "linear"
    values: tuple[Value, ...] = ()
    active_if: dict[str, list[Value]] = field(default_factory=dict)
    why: str = ""

    @property
    def holes(self) -> Bools:
        """Where there is no value, shape (N,)."""
        return np.isnan(self.cells) if self.cells.dtype != object else self.cells == ""


class Left(Exception):
    """Raised if a column is not a hyperparameter; its text is the reason."""


def axis_of(
    name: str, column: Column, scale: Scale | None, where: str, line: Any, told: bool, typed: bool = False
) -> Axis:
    """The axis of a column. `told`: whether the source or the user states that it is a hyperparameter.

    `typed`: whether the source has types, so that a text is a text, whatever it looks like.

    Raises Left if the column is not a hyperparameter, and InputError if a text among numbers is not a label.
    """
    if column.dtype != object:
        if np.isnan(column).all():
            raise Left("empty")
        first = column[0]
        if (column == first).all():
            raise Left(f"always {text_of(float(first))}")
        return _numeric(column, scale, told)
    distinct, places = distinct_of(column)
    if not typed:
        distinct = _parsed(distinct, name, where)
    read = [_typed(value, typed) for value in distinct]
    there = [value for value in read if value != ""]
    if not there:
        raise Left("empty")
    numbers = [value for value in there if isinstance(value, float)]
    if len(set(map(repr, there))) == 1 and len(there) == len(read):
        raise Left(f"always {text_of(there[0])[:40]}")
    if len(numbers) == len(there):
        cells = np.array([math.nan if value == "" else value for value in read], dtype=np.float64)[places]
        return _numeric(cells, scale, told)
    words = [value for value in there if not isinstance(value, float) and value is not None]
    if numbers and len(there) > _MOST_MIXED and not all(map(_is_number, words)):
        bad = next(
            place
            for place, value in enumerate(read)
            if not isinstance(value, float) and value not in ("", None) and not _is_number(value)
        )
        row = int(np.flatnonzero(places == bad)[0])
        raise InputError(
            f"{where}, {line(row)}: {shortened(name)} is {shortened(str(read[bad]))}, but its other cells "
            f"are numbers. Correct it, or leave the column out: --ignore {name}."
        )
    if numbers and not words and len(numbers) > _MOST_MIXED:  # None among many numbers
        cells = np.array([value if isinstance(value, float) else math.nan for value in read])[places]
        return _numeric(cells, scale, told)
    if not numbers and are_dates(column):
        raise Left("dates")
    if any(map(math.isinf, numbers)):
        raise Left("infinite values")
    there = sorted({key_of(value): value for value in there}.values(), key=_order)
    if len(set(map(text_of, there))) < len(there):
        raise InputError(
            f"{where}: {shortened(name)} has a text and another value that look alike, such as '16' and 16. "
            f"Rename one of them, or leave the column out: --ignore {name}."
        )
    texts = [value for value in words if isinstance(value, str)]
    if texts and len(there) == len(column) > _MOST_NAMES:
        raise Left("another text in every row: it names them")
    if texts and (len(there) > max(_MOST_MIXED, len(column) // 2) or any(len(text) > 200 for text in texts)):
        raise Left(f"{len(there):,} different texts")
    cells = np.array([text_of(value) if value != "" else "" for value in read], dtype=object)[places]
    return Axis(cells, "categorical", values=tuple(there), why=_shown(there))


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(text_of(value)[:20] for value in values[:4]) + (", …" if len(values) > 4 else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and shows_number(value)


def _parsed(distinct: list[Any], name: str, where: str) -> list[Any]:
    """The cells as numbers, if all are texts of numbers or empty; else unchanged.

    Raises InputError if two different texts are one number.
    """
    texts = [cell for cell in distinct if cell not in EMPTY]
    if not all(isinstance(text, str) and shows_number(text) for text in texts):
        return distinct
    first: dict[float, str] = {}
    for text in texts:
        if (other := first.setdefault(number_of(text), text)) != text:
            raise InputError(
                f"{where}: {shortened(name)} has {other!r} and {text!r}, which are one number but two texts. "
                f"Write them alike if they are one value, or as labels such as 'v{text}' if they are two."
            )
    return [cell if cell in EMPTY else number_of(cell) for cell in distinct]


def _typed(value: Any, typed: bool) -> Any:
    """A cell as a number, a boolean, None, a tuple or a text; "" for no value.

    Without types, a text is a number or a boolean only if it is written as Python writes it, so that no two
    texts become one value.
    """
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | tuple):
        return _finite(value)
    text = str(value)
    if text in EMPTY or typed:
        return "" if text in EMPTY else text
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    try:
        number = number_of(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and text == label(number) else text


def _finite(value: Any) -> Any:
    """A number as a double, "" for NaN, or a tuple. Raises Left if a label cannot be made of it."""
    try:
        if not isinstance(value, tuple):
            return float(value) if value == value else ""
        label(value)
        return value
    except (OverflowError, ValueError):  # a whole number of more than 308 digits, or NaN in a list
        raise Left("numbers that are too large, or not finite in a list") from None


def _order(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (2, value) if isinstance(value, float) else (3, label(value))


def _numeric(cells: Floats, scale: Scale | None, told: bool) -> Axis:
    if np.isinf(cells).any():
        raise Left("infinite values")
    values = np.unique(cells[~np.isnan(cells)])
    if not told and len(values) == len(cells) > _MOST_NAMES and _counts(cells):
        raise Left("it counts the rows")
    ends = f"{short(values[0])} to {short(values[-1])}, {counted(len(values), 'value')}"
    if scale is not None and not (scale == "log" and values[0] <= 0):
        return Axis(cells, "numeric", scale, why=f"{ends}; the study's own scale")
    found, why = scale_of(values)
    return Axis(cells, "numeric", found, why=f"{ends}{why}")


def _counts(cells: Floats) -> bool:
    return bool((np.diff(cells) == 1).all()) and cells[0] in (0, 1)


def scale_of(values: Floats) -> tuple[Scale, str]:
    """The scale of ascending numbers, and the reason for it.

    Positive numbers are on a log scale if their ratios are equal. They are also on a log scale if the largest
    is at least ten times the smallest, and their logarithms are spread more evenly than the numbers, by
    Kolmogorov's distance from a uniform distribution. With two numbers, the factor of ten decides alone.
    """
    if len(values) < 2 or values[0] <= 0:
        return "linear", ""
    logs, wide = np.log(values), values[-1] >= _WIDE * values[0]  # a quotient of tiny values overflows
    if len(values) == 2:
        return ("log", "; far apart") if wide else ("linear", "")
    ratios, steps = np.diff(logs), np.diff(values)
    if ratios.std() < _EVEN * ratios.mean() and steps.std() > _EVEN * steps.mean():
        return "log", "; equal ratios"
    if wide and _unevenness(logs) < _unevenness(values):
        return "log", "; their logarithms are spread more evenly"
    return "linear", ""


def _unevenness(values: Floats) -> float:
    scaled = (values - values[0]) / (values[-1] - values[0])
    return float(np.abs(scaled - np.arange(len(values)) / (len(values) - 1)).max())


def with_conditions(axes: Mapping[str, Axis]) -> dict[str, Axis]:
    """The axes, with conditions on other axes that explain missing values. O(H^2 N) per level of nesting."""
    found = dict(axes)
    for _ in axes:  # a parent may have a parent
        before = dict(found)
        for name, axis in found.items():
            if axis.active_if or not axis.holes.any():
                continue
            for parent, other in found.items():
                values = (
                    _explains(other, axis.holes) if parent != name and name not in other.active_if else None
                )
                if values is not None and (other.active_if or not other.holes.any()):
                    found[name] = replace(axis, active_if={parent: values})
                    break
        if found == before:
            break
    return found


def _explains(parent: Axis, holes: Bools) -> list[Value] | None:
    """The parent's values with which an axis always has a value, if with all others it never has one.

    `holes` is true where the axis has no value. The result is None if the parent does not explain the holes.
    """
    codes, places = np.unique(parent.cells[~parent.holes], return_inverse=True)
    if (~holes & parent.holes).any() or len(codes) > _MOST_OF_PARENT or 2 * len(codes) > len(holes):
        return None
    inside = holes[~parent.holes]
    empty, full = (np.bincount(places, mask, len(codes)) > 0 for mask in (inside, ~inside))
    if (empty & full).any() or not empty.any() or not full.any():
        return None
    if parent.kind == "numeric":
        return list(map(float, codes[full]))
    return [value for value in parent.values if label(value) in codes[full]]


def none_for_holes(axis: Axis) -> Axis | None:
    """The axis with the label None where it has no value; None if it is numeric and has many values."""
    if axis.kind == "numeric":
        values = np.unique(axis.cells[~axis.holes])
        if len(values) > _MOST_OF_PARENT:
            return None
        cells = np.array(
            ["None" if hole else label(cell) for cell, hole in zip(axis.cells, axis.holes, strict=True)],
            dtype=object,
        )
        why = f"None, {_shown(values.tolist())}; an empty cell counts as None"
        return Axis(cells, "categorical", values=(None, *values.tolist()), why=why)
    values_there = axis.values if None in axis.values else (None, *axis.values)
    cells = np.where(axis.holes, "None", axis.cells)
    return replace(axis, cells=cells, values=values_there, why=f"{axis.why}; an empty cell counts as None")
