"""A base class for methods that search a posterior: the free row with the largest score is next.

A method of this kind defines what it models (a posterior and its targets) and how it scores the candidates.
The rest is here: the random first row, running rows (pending.py), and rows whose targets are missing.
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
    """Asks for the free row with the largest score; `count` is the number of rows with all targets."""

    def __init__(self, posterior: FinitePosterior, rng: np.random.Generator) -> None:
        self.posterior = posterior
        self.rng = rng
        self.count = 0
        self._pending = Pending(posterior)

    @abstractmethod
    def scores(self, given: Given) -> Floats:
        """The value of each candidate, shape (M,); arbitrary for candidates that are not free."""

    def ask(self) -> int:
        """The best unseen row."""
        row = self.suggest({})
        assert row is not None
        return row

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The best row that is neither seen nor running; None if no such row is left."""
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
        """Learn a row's targets, or only drop the row if a target is missing; returns whether it learned."""
        if _lacks_one(targets):
            self._pending.discard(row)
            return False
        self.count += 1
        return self._pending.observe(row, targets)


def best_of(scores: Floats, free: NDArray[np.bool_]) -> int:
    """The first free candidate with the largest score; ValueError if all scores of free ones are NaN."""
    best = _first_best(np.ascontiguousarray(scores, dtype=np.float64), free)
    if math.isnan(scores[best]) and np.isnan(scores[free]).all():
        raise ValueError("the acquisition gave NaN for every candidate.")
    return best


@compiled()
def _first_best(scores: Floats, free: NDArray[np.bool_]) -> int:
    """The first free candidate with the largest score. NaN counts as the largest, as in numpy's argmax."""
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
