"""What methods that train rows part of the way share: the levels of training, and the rows that are left.

Levels are r, r eta, r eta^2, ... for the smallest resource r above 0, as long as they are below the largest
resource; the last level is the end of a training. A row is at a level once its training has reached a
checkpoint at that resource or above, or ended on the way there. Its loss is that of its best checkpoint so
far, and infinite without one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.methods.sampler import Sampler

Standing = tuple[float, int, int]
"""Loss, number in the order of arrival, row: what rows at a level are ordered by."""


def training_levels(problem: Problem, eta: float) -> list[float]:
    """The levels, ascending, the last one infinite; InputError unless eta is above 1, so that they ascend."""
    if not eta > 1:
        raise InputError(f"eta must be above 1, not {eta:g}.")
    # A checkpoint before the first update may be at resource 0, which no factor leads on from.
    trained = problem.resources[problem.resources > 0]
    least, most = (float(trained[0]), float(trained[-1])) if len(trained) else (math.inf, math.inf)
    found = []
    while least < most:
        found.append(least)
        least *= eta
    return [*found, math.inf]


def losses_at(progress: Progress, levels: Sequence[float]) -> list[float]:
    """The row's loss at each of these levels, as far as its training has come. O(k) for k checkpoints."""
    best = np.fmin.accumulate(progress.losses[:, 0])
    places = np.minimum(progress.resources.searchsorted(np.array(levels)), len(best) - 1)
    return [math.inf if math.isnan(loss) else loss for loss in best[places].tolist()]


class Field:
    """The rows of a trial: which are new, and how far the others are.

    Attributes:
        levels: see training_levels.
        at: the number of levels reached, by row that was observed; all of them once its training has ended.
        loss: of each of these rows.
        done: rows whose training has ended.
        sampler: what chooses new rows; None: they are random.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: float) -> None:
        self.levels = training_levels(problem, eta)
        self.at: dict[int, int] = {}
        self.loss: dict[int, float] = {}
        self.done: set[int] = set()
        self.sampler: Sampler | None = None
        self._n_rows = len(problem.features)
        self._order = rng.permutation(len(problem.features)).tolist()
        self._most = min(problem.lookups, len(problem.features))
        self._arrivals = 0
        self._stopped: list[tuple[int, float, int, int]] = []

    def may_begin(self, running: Mapping[int, float]) -> bool:
        """Whether the budget has a row left that was not begun."""
        return len(self.at) + sum(row not in self.at for row in running) < self._most

    def new_row(self, running: Mapping[int, float], level: int = 0) -> int | None:
        """A row that was not begun, to begin at a level; None if there is none or the budget is spent."""
        if not self.may_begin(running):
            return None
        if self.sampler is not None:
            free = np.ones(self._n_rows, dtype=bool)
            free[[*self.at, *running]] = False
            chosen = self.sampler.choose(free, level)
            if chosen is not None:
                return chosen
        while self._order[-1] in running or self._order[-1] in self.at:
            self._order.pop()
        return int(self._order[-1])

    def note(self, progress: Progress) -> range:
        """Take in what was observed; the numbers of the levels that the row has come to, from 0."""
        row, loss = progress.row, float(progress.best[0])
        before = self.at.get(row, 0)
        now = bisect_right(self.levels, float(progress.resources[-1]))
        self.loss[row] = math.inf if math.isnan(loss) else loss
        self._arrivals += 1
        if progress.done:
            self.done.add(row)
            self.at[row] = len(self.levels)
            now = max(now, before + 1)
        else:
            self.at[row] = now
            heappush(self._stopped, (-now, self.loss[row], self._arrivals, row))
        if self.sampler is not None:
            levels = range(before, self.at[row])
            losses = losses_at(progress, self.levels[before : self.at[row]])
            for level, known in zip(levels, losses, strict=True):
                self.sampler.learn(row, level, known)
        return range(before, now)

    def standing(self, row: int) -> Standing:
        """What the row is ordered by, if it is the latest that was observed."""
        return self.loss[row], self._arrivals, row

    def further(self, row: int) -> Request:
        """The row up to its next level."""
        return Request(row, self.levels[self.at[row]])

    def begin(self, running: Mapping[int, float]) -> Request | None:
        """A new row up to the first level; one that is left over where none may begin."""
        new = self.new_row(running)
        return self.left_over(running) if new is None else Request(new, self.levels[0])

    def left_over(self, running: Mapping[int, float]) -> Request | None:
        """Of the trainings that have not ended and do not run, the one that is furthest, then the best."""
        while self._stopped:
            level, _, _, row = self._stopped[0]
            if row not in running and row not in self.done and self.at[row] == -level:
                return self.further(row)
            heappop(self._stopped)
        return None


class StoppingRule(ABC):
    """Trains each row on until a rule stops it, and then begins a new one."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: float) -> None:
        self._field = Field(problem, rng, eta)
        self._going: dict[int, float] = {}  # the resource up to which rows continue, in the order of arrival

    @abstractmethod
    def _next_stop(self, progress: Progress) -> float | None:
        """The resource up to which a training continues; None to stop it."""

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """A training that continues; else a new row."""
        for row, resource in self._going.items():
            if row not in running:
                return Request(row, resource)
        return self._field.begin(running)

    def observe(self, progress: Progress) -> None:
        """Decide whether the training continues."""
        self._going.pop(progress.row, None)
        resource = self._next_stop(progress)
        if resource is not None:
            self._going[progress.row] = resource


class Level:
    """The rows that have come to a level, in the order of their losses."""

    def __init__(self) -> None:
        self._all: list[Standing] = []
        self._waiting: list[Standing] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, standing: Standing) -> None:
        """A row has come to this level. O(log n) comparisons."""
        insort(self._all, standing)
        heappush(self._waiting, standing)

    def holds(self, loss: float, count: int) -> bool:
        """Whether a loss is as good as that of the count-th best row."""
        return loss <= self._all[count - 1][0]

    def first_waiting(self, count: int) -> int | None:
        """The best row that still waits to be promoted, if it is among the `count` best of all."""
        if not self._waiting or count < 1 or self._waiting[0] > self._all[count - 1]:
            return None
        return self._waiting[0][2]

    def drop_first(self) -> None:
        """The best row that waits does so no more."""
        heappop(self._waiting)
