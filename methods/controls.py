"""Controls: rules that see no loss. A table on which one of them is much faster than random search is laid
out so that the place of a row gives away how good it is.

Distances are Euclidean, of the problem's features, rounded to nine digits so that rounding errors do not
decide. Ties are in a random order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import reduce

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.sampler import RowSearch, free_rows

_DIGITS = 9


class Control(RowSearch):
    """Looks up the free row with the largest value of a rule."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._features = problem.features
        self._unseen = np.ones(len(self._features), dtype=bool)
        self._turn = rng.permutation(len(self._features))  # among ties, the row whose turn is first

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The next row; None if all rows that are left are running."""
        free = np.flatnonzero(free_rows(self._unseen, running))
        if not len(free):
            return None
        values = np.round(self.values(running)[free], _DIGITS)
        ties = free[values == values.max()]
        return int(ties[np.argmin(self._turn[ties])])

    @abstractmethod
    def values(self, running: Mapping[int, float]) -> Floats:
        """The rule's value of each row, shape (N,)."""

    def tell(self, index: int, losses: Floats) -> None:
        """Remember that the row was looked up."""
        self._unseen[index] = False


class Corner(Control):
    """The row that is farthest from the centroid of all rows."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self._distances = np.asarray(np.linalg.norm(self._features - self._features.mean(axis=0), axis=1))

    def values(self, running: Mapping[int, float]) -> Floats:
        """The distance from the centroid."""
        return self._distances


class Centre(Corner):
    """The row that is nearest to the centroid of all rows."""

    def values(self, running: Mapping[int, float]) -> Floats:
        """The distance from the centroid, negated."""
        return np.asarray(-self._distances)


class Maximin(Control):
    """The row whose nearest row that was looked up, or is running, is the farthest."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self._nearest = np.full(len(self._features), np.inf)

    def values(self, running: Mapping[int, float]) -> Floats:
        """The distance to the nearest row that was looked up or is running."""
        return reduce(np.minimum, map(self._from, running), self._nearest)

    def tell(self, index: int, losses: Floats) -> None:
        """Remember that the row was looked up."""
        super().tell(index, losses)
        self._nearest = np.minimum(self._nearest, self._from(index))

    def _from(self, row: int) -> Floats:
        return np.asarray(np.linalg.norm(self._features - self._features[row], axis=1))
