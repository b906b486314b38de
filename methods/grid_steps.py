"""Pairs of rows that are few grid steps apart.

Neighbouring values of a hyperparameter in a table are one step apart, and so are any two categories. The
steps between two rows are summed over the hyperparameters. An inactive hyperparameter counts with its default
value.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.columns import feature_owners


def pairs_within(problem: Problem, steps: int) -> Rows:
    """Pairs (i, j), i < j, of rows that are at most `steps` apart, shape (E, 2), sorted."""
    owners = feature_owners(problem)
    places = np.empty(problem.features.shape)
    for j, column in enumerate(problem.features.T):
        if (owners == owners[j]).sum() > 1:  # two categories differ by 1 / sqrt(2) in each of two columns
            places[:, j] = column / math.sqrt(2)
        else:
            places[:, j] = np.unique(column, return_inverse=True)[1]
    pairs = cKDTree(places).query_pairs(steps + 0.25, p=1.0, output_type="ndarray")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0).reshape(-1, 2)
