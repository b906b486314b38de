"""What the cells of a hyperparameter are (numbers on a scale, or labels), and where it is inactive."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.hyperparameter import Kind, Scale, Value, key_of, label
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.text import counted, number_of, short, shows_number
from hpobench_nmt.lookup.disk.rows import EMPTY
from hpobench_nmt.lookup.imports.cells import are_dates, distinct_of, objects, text_of
from hpobench_nmt.lookup.imports.sweep import STATED, About, Column

# If a column with more distinct values mixes numbers and texts, it is a column of numbers with a typo.
_MOST_MIXED = 20
_LONGEST = 200
# Numbers may be on a log scale, whatever lies between them, if the largest is this many times the smallest.
_WIDE = 10.0
# Values form a geometric grid if their ratios differ by less than this share.
_EVEN = 0.05
_WORDS = {"None": None, "True": True, "False": False}
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


def axis_of(name: str, column: Column, about: About, typed: bool, where: Callable[[int], str]) -> Axis:
    """The axis of a column.

    Args:
        name, column, about: a column that is a hyperparameter.
        typed: whether the source has types, so that a text is a text, whatever it looks like.
        where: returns the file and the line of a row, for messages.

    Raises Left if the column is not a hyperparameter, and InputError if a text among numbers is not a label,
    or two texts are one number.
    """
    distinct, places = distinct_of(column)
    if not typed and column.dtype == object:
        distinct = _parsed(distinct, name, lambda place: where(int(np.argmax(places == place))))
    read = [_value(each, typed) for each in distinct]
    there = [value for value in read if value != ""]
    numbers = [value for value in there if isinstance(value, float)]
    words = [value for value in there if not isinstance(value, float) and value is not None]
    if not there:
        raise Left("empty")
    if len(set(map(repr, there))) == 1 and len(there) == len(read):
        raise Left(f"always {text_of(there[0])[:40]}")
    if any(map(math.isinf, numbers)):
        raise Left("infinite values")
    if len(numbers) == len(there) or (not words and len(numbers) > _MOST_MIXED):  # None among many numbers
        cells = np.array([value if isinstance(value, float) else math.nan for value in read])[places]
        return _numeric(cells, about)
    odd = next((text for text in words if not (isinstance(text, str) and shows_number(text))), None)
    if numbers and len(there) > _MOST_MIXED and odd is not None:
        row = int(np.argmax(places == read.index(odd)))
        raise InputError(
            f"{where(row)}: {shortened(name)} is {shortened(str(odd))}, but its other cells are numbers. "
            f"Correct it, or leave the column out: --ignore {shlex.quote(name)}."
        )
    if not numbers and are_dates(column):
        raise Left("dates")
    there = sorted({key_of(value): value for value in there}.values(), key=_order)
    if len(set(map(text_of, there))) < len(there):
        raise InputError(
            f"{where(0)}: {shortened(name)} has a text and another value that look alike, such as '16' and "
            f"16. Rename one of them, or leave the column out: --ignore {shlex.quote(name)}."
        )
    texts = [value for value in words if isinstance(value, str)]
    many = about.why != STATED and len(there) > max(_MOST_MIXED, len(column) // 2)
    if texts and (many or max(map(len, texts)) > _LONGEST):
        raise Left(f"{len(there):,} different texts")
    cells = np.array([text_of(value) if value != "" else "" for value in read], dtype=object)[places]
    return Axis(cells, "categorical", values=tuple(there), why=f"labels {_shown(there)}")


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(text_of(value)[:20] for value in values[:4]) + (", …" if len(values) > 4 else "")


def _parsed(distinct: list[Any], name: str, where: Callable[[int], str]) -> list[Any]:
    """The cells as numbers, if all are texts of numbers or empty; else unchanged.

    Raises InputError if two different texts are one number. `where` returns the place of a distinct cell.
    """
    if not all(cell in EMPTY or (isinstance(cell, str) and shows_number(cell)) for cell in distinct):
        return distinct
    first: dict[float, str] = {}
    for place, text in enumerate(distinct):
        if text not in EMPTY and (other := first.setdefault(number_of(text), text)) != text:
            raise InputError(
                f"{where(place)}: {shortened(name)} has {other!r} and {text!r}, which are one number but two "
                f"texts. Write them alike if they are one value, or as labels such as 'v{text}' if not."
            )
    return [cell if cell in EMPTY else number_of(cell) for cell in distinct]


def _value(cell: Any, typed: bool) -> Any:
    """A cell as a double, a boolean, None, a tuple or a text; "" for no value.

    Without types, a text is a number or a boolean only if it is written as Python writes it, so that no two
    texts become one value. Raises Left if a label cannot be made of it.
    """
    if isinstance(cell, bool) or cell is None:
        return cell
    if isinstance(cell, float):
        return cell if cell == cell else ""
    if isinstance(cell, int | tuple):
        try:
            label(cell)
            exact = isinstance(cell, tuple) or int(float(cell)) == cell
        except (OverflowError, ValueError):
            exact = False
        if not exact:
            raise Left("numbers that are too large, or not finite in a list")
        return cell if isinstance(cell, tuple) else float(cell)
    if typed or cell in EMPTY:
        return "" if cell in EMPTY else cell
    if cell in _WORDS:
        return _WORDS[cell]
    number = number_of(cell) if shows_number(cell) else math.nan
    return number if math.isfinite(number) and cell == label(number) else cell


def _order(value: Any) -> tuple[int, Any]:
    """The order of values: None, booleans, numbers, then labels by their texts."""
    kind = next((k for k, each in enumerate((type(None), bool, float)) if isinstance(value, each)), 3)
    return kind, kind and (value if kind < 3 else label(value))


def _numeric(cells: Floats, about: About) -> Axis:
    values = np.unique(cells[~np.isnan(cells)])
    ends = f"{short(values[0])} to {short(values[-1])}, {counted(len(values), 'value')}"
    if about.scale is not None and not (about.scale == "log" and values[0] <= 0):
        scale, why = about.scale, f"; {STATED}" if about.why == STATED else "; the study's own scale"
    else:
        scale, why = scale_of(values)
    return Axis(cells, "numeric", scale, why=f"{'log scale, ' * (scale == 'log')}{ends}{why}")


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


def with_conditions(axes: Mapping[str, Axis], sound: Bools) -> dict[str, Axis]:
    """The axes, with conditions on other axes that explain missing values. O(H^2 N) per level of nesting.

    Only the sound rows count: a training that failed early may lack values, which explains nothing.
    """
    found = dict(axes)
    for _ in axes:  # a parent may have a parent
        before = dict(found)
        for name, axis in before.items():
            if axis.active_if or not axis.holes[sound].any():
                continue
            for parent, other in before.items():
                known = other.active_if or not other.holes[sound].any()
                if known and name not in other.active_if and (values := _explains(other, axis.holes, sound)):
                    found[name] = replace(axis, active_if={parent: values})
                    break
        if found == before:
            break
    return found


def _explains(parent: Axis, holes: Bools, sound: Bools) -> list[Value] | None:
    """The parent's values with which an axis always has a value, if with all others it never has one.

    `holes` is true where the axis has no value. The result is None if the parent does not explain the holes.
    """
    there = sound & ~parent.holes
    codes, places = np.unique(parent.cells[there], return_inverse=True)
    empty, full = (np.bincount(places, mask[there], len(codes)) > 0 for mask in (holes, ~holes))
    many = len(codes) > _MOST_OF_PARENT or 2 * len(codes) > sound.sum()
    if many or (sound & ~holes & parent.holes).any() or (empty & full).any() or not empty.any():
        return None
    values = parent.values or tuple(codes.tolist())
    return [value for value in values if (label(value) if parent.values else value) in codes[full]]


def none_for_holes(axis: Axis) -> Axis | None:
    """The axis with the label None where it has no value; None if it is numeric and has many values."""
    values, cells = axis.values, axis.cells
    if axis.kind == "numeric":
        values = tuple(np.unique(cells[~axis.holes]).tolist())
        if len(values) > _MOST_OF_PARENT:
            return None
        cells = objects([label(cell) if cell == cell else "" for cell in cells.tolist()])
    values = values if None in values else (None, *values)
    return Axis(
        np.where(axis.holes, "None", cells), "categorical", values=values,
        why=f"labels {_shown(values)}; an empty cell counts as None",
    )  # fmt: skip
