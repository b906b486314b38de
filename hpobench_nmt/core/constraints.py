"""Constraints on metrics, such as "dev_gpu_time<=60", and how methods learn of violations.

    violation   by how much a metric misses its bound: above 0 if it misses it, below 0 if there is room,
                0 at the bound, NaN if the metric is missing
    feasible    no violation is above 0 or NaN

A method that handles constraints has `tell_constrained(row, losses, violations)`. It is called instead of
`tell`, with unchanged losses, so that a violation is never taken for a failed training. A method that has
only `tell` gets losses that make a violating row unattractive: in each objective, the worst loss of all
feasible rows so far. If no feasible row is known yet, it gets NaN, as for a failed training. So it looks for
feasible rows without knowing how far away they are.

On a clock, this applies whenever a training has reached the requested resource. Constraints are on properties
such as decoding time, memory or the number of parameters, so a row of a table has the same violations at all
of its checkpoints. A method with `observe` gets NaN for all losses of a violating row, so that it does not
train the row further. A live training run measures most properties at its end. Until then, the violation is 0
(runner/tuning/live_trainer.py).

On any clock, scores, exact values and figures count only feasible rows. Trajectories record all losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, frozen
from hpobench_nmt.core.objectives import Values
from hpobench_nmt.core.problem import Progress
from hpobench_nmt.core.system.errors import InputError, as_list, shortened
from hpobench_nmt.core.system.text import brief, number_of

Violations = Callable[[int], Floats]
"""The violations of a row, shape (c,)."""


@dataclass(frozen=True)
class Constraint:
    """A bound of a metric, in its unit: with "<=" the largest feasible value, with ">=" the smallest."""

    metric: str
    relation: Literal["<=", ">="]
    bound: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """The constraint of a text such as "dev_gpu_time<=60" or "bleu >= 20"; InputError for other forms."""
        if not isinstance(text, str):
            raise InputError(f"constraint {brief(text)}: write it as a text, such as 'size<=60'.")
        for relation in ("<=", ">="):
            metric, found, number = text.partition(relation)
            if found and metric.strip():
                try:
                    bound = number_of(number)
                except ValueError:
                    break
                if math.isfinite(bound):
                    return cls(metric.strip(), relation, bound)
        raise InputError(
            f"constraint {shortened(text)}: write METRIC<=NUMBER or METRIC>=NUMBER, "
            "such as 'dev_gpu_time<=60'."
        )

    def violations(self, values: Values) -> Values:
        """By how much values of the metric, a number or any shape, miss the bound; NaN if missing."""
        return values - self.bound if self.relation == "<=" else self.bound - values

    def missed_by(self, metrics: Mapping[str, float]) -> float:
        """By how much a row misses the bound, from its metrics by name; NaN if the metric is missing."""
        return self.violations(metrics.get(self.metric, math.nan))

    def __str__(self) -> str:
        return f"{self.metric}{self.relation}{self.bound!r}".removesuffix(".0")


def parse_constraints(texts: Sequence[str], where: str) -> list[Constraint]:
    """The constraints of texts; InputError if one is invalid or two bound a metric on the same side."""
    parsed = [Constraint.parse(text) for text in as_list(where, texts)]
    if len({(each.metric, each.relation) for each in parsed}) < len(parsed):
        raise InputError(f"{where}: two bounds of one kind on the same metric.")
    return parsed


def is_feasible(violations: Floats) -> Bools:
    """Whether all violations of a row are at most 0, shape (N,), from violations of shape (N, c)."""
    return np.asarray((violations <= 0).all(axis=1))


def teller(method: Any, tell: Callable[[int, Floats], Any], violations: Violations) -> Callable[..., Any]:
    """The function that replaces a method's `tell` under constraints. It takes (row, losses)."""
    constrained = getattr(method, "tell_constrained", None)
    if callable(constrained):
        return lambda row, losses: constrained(row, losses, violations(row).copy())
    worst: Floats | None = None

    def told(row: int, losses: Floats) -> Any:
        nonlocal worst
        if not (violations(row) <= 0).all():  # also where one is NaN
            losses = losses * np.nan if worst is None else np.where(np.isnan(losses), np.nan, worst)
        elif not np.isnan(losses).any():
            worst = losses.copy() if worst is None else np.maximum(worst, losses)
        return tell(row, losses)

    return told


def observer(observe: Callable[[Progress], Any], violations: Violations) -> Callable[[Progress], Any]:
    """The function that replaces a method's `observe` under constraints."""

    def observed(progress: Progress) -> Any:
        if not (violations(progress.row) <= 0).all():  # also where one is NaN
            losses, best = (np.full_like(array, np.nan) for array in (progress.losses, progress.best))
            progress = progress._replace(losses=frozen(losses), best=frozen(best))
        return observe(progress)

    return observed
