"""The search space: named hyperparameters, each with a grid of values and a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import check_column
from hpobench_nmt.core.objectives import LARGEST_VALUE

Floats = NDArray[np.float64]
Scale = Literal["linear", "log"]


@dataclass(frozen=True)
class Hyperparameter:
    """One axis of the search space.

    Attributes:
        name: the column it has in a table.
        values: the grid, ascending, in raw units. Its ends map to 0 and 1.
        scale: whether steps or ratios between values matter.
        unit: for people.
    """

    name: str
    values: tuple[float, ...]
    scale: Scale = "linear"
    unit: str = ""

    def __post_init__(self) -> None:
        """Refuse a grid that cannot be scaled."""
        check_column("hyperparameter", self.name, self.unit)
        where = f"hyperparameter {self.name!r}"
        if not self.values:
            raise InputError(f"{where} has no values.")
        shown = f"{list(self.values[:10])}{'…' if len(self.values) > 10 else ''}"
        if not all(math.isfinite(v) for v in self.values):
            raise InputError(f"{where} has a value that is not finite: {shown}.")
        if max(abs(v) for v in self.values) > LARGEST_VALUE:
            raise InputError(f"{where} has a value beyond {LARGEST_VALUE:g}.")
        if any(b <= a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise InputError(f"{where}: values must be ascending and distinct, not {shown}.")
        if self.scale not in ("linear", "log"):
            raise InputError(f"{where}: scale must be 'linear' or 'log', not {self.scale!r}.")
        if self.scale == "log" and self.values[0] <= 0:
            raise InputError(f"{where}: a log scale needs positive values, not {self.values[0]:g}.")
        if self.scale == "log" and self.values[0] < 1 / LARGEST_VALUE:
            raise InputError(f"{where}: a log scale needs values of {1 / LARGEST_VALUE:g} or more.")

    def scaled(self, raw: Floats) -> Floats:
        """Raw values mapped to [0, 1], any shape. A hyperparameter with one value maps to 0."""
        low, high = self.values[0], self.values[-1]
        if low == high:
            return np.zeros_like(raw)
        if self.scale == "log":
            return np.log(raw / low) / math.log(high / low)
        return (raw - low) / (high - low)


def scaled_features(axes: Sequence[Hyperparameter], configs: Floats) -> Floats:
    """Configurations scaled to [0, 1], one column per hyperparameter, shape (N, H)."""
    return np.column_stack([axis.scaled(configs[:, j]) for j, axis in enumerate(axes)])
