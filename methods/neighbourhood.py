"""Searches that step from a row to a neighbour: regularised evolution and local search.

Neither method needs a model. A row's neighbours differ from it in one hyperparameter, by one step
(`Problem.neighbours`). If no neighbour is left, or the table is not a grid, the next row is random.

Regularised evolution: Real et al. 2019, "Regularized Evolution for Image Classifier Architecture Search",
Algorithm 1. Local search: White et al. 2021, "Exploring the Loss Landscape in Neural Architecture Search",
Algorithm 1, with the first improvement and restarts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from hpobench_nmt.core.arrays import Bools, Rows
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import check_whole
from hpobench_nmt.methods.sampler import SampledSearch


class NeighbourSearch(SampledSearch, ABC):
    """Chooses a random free neighbour of a row, its `origin`. A step takes O(N H) for N rows."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng, sampler=self)
        self._problem = problem
        self._near: tuple[int, Rows] = -1, np.empty(0, dtype=np.int64)
        self.losses: dict[int, float] = {}  # by observed row; infinite where a training failed

    @abstractmethod
    def origin(self) -> int | None:
        """The row to step from; None if the next row is random."""

    @abstractmethod
    def take_in(self, row: int) -> None:
        """Learn a row, whose loss is already in `losses`."""

    def choose(self, free: Bools, level: int) -> int | None:
        """A neighbour of the origin; None if none is free."""
        origin = self.origin()
        if origin is None:
            return None
        near = self.neighbours(origin)
        near = near[free[near]]
        return int(self._rng.choice(near)) if len(near) else None

    def learn(self, row: int, level: int, loss: float) -> None:
        """Learn the loss of a row."""
        self.losses[row] = loss
        self.take_in(row)

    def neighbours(self, row: int) -> Rows:
        """The row's neighbours, seen or not. The last result is cached."""
        if row != self._near[0]:
            self._near = row, self._problem.neighbours(row)
        return self._near[1]

    def is_exhausted(self, row: int) -> bool:
        """Whether all neighbours of a row were observed."""
        return not self._unseen[self.neighbours(row)].any()


class RegularisedEvolution(NeighbourSearch):
    """The best of a random sample of the population gets a mutated child, and the oldest row dies.

    Args:
        problem, rng: as for any method.
        population: how many rows live. The paper's 100 is more than most budgets here.
        sample: how many living rows are drawn, with replacement as in the paper; the best is the parent.
    """

    def __init__(
        self, problem: Problem, rng: np.random.Generator, population: int = 10, sample: int = 3
    ) -> None:
        check_whole("population", population, 1)
        check_whole("sample", sample, 1)
        super().__init__(problem, rng)
        self._living: deque[int] = deque(maxlen=population)
        self._sample = sample

    def origin(self) -> int | None:
        """The best of a random sample; None until the population is full."""
        if len(self._living) < (self._living.maxlen or 0):
            return None
        drawn = self._rng.integers(len(self._living), size=self._sample).tolist()
        return min((self._living[place] for place in drawn), key=self.losses.__getitem__)

    def take_in(self, row: int) -> None:
        """The row joins the population as the youngest."""
        self._living.append(row)


class LocalSearch(NeighbourSearch):
    """Steps to the first better neighbour, and restarts at a random row if no neighbour is better."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self._here: int | None = None

    def origin(self) -> int | None:
        """The current row; None before the start."""
        return self._here

    def take_in(self, row: int) -> None:
        """Step to the row if it is better, or if it is a restart."""
        here = self._here
        starts = here is None or (row not in self.neighbours(here) and self.is_exhausted(here))
        if here is None or starts or self.losses[row] < self.losses[here]:
            self._here = row
