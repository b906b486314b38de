"""Metrics and objectives: the measured quantities, and which direction is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.files import check_column

Direction = Literal["min", "max"]
Values = TypeVar("Values", float, Floats)


LARGEST_VALUE = 1e150
"""No value of a metric or hyperparameter is larger: sums of squares of such values are still finite."""


def measured(values: Floats) -> Floats:
    """Values of metrics or losses, any shape, with NaN instead of values that are infinite or beyond 1e150.

    This is the rule for failed evaluations everywhere: such a value means that a training diverged.
    """
    return np.where(np.abs(values) <= LARGEST_VALUE, values, np.nan)


@dataclass(frozen=True)
class Metric:
    """One measured quantity.

    Attributes:
        name: the name of its column in a table.
        direction: "min" if the smallest value is the best, "max" if the largest is.
        unit: shown to people.
        missing: a value in the file that means "not measured", like an empty cell.
        tolerance: a difference in the metric's unit that does not matter; the default for the score ftc.
        description: what was measured, and how.
    """

    name: str
    direction: Direction
    unit: str = ""
    missing: float | None = None
    tolerance: float | None = None
    description: str = ""

    @property
    def label(self) -> str:
        """The name with its unit, if the unit adds information."""
        return f"{self.name} ({self.unit})" if self.unit not in ("", self.name) else self.name

    def __post_init__(self) -> None:
        """Refuse an invalid direction, tolerance or value for "missing"."""
        check_column("metric", self.name, self.unit)
        if self.direction not in ("min", "max"):
            raise InputError(
                f"metric {self.name!r}: direction must be 'min' or 'max', not {self.direction!r}."
            )
        if self.tolerance is not None and not 0 <= self.tolerance < np.inf:
            raise InputError(f"metric {self.name!r}: tolerance must be 0 or more, not {self.tolerance!r}.")
        if self.missing is not None and not math.isfinite(self.missing):
            raise InputError(f"metric {self.name!r}: missing must be a finite number, not {self.missing!r}.")


def metric_place(metrics: Sequence[Metric], name: str, where: str) -> int:
    """The place of the metric of that name; InputError, which ends with `where`, if there is none."""
    names = [metric.name for metric in metrics]
    check_known("metric", [name], names, where)
    return names.index(name)


@dataclass(frozen=True)
class Objective:
    """The name of a metric to optimise, and its direction: "min" or "max"."""

    metric: str
    direction: Direction

    def __post_init__(self) -> None:
        """Refuse any other direction."""
        if self.direction not in ("min", "max"):
            raise InputError(
                f"objective {self.metric!r}: direction must be 'min' or 'max', not {self.direction!r}."
            )

    def __str__(self) -> str:
        return f"{self.metric}:{self.direction}"

    def to_loss(self, values: Values) -> Values:
        """Raw values as losses to minimise, a number or any shape: negated if the largest is the best."""
        return -values if self.direction == "max" else values

    def to_raw(self, losses: Values) -> Values:
        """Losses as raw values of the metric, a number or any shape: the inverse of `to_loss`."""
        return -losses if self.direction == "max" else losses


Objectives = Sequence[str | Objective]
"""Objectives, each an `Objective`, "metric" with its own direction, or "metric:min" or "metric:max"."""
