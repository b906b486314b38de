"""SMAC's random forest with expected improvement (Hutter et al. 2011, Lindauer et al. 2022).

Translated: the space becomes a ConfigSpace, with its conditions, and with ranges instead of grids of numbers.
At every step, SMAC's forest is fitted to all rows observed, and its acquisition function ranks all rows that
are left. One row in five is random, which is SMAC's default. A failed training counts as worse than all
others.

Lost: SMAC's own loop. The problem's initial design replaces its Sobol' design, and a ranking of all rows
replaces its local search. The logarithm of the losses is not taken, because losses need not be positive here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from ConfigSpace import Configuration, UniformFloatHyperparameter
from smac.acquisition.function import EI
from smac.model.random_forest import RandomForest
from smac.random_design import ProbabilityRandomDesign

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Space
from hpobench_nmt.methods.adapters.common import Adapter, ranges

_TINY = 5e-14  # rounded to 0 at 13 decimals


class RF(Adapter):
    """The random forest of SMAC's facade for hyperparameters."""

    logger = "smac"

    def start(self) -> None:
        """Make the forest, the acquisition function, and the choice of random steps."""
        self.candidates, self.space = _configurations(self.problem)
        self.arrays = np.array([candidate.get_array() for candidate in self.candidates])
        self.forest = RandomForest(
            self.space,
            n_trees=10,
            ratio_features=1.0,
            min_samples_split=2,
            min_samples_leaf=1,
            seed=self.seed(),
            # Trees cannot have more leaves than rows. With SMAC's 2**20, each tree would take 100 MB.
            max_leaf_nodes=max(self.problem.lookups, 2),
            n_jobs=1,  # with threads, the sums over trees have no fixed order
        )
        self.improvement = EI()
        self.random = ProbabilityRandomDesign(probability=0.2, seed=self.seed())
        self.steps = 0

    def propose(self) -> int:
        """A random row, or the row with the largest expected improvement."""
        rows_left = self.rows_left()
        self.steps += 1
        if not self.told or self.random.check(self.steps):
            return int(self.rng.choice(rows_left))
        losses = self.known_losses()
        self.forest.train(self.arrays[list(self.told)], losses)
        self.improvement.update(model=self.forest, eta=losses.min())
        values = self.improvement([self.candidates[row] for row in rows_left])
        return int(rows_left[int(np.argmax(values))])


@lru_cache(maxsize=4)
def _configurations(problem: Problem) -> tuple[list[Any], Any]:
    """The candidates as ConfigSpace's configurations, and their space."""
    axes = ranges(problem.space)
    # ConfigSpace rounds the ends of a range to 13 decimals, and rejects values beyond the rounded ends. Tiny
    # values are divided by the smallest one, which leaves their logarithms' distances as they are.
    unit = {h.name: h.ends[0] for h in axes if h.continuous and h.scale == "log" and h.ends[0] < _TINY}
    scaled = (
        replace(h, values=tuple(v / unit[h.name] for v in h.ends)) if h.name in unit else h for h in axes
    )
    space = Space(tuple(scaled)).to_configspace()

    def within(name: str, value: Any) -> Any:
        axis = space[name]
        if not isinstance(axis, UniformFloatHyperparameter):
            return value
        return np.clip(value / unit.get(name, 1.0), axis.lower, axis.upper)

    configs = map(problem.config, range(len(problem.features)))
    valid = [{name: within(name, value) for name, value in config.items()} for config in configs]
    return [Configuration(space, values=values) for values in valid], space
