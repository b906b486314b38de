"""pymoo's NSGA-II and NSGA-III (Blank & Deb 2020).

Translated: individuals are points in feature space, [0, 1]^F. Each is moved to the nearest row that is left,
and pymoo receives the features and losses of that row. The first generation is the initial design, filled up
with random rows. A failed training counts as worse than all others.

Lost: for pymoo, categories and labels are numbers between 0 and 1. Offspring that equal a row looked up
before become another row.
"""

from __future__ import annotations

from typing import Any

from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from pymoo.core.termination import NoTermination
from pymoo.util.ref_dirs import get_reference_directions

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.methods.adapters.common import Adapter

POPULATION = 20
"""The size of a generation, small enough for usual budgets."""


class _Pymoo(Adapter):
    """Passes complete generations to pymoo."""

    def algorithm(self, size: int, first: Floats) -> Any:
        """The algorithm, for generations of this size, with these points as the first generation."""
        raise NotImplementedError

    def start(self) -> None:
        """The first generation is still empty."""
        self.made: Any = None
        self.waiting: list[Any] = []
        self.generation: list[int] = []

    def propose(self) -> int | Floats:
        """The next individual of the generation."""
        missing = POPULATION - len(self.generation)
        if not self.waiting and self.made is None and missing > 0:
            self.waiting = self.rng.permutation(self.rows_left())[:missing].tolist()
        if not self.waiting:
            self.waiting = self.offspring() or [int(self.rng.choice(self.rows_left()))]
        answer: int | Floats = self.waiting[0]
        return answer

    def learn(self, row: int, losses: Floats) -> None:
        """Add the row to the generation."""
        self.generation.append(row)
        if self.asked:
            del self.waiting[0]

    def offspring(self) -> list[Floats]:
        """The individuals of the next generation; an empty list if all would equal their parents."""
        rows, self.generation = self.generation, []
        points = self.problem.features[rows]
        if self.made is None:
            n_features, n_objectives = points.shape[1], self.problem.n_objectives
            cube = PymooProblem(n_var=n_features, n_obj=n_objectives, xl=0.0, xu=1.0)
            self.made = self.algorithm(len(rows), points)
            self.made.setup(cube, termination=NoTermination(), seed=self.seed())
            self.made.ask()
        losses = self.known_losses()[[list(self.told).index(row) for row in rows]]
        self.made.tell(infills=Population.new(X=points, F=losses))
        bred = self.made.ask()
        return [] if bred is None else list(bred.get("X"))


class NSGAII(_Pymoo):
    """NSGA-II (Deb et al. 2002)."""

    def algorithm(self, size: int, first: Floats) -> Any:
        """With pymoo's operators."""
        return NSGA2(pop_size=size, sampling=first)


class NSGAIII(_Pymoo):
    """NSGA-III (Deb & Jain 2014)."""

    def algorithm(self, size: int, first: Floats) -> Any:
        """With Das and Dennis's directions, as many as fit into a generation."""
        n_objectives, parts = self.problem.n_objectives, 1
        while len(get_reference_directions("das-dennis", n_objectives, n_partitions=parts + 1)) <= POPULATION:
            parts += 1
        directions = get_reference_directions("das-dennis", n_objectives, n_partitions=parts)
        return NSGA3(directions, pop_size=size, sampling=first)
