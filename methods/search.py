"""One base for methods that search a posterior: the free row of largest score is next.

A method of this kind says what it models (a posterior and its targets) and how it scores the candidates. What
a trial asks of all of them is here: a random row while nothing is known, rows that are running (pending.py),
and rows that teach nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.compiled import compiled
from hpobench_nmt.methods.pending import Given, Pending
from hpobench_nmt.methods.posterior import FinitePosterior


class PosteriorSearch(ABC):
    """Asks for the free row of largest score; `count` is the number of rows told with all their targets."""

    def __init__(self, posterior: FinitePosterior, rng: np.random.Generator) -> None:
        self.posterior = posterior
        self.rng = rng
        self.count = 0
        self._pending = Pending(posterior)

    @abstractmethod
    def scores(self, given: Given) -> Floats:
        """The value of each candidate, shape (M,); those that are not free may have any."""

    def ask(self) -> int:
        """The best row that was not seen."""
        row = self.suggest({})
        assert row is not None
        return row

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The best row that was not seen and is not running; None if there is none."""
        posterior = self.posterior
        given = Given(posterior.var, posterior.unseen, posterior.row_sums)
        if running:
            given = self._pending.given(running)
            if not given.free.any():
                return None
        if not self.count:
            return int(self.rng.choice(posterior.rows[given.free]))
        return int(posterior.rows[best_of(self.scores(given), given.free)])

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the losses of a row."""
        self.learn(index, losses)

    def learn(self, row: int, targets: Floats) -> bool:
        """Condition on a row's targets, or only drop it if one is missing; returns whether it was learned."""
        if _lacks_one(targets):
            self._pending.discard(row)
            return False
        self.count += 1
        return self._pending.observe(row, targets)


def best_of(scores: Floats, free: NDArray[np.bool_]) -> int:
    """The first of the free candidates, at least one, of largest score; ValueError if all of them are NaN."""
    best = _first_best(np.ascontiguousarray(scores, dtype=np.float64), free)
    if math.isnan(scores[best]) and np.isnan(scores[free]).all():
        raise ValueError("the acquisition gave NaN for every candidate.")
    return best


@compiled()
def _first_best(scores: Floats, free: NDArray[np.bool_]) -> int:
    """The first free candidate of largest score; a NaN is the largest, as in numpy's argmax."""
    best = -1
    for i in range(scores.shape[0]):
        if free[i]:
            if np.isnan(scores[i]):
                return i
            if best < 0 or scores[i] > scores[best]:
                best = i
    return best


@compiled()
def _lacks_one(targets: Floats) -> bool:
    lacking = False
    for t in range(targets.shape[0]):
        lacking = lacking or math.isnan(targets[t])
    return lacking
