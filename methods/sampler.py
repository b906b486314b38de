"""What methods that look up whole rows have in common, and samplers, which choose the next row to train.

Samplers do not decide how far rows are trained. BOHB, PriorBand and CQR each have a sampler. Along learning
curves, successive halving decides which rows are trained further (`Field.sampler` in partial_training.py).
`SampledSearch` trains every row to its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.problem import Problem


class RowSearch(ABC):
    """A method whose answer to `ask` is that to `suggest` while no row is running."""

    @abstractmethod
    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The next row, neither seen nor running; None if no such row can be started now."""

    def ask(self) -> int:
        """The next row."""
        row = self.suggest({})
        assert row is not None
        return row


def free_rows(unseen: Bools, running: Iterable[int]) -> Bools:
    """Which rows are neither seen nor running, shape (N,)."""
    free = unseen.copy()
    free[list(running)] = False
    return free


class Sampler(Protocol):
    """Chooses new rows."""

    def choose(self, free: Bools, level: int) -> int | None:
        """A free row (`free`: shape (N,)) to start at a level, from 0; None for a random row."""

    def learn(self, row: int, level: int, loss: float) -> None:
        """The loss of a row at a level that it has reached; infinite if missing. A row's levels ascend."""


class SampledSearch(RowSearch):
    """Trains every row to its end, in the order in which a sampler chooses them."""

    def __init__(self, problem: Problem, rng: np.random.Generator, sampler: Sampler) -> None:
        self._unseen = np.ones(len(problem.features), dtype=bool)
        self._rng = rng
        self._sampler = sampler

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The next row that is not running; None if no such row is left."""
        free = free_rows(self._unseen, running)
        if not free.any():
            return None
        chosen = self._sampler.choose(free, 0)
        return int(self._rng.choice(np.flatnonzero(free))) if chosen is None else chosen

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the loss of a row."""
        self._unseen[index] = False
        self._sampler.learn(index, 0, np.inf if np.isnan(losses[0]) else float(losses[0]))


def drawn(rng: np.random.Generator, log_weights: Floats, free: Bools, count: int = 1) -> list[int]:
    """Free rows drawn by their weights, whose logarithms are finite, with replacement."""
    rows = np.flatnonzero(free)
    weights = np.exp(log_weights[rows] - log_weights[rows].max())
    return [int(row) for row in rng.choice(rows, count, p=weights / weights.sum())]
