"""The controls against loops that compute each distance by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from twins.gaussian import random_table

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN, CONTROLS


def rows_of(name, features, losses, seed=0, initial=(4, 1, 7), workers=1):
    problem = Problem(features, losses.shape[1], len(features), len(initial), workers=workers)
    rng = np.random.default_rng(seed)
    trial = run_trial(problem, Trainings.whole(losses), BUILT_IN[name].load(), rng, list(initial))
    assert not trial.failure
    return trial.rows.tolist()


def expected(name, features, seen, unseen):
    """The best value of the rule, and the rows that have it."""
    centroid = [math.fsum(column) / len(features) for column in features.T.tolist()]
    values = {}
    for row in unseen:
        if name == "maximin":
            value = min(math.dist(features[row], features[other]) for other in seen)
        else:
            value = math.dist(features[row], centroid) * (1 if name == "corner" else -1)
        values[row] = round(value, 9)
    return {row for row, value in values.items() if value == max(values.values())}


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("grid", [False, True], ids=["points", "grid"])
def test_each_row_is_the_best_by_the_rule(name, grid):
    features, losses = random_table(3, 30, 1)
    if grid:  # with many ties
        features = np.array([(a, b) for a in range(6) for b in range(5)]) / (5, 4)
    rows = rows_of(name, features, losses)
    assert sorted(rows) == list(range(30)) and rows[:3] == [4, 1, 7]
    for step in range(3, 30):
        assert rows[step] in expected(name, features, rows[:step], rows[step:])


@pytest.mark.parametrize("name", CONTROLS)
def test_no_loss_changes_the_rows_and_ties_are_by_seed(name):
    features, losses = random_table(3, n_rows=30, n_objectives=2)
    grid = np.array([(a, b) for a in range(6) for b in range(5)]) / (5, 4)
    rows = rows_of(name, grid, losses)
    assert rows == rows_of(name, grid, np.full_like(losses, np.nan))
    assert rows != rows_of(name, grid, losses, seed=1)
    assert rows_of(name, features, losses) == rows_of(name, features, losses, seed=1)


def test_running_rows_count_for_maximin():
    """Four workers start with the corners of a grid, each as far as possible from those that are running."""
    grid = np.array([(a, b) for a in range(5) for b in range(5)]) / 4.0
    losses = np.zeros((25, 1)) + np.arange(25)[:, None]
    rows = rows_of("maximin", grid, losses, initial=(12,), workers=4)
    assert set(rows[:5]) == {12, 0, 4, 20, 24}
