"""Random search: uniformly drawn unseen rows (Bergstra & Bengio 2012)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.sampler import RowSearch


class RandomSearch(RowSearch):
    """Rows in the order of one random permutation."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._order = rng.permutation(len(problem.features)).tolist()
        self._told: set[int] = set()

    def suggest(self, running: Mapping[int, float]) -> int:
        """The next row of the permutation that is neither seen nor running."""
        while self._order[-1] in running or self._order[-1] in self._told:
            self._order.pop()
        return int(self._order[-1])

    def tell(self, index: int, losses: Floats) -> None:
        """Remember that the row was looked up."""
        self._told.add(index)
