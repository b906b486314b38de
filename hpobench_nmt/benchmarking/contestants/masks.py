"""A problem under a mask, for a program that may remember the table: other values, and rows in another order.

Numbers and losses keep their order, and labels are renamed. Methods that use only orders, such as TPE, choose
about as well as without a mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows, frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter, Scale, Value
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Space


@dataclass(frozen=True, eq=False)
class Mask:
    """A drawn mask.

    Attributes:
        problem: the problem with masked values.
        rows: the row of the real problem that each of its rows is, shape (N,).
        powers, factors: a loss or violation x becomes sign(x) |x|^power times factor, shape (m + c,).
    """

    problem: Problem
    rows: Rows
    powers: Floats
    factors: Floats

    def losses(self, losses: Floats) -> Floats:
        """Losses under the mask, shape (m,)."""
        return self._moved(losses, slice(None, len(losses)))

    def violations(self, violations: Floats) -> Floats:
        """Violations of constraints under the mask, shape (c,)."""
        return self._moved(violations, slice(-len(violations), None))

    def _moved(self, values: Floats, columns: slice) -> Floats:
        return np.asarray(np.sign(values) * np.abs(values) ** self.powers[columns] * self.factors[columns])


def unmasked(problem: Problem) -> Mask:
    """The problem as it is."""
    ones = np.ones(problem.n_objectives + len(problem.constraints))
    return Mask(problem, np.arange(len(problem.configs)), ones, ones)


def masked(problem: Problem, rng: np.random.Generator) -> Mask:
    """The problem under a mask that is drawn.

    A number at u between the ends of its axis, 0 and 1 on the axis's scale, becomes u^a, with log2(a) between
    -1 and 1. The power of a loss is between 1/3 and 1, and its factor between 1/20 and 20.
    """
    drawn = {h.name: _drawn(h, rng) for h in problem.space}

    def moved(name: str, value: Value) -> Value:
        axis, new = drawn[name]
        return axis.value(new[problem.space[name].code(value)])

    axes = [
        replace(
            drawn[h.name][0],
            active_if=tuple((of, tuple(moved(of, value) for value in values)) for of, values in h.active_if),
            default=None if h.default is None else moved(h.name, h.default),
        )
        for h in problem.space
    ]
    codes = [
        [np.nan if np.isnan(code) else drawn[h.name][1][code] for code in column]
        for h, column in zip(problem.space, problem.configs.T.tolist(), strict=True)
    ]
    rows, count = rng.permutation(len(problem.configs)), problem.n_objectives + len(problem.constraints)
    shown = replace(problem, space=Space(tuple(axes)), configs=frozen(np.array(codes).T))
    shown = shown.of_rows(rows, problem.resources, problem.lookups, problem.time)
    return Mask(shown, rows, rng.uniform(1 / 3, 1, count), 20 ** rng.uniform(-1, 1, count))


def _drawn(h: Hyperparameter, rng: np.random.Generator) -> tuple[Hyperparameter, dict[float, float]]:
    """An axis with other values, without its conditions, and the new code of each code."""
    codes = np.array(h.numbers)
    if h.is_numeric:
        new = h.scaled(codes) ** 2 ** rng.uniform(-1, 1)
        values: tuple[Value, ...] = tuple(new.tolist())
    else:
        new = codes if h.kind == "ordinal" else rng.permutation(len(codes)).astype(float)
        values = tuple(f"v{place + 1}" for place in range(len(codes)))
    scale: Scale = "linear" if h.is_numeric else h.scale
    integer = False if h.is_numeric else h.integer
    axis = replace(h, values=values, scale=scale, unit="", integer=integer, active_if=(), default=None)
    return axis, dict(zip(codes.tolist(), new.tolist(), strict=True))
