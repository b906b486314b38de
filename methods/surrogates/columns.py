"""Which features belong to which hyperparameter."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.problem import Problem


def feature_counts(problem: Problem) -> list[int]:
    """How many features each hyperparameter has; [1] * F if the features are not those of the space."""
    counts = [h.n_features for h in problem.space]
    width = problem.features.shape[1]
    return counts if sum(counts) == width else [1] * width


def feature_owners(problem: Problem) -> Rows:
    """The number of the hyperparameter that each feature belongs to, ascending, shape (F,)."""
    counts = feature_counts(problem)
    return np.repeat(np.arange(len(counts)), counts)
