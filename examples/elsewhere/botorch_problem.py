"""A table as a test problem of BoTorch over a finite set: `pip install 'hpobench-nmt[botorch]'`.

problem = TableProblem("sotu-awd-lstm")
x, _ = optimize_acqf_discrete(acquisition, 1, problem.candidates)
y = problem(x)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from botorch.test_functions.base import BaseTestProblem

import hpobench_nmt as hb


class TableProblem(BaseTestProblem):
    """Losses to minimise, as functions of the rows' features in [0, 1].

    A point gets the losses of the row with the nearest features, among the rows that have all objectives.
    Categories have a column for each label, so rows of equal labels are nearer than others. Optimise over
    `candidates`, which are the features of these rows.

    Args:
        name: name of an installed table.
        objectives: by default, the table's first objective. With several, y has a column for each.
        negate: whether losses change their sign, for maximisation.
    """

    _is_minimization_by_default = True

    def __init__(self, name: str, objectives: Sequence[str] = (), negate: bool = False) -> None:
        table = hb.load_table(name)
        losses = table.losses(list(objectives) or table.objectives[:1])
        complete = ~np.isnan(losses).any(axis=1)
        self.dim = table.features.shape[1]
        self._bounds = [(0.0, 1.0)] * self.dim
        self.continuous_inds, self.discrete_inds = list(range(self.dim)), []  # features are not integers
        self.num_objectives = losses.shape[1]
        super().__init__(negate=negate)
        self.register_buffer("candidates", torch.tensor(table.features[complete]))
        self.register_buffer("losses", torch.tensor(losses[complete]))

    def _evaluate_true(self, X: torch.Tensor) -> torch.Tensor:
        rows = torch.cdist(X, self.candidates.to(X)).argmin(dim=-1)
        return self.losses[rows] if self.num_objectives > 1 else self.losses[rows, 0]
