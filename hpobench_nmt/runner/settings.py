"""A setting of a model family or a corpus: its type, default, range, and what it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.space import Scale, Value


@dataclass(frozen=True)
class Setting:
    """A setting of a family or corpus, which a spec may fix or put on its grid.

    Attributes:
        name: its key in a spec.
        default: its value if a spec does not set it; None if a spec must set it. The default of a setting
            that is new does what was done before, because a ledger that does not know it counts as having it.
        kind: int, float, str or bool. A float setting takes whole numbers too.
        low, high: the range of a number, ends included.
        choices: the texts that are allowed.
        scale: the scale of a grid of it, unless the spec names another.
        on_grid: whether it may be on a grid.
        unit: for people.
        description: one line for people.
    """

    name: str
    default: Value | None
    kind: type[int] | type[float] | type[str] | type[bool]
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    scale: Scale = "linear"
    unit: str = ""
    description: str = ""
    on_grid: bool = True

    def check(self, value: Any, where: str) -> Value:
        """The value in the setting's own type.

        Raises:
            InputError: a wrong type, a number out of range, an unknown choice.
        """
        wrong = InputError(f"{where}: {self.name} must be {_NAMES[self.kind]}, not {_shown(value)}.")
        if self.kind in (str, bool):
            if not isinstance(value, self.kind):
                raise wrong
            if self.choices and value not in self.choices:
                raise unknown(self.name, str(value), self.choices, f"({where})")
            return value
        # bool is an int to Python, not to a reader of a spec.
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise wrong
        if self.kind is int and value != int(value):
            raise wrong
        if not self.low <= value <= self.high:
            raise InputError(
                f"{where}: {self.name} is {_shown(value)}, but goes from {self.low:g} to {self.high:g}."
            )
        return int(value) if self.kind is int else float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _shown(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


_LONGEST_SHOWN = 60
_NAMES: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
