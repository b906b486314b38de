"""Which hyperparameter each feature belongs to."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.problem import Problem


def feature_owners(problem: Problem) -> Rows:
    """The number of the hyperparameter that each feature belongs to, ascending, shape (F,).

    The columns of a category are one hyperparameter. Where there are features of other kinds, each is its
    own.
    """
    counts = [h.n_features for h in problem.space]
    width = problem.features.shape[1]
    return np.repeat(np.arange(len(counts)), counts) if sum(counts) == width else np.arange(width)
