"""The common parts of methods that train rows partially: levels of training, and the rows that are left.

Levels are r, r eta, r eta^2, ... for the smallest resource r above 0, as long as they are below the largest
resource. A level that equals a checkpoint's resource up to rounding is that resource. The last level is the
end of a training. A row is at a level once its training has reached a checkpoint at that resource or above,
or ended on the way there. Its loss is that of its best checkpoint so far, and infinite without one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.sampler import Sampler

# A level is the checkpoint from which it differs by no more than this share.
_ROUNDED = 1e-9

Standing = tuple[float, int, int]
"""Loss, arrival number, row: the order of rows at a level."""


def training_levels(problem: Problem, eta: float) -> list[float]:
    """The levels, ascending, the last one infinite; InputError unless eta is above 1."""
    if not eta > 1:
        raise InputError(f"eta must be above 1, not {eta:g}.")
    # A checkpoint before the first update may be at resource 0, and 0 times eta is 0.
    trained = problem.resources[problem.resources > 0]
    least, most = (float(trained[0]), float(trained[-1])) if len(trained) else (math.inf, math.inf)
    found: list[float] = []
    level = least
    while level < most:
        found.append(level)
        level = least * eta ** len(found)
        near = trained[np.abs(trained - level).argmin()]
        if math.isclose(near, level, rel_tol=_ROUNDED):  # 0.1 times 3 is not quite the checkpoint at 0.3
            level = float(near)
    return [*found, math.inf]


def losses_at(progress: Progress, levels: Sequence[float]) -> list[float]:
    """The row's best loss up to each level, or so far at levels ahead. O(k) for k checkpoints."""
    best = np.fmin.accumulate(progress.losses[:, 0])
    places = np.minimum(progress.resources.searchsorted(np.array(levels)), len(best) - 1)
    return [math.inf if math.isnan(loss) else loss for loss in best[places].tolist()]


class Field:
    """The rows of a trial: which rows are new, and how far the other rows are trained.

    Attributes:
        levels: see training_levels.
        at: the number of levels reached, by observed row; the number of all levels once a training has ended.
        loss: the loss of each observed row.
        done: rows whose training has ended.
        sampler: chooses new rows; None if they are random.
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
        """Whether the budget allows another new row."""
        return len(self.at) + sum(row not in self.at for row in running) < self._most

    def new_row(self, running: Mapping[int, float], level: int = 0) -> int | None:
        """A new row, to start at a level; None if no new row is left or the budget is spent."""
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
        """Record the progress; return the numbers, from 0, of the levels that the row has newly reached."""
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
        """The order of the row, which must be the row observed last."""
        return self.loss[row], self._arrivals, row

    def further(self, row: int) -> Request:
        """The row up to its next level."""
        return Request(row, self.levels[self.at[row]])

    def begin(self, running: Mapping[int, float]) -> Request | None:
        """A new row, up to the first level; or a stopped row if no new row may be started."""
        new = self.new_row(running)
        return self.left_over(running) if new is None else Request(new, self.levels[0])

    def left_over(self, running: Mapping[int, float]) -> Request | None:
        """The stopped training at the highest level, the best of several; None if no training is left."""
        while self._stopped:
            level, _, _, row = self._stopped[0]
            if row not in running and row not in self.done and self.at[row] == -level:
                return self.further(row)
            heappop(self._stopped)
        return None


class StoppingRule(ABC):
    """Trains each row until a rule stops it, and then starts a new row."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: float) -> None:
        self._field = Field(problem, rng, eta)
        self._going: dict[int, float] = {}  # by row: the resource to continue to; in order of arrival

    @abstractmethod
    def _next_stop(self, progress: Progress) -> float | None:
        """The resource up to which a training continues; None to stop it."""

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """A training that continues; otherwise a new row."""
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


class Ranking(Protocol):
    """The rows that have reached a level, in the order of promotion."""

    def __len__(self) -> int: ...

    def add(self, standing: Standing) -> None:
        """Add a row that has reached this level."""

    def first_waiting(self, count: int) -> int | None:
        """The best row that still waits for promotion, if it is among the `count` best of all rows."""

    def drop_first(self) -> None:
        """The best waiting row no longer waits."""


class Level:
    """The rows that have reached a level, ordered by loss."""

    def __init__(self) -> None:
        self._all: list[Standing] = []
        self._waiting: list[Standing] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, standing: Standing) -> None:
        """Add a row that has reached this level. O(log n) comparisons."""
        insort(self._all, standing)
        heappush(self._waiting, standing)

    def holds(self, loss: float, count: int) -> bool:
        """Whether a loss is as good as that of the count-th best row."""
        return loss <= self._all[count - 1][0]

    def first_waiting(self, count: int) -> int | None:
        """The best row that still waits for promotion, if it is among the `count` best of all rows."""
        if not self._waiting or count < 1 or self._waiting[0] > self._all[count - 1]:
            return None
        return self._waiting[0][2]

    def drop_first(self) -> None:
        """The best waiting row no longer waits."""
        heappop(self._waiting)
