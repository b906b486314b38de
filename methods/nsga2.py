"""NSGA-II (Deb et al. 2002) as pymoo implements it, restricted to the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from pymoo.core.termination import NoTermination

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.sampler import RowSearch

POPULATION = 20


class NSGA2Search(RowSearch):
    """Evolves points of the unit cube from the initial design. Each point becomes the nearest unseen row."""

    def __init__(self, problem: Problem, rng: np.random.Generator, population: int = POPULATION) -> None:
        n_rows, n_features = problem.features.shape
        self._features = problem.features
        self._unseen = np.ones(n_rows, dtype=bool)
        self._rng = rng
        self._population = min(max(population, 1), n_rows)
        self._cube = PymooProblem(n_var=n_features, n_obj=problem.n_objectives, xl=0.0, xu=1.0)
        self._algorithm: NSGA2 | None = None
        self._generation: list[int] = []
        self._losses: dict[int, Floats] = {}

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The next row of this generation, or the first of the next one.

        None while the last rows of the generation are running.
        """
        if self._algorithm is None and not self._generation:
            told = [*self._losses, *running]
            fill = [row for row in self._rng.permutation(np.flatnonzero(self._unseen)) if row not in running]
            self._generation = told + [int(row) for row in fill[: max(self._population - len(told), 1)]]
        while True:
            for row in self._generation:
                if self._unseen[row] and row not in running:
                    return row
            if any(self._unseen[row] for row in self._generation):
                return None
            self._breed()

    def tell(self, index: int, losses: Floats) -> None:
        """Remember the losses of a row. pymoo receives a generation when all of its rows are observed."""
        self._unseen[index] = False
        self._losses[index] = losses

    def _breed(self) -> None:
        """Select from the finished generation. Its offspring, moved to unseen rows, come next."""
        rows = self._generation
        if self._algorithm is None:
            self._algorithm = NSGA2(pop_size=len(rows), sampling=self._features[rows])
            seed = int(self._rng.integers(2**31))
            self._algorithm.setup(self._cube, termination=NoTermination(), seed=seed)
            self._algorithm.ask()
        self._algorithm.tell(infills=Population.new(X=self._features[rows], F=self._complete(rows)))
        offspring = self._algorithm.ask()
        self._generation = self._nearest_unseen(np.empty((0, 0)) if offspring is None else offspring.get("X"))
        if not self._generation:
            # pymoo found no offspring that differs from its parents: continue from a random row.
            self._generation = [int(self._rng.choice(np.flatnonzero(self._unseen)))]

    def _nearest_unseen(self, wanted: Floats) -> list[int]:
        free = self._unseen.copy()
        rows: list[int] = []
        for point in wanted:
            if not free.any():
                break
            distance = ((self._features - point) ** 2).sum(axis=1)
            distance[~free] = np.inf
            rows.append(int(distance.argmin()))
            free[rows[-1]] = False
        return rows

    def _complete(self, rows: list[int]) -> Floats:
        """The rows' losses. A row that lacks a loss counts as worse than all rows seen, in every loss."""
        known = np.array(list(self._losses.values()))
        worst = np.nanmax(np.where(np.isnan(known), -np.inf, known), axis=0)
        worst = np.where(np.isfinite(worst), worst, 0.0)
        losses = np.array([self._losses[row] for row in rows])
        losses[np.isnan(losses).any(axis=1)] = worst + np.abs(worst) + 1.0
        return losses
