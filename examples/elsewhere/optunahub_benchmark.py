"""A table as a benchmark of OptunaHub: `pip install optunahub 'hpobench-nmt[optuna]'`.

study = optuna.create_study(directions=problem.directions)
study.optimize(problem, n_trials=30)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.study import StudyDirection
from optunahub.benchmarks import BaseProblem

import hpobench_nmt as hb
from hpobench_nmt.adapters.optuna import table_objective


class TableProblem(BaseProblem):
    """A table's objectives, in its own units.

    Args:
        name: name of an installed table.
        objectives: by default, the table's first objective.
        otherwise: what a configuration without a row gets: the values of the nearest row ("nearest"), or a
            failed trial ("none").
    """

    def __init__(self, name: str, objectives: Sequence[str] = (), otherwise: str = "nearest") -> None:
        self.table = hb.load_table(name)
        self._goals = [self.table.objective(goal) for goal in objectives or self.table.objectives[:1]]
        self._losses = self.table.function(self._goals, otherwise)
        self._suggested = table_objective(self.table, self._goals, otherwise)

    @property
    def search_space(self) -> dict[str, optuna.distributions.BaseDistribution]:
        return dict(self.table.space.to_optuna())

    @property
    def directions(self) -> list[StudyDirection]:
        return [StudyDirection[f"{goal.direction}imize".upper()] for goal in self._goals]

    def __call__(self, trial: optuna.Trial) -> float | Sequence[float]:
        return self._suggested(trial)  # it suggests only active hyperparameters

    def evaluate(self, params: dict[str, Any]) -> float | list[float]:
        losses = self._losses(params)
        if losses is None:
            losses = [math.nan] * len(self._goals)
        raw = [
            goal.to_raw(loss) for goal, loss in zip(self._goals, np.atleast_1d(losses).tolist(), strict=True)
        ]
        return raw if len(raw) > 1 else raw[0]
