"""Successive halving: train many rows for a short time, and continue only with the best of them.

symbol  meaning
eta     one in eta of the rows at a level is promoted to the next level
r       the smallest resource above 0; the levels are r, r eta, r eta^2, ... and the end of a training
K       the number of levels above the first

ASHA (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", Algorithm 2) promotes a row
whenever it is among the best n / eta of the n rows at its level, and otherwise starts a new row. Its stopping
variant continues each row as long as it is among the best n / eta (at least one) of the n rows that have
reached the same level so far, including itself. Successive halving (Jamieson & Talwalkar 2016) and Hyperband
(Li et al. 2018, Algorithm 1) wait for all rows of a level. partial_training.py defines losses and levels.

A row without a loss, because its training failed or it violates a constraint, counts at its level, but is
never promoted.

A table is finite. When no new row may be started, the stopped trainings resume until all have ended. Those at
the highest level come first, and among them the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np

from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.methods.early.partial_training import Field, Level, Ranking, StoppingRule

ETA = 3


class ASHA:
    """Asynchronous successive halving by promotion. O(log n) for each request."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        self._eta = eta
        self._field = Field(problem, rng, eta)
        self._levels: Sequence[Ranking] = [Level() for _ in self._field.levels]
        self._placed: dict[int, int] = {}  # the highest level that each row was added to

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """The best row that can be promoted, from the highest possible level; otherwise a new row."""
        promoted = self._promotion(running)
        if promoted is not None:
            return self._field.further(promoted)
        return self._field.begin(running)

    def observe(self, progress: Progress) -> None:
        """Add the row to the levels that it has newly reached."""
        for number in self._field.note(progress):
            self._place(progress.row, number)

    def _place(self, row: int, number: int) -> None:
        self._levels[number].add(self._field.standing(row))
        self._placed[row] = number

    def _promotion(self, running: Mapping[int, float]) -> int | None:
        number = len(self._levels) - 2
        while number >= 0:
            level = self._levels[number]
            row = level.first_waiting(len(level) // self._eta)
            if row is None:
                number -= 1
            elif row in running or self._placed[row] > number:
                level.drop_first()
            elif row in self._field.done:
                # Its training has ended, so it is promoted to the next level without cost.
                level.drop_first()
                self._place(row, number + 1)
                number = len(self._levels) - 2
            elif math.isinf(self._field.loss[row]):  # then so are all other rows that wait here
                number -= 1
            else:
                return row
        return None


class ASHAStopping(StoppingRule):
    """Asynchronous successive halving by stopping. O(log n) for each request."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        super().__init__(problem, rng, eta)
        self._eta = eta
        self._levels = [Level() for _ in self._field.levels]

    def _next_stop(self, progress: Progress) -> float | None:
        row, field = progress.row, self._field
        goes_on = not progress.done and not np.isnan(progress.best[0])
        for number in field.note(progress):
            level = self._levels[number]
            level.add(field.standing(row))
            goes_on = goes_on and level.holds(field.loss[row], max(len(level) // self._eta, 1))
        return field.further(row).resource if goes_on else None


class Hyperband:
    """Brackets of successive halving that start at different levels, one after the other, in a cycle."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        self._eta = eta
        self._field = Field(problem, rng, eta)
        self._brackets = cycle(self._sizes(len(self._field.levels) - 1, eta))
        self._begin()

    def _begin(self) -> None:
        """Start a bracket: its level, the number of its rows, and the rows that are still in it."""
        self._level, self._size = next(self._brackets)
        self._rows: list[int] = []

    def _sizes(self, top: int, eta: int) -> list[tuple[int, int]]:
        """First level and number of rows of each bracket (Li et al. 2018, Algorithm 1, lines 1 to 3)."""
        return [(top - s, math.ceil((top + 1) / (s + 1) * eta**s)) for s in range(top, -1, -1)]

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """The next row of the bracket, or None while other rows of its level are running."""
        field = self._field
        while True:
            behind = [row for row in self._rows if field.at.get(row, 0) <= self._level]
            for row in behind:
                if row not in running:
                    return Request(row, field.levels[self._level])
            new = field.new_row(running, self._level) if len(self._rows) < self._size else None
            if new is not None:
                self._rows.append(new)
                return Request(new, field.levels[self._level])
            if behind:
                return None
            if self._level + 1 < len(field.levels) and self._rows:
                kept = max(len(self._rows) // self._eta, 1)
                best = sorted(self._rows, key=field.loss.__getitem__)[:kept]
                self._rows = [row for row in best if row in field.done or math.isfinite(field.loss[row])]
                self._size = len(self._rows)
                self._level += 1
            elif field.may_begin(running):
                self._begin()
            else:
                return field.left_over(running)

    def observe(self, progress: Progress) -> None:
        """Record how far the row is trained."""
        self._field.note(progress)


class SuccessiveHalving(Hyperband):
    """Brackets of eta^K rows that all start at the first level, one after the other."""

    def _sizes(self, top: int, eta: int) -> list[tuple[int, int]]:
        return [(0, eta**top)]
