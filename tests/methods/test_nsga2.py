"""NSGA-II over a table, compared with pymoo's algorithm driven generation by generation."""

from __future__ import annotations

import numpy as np
import pytest
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from pymoo.core.termination import NoTermination

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.nsga2 import NSGA2Search


def table(n_rows, n_features=2, missing=()):
    rng = np.random.default_rng(n_rows)
    features = rng.uniform(size=(n_rows, n_features))
    losses = np.column_stack([((features - c) ** 2).sum(axis=1) for c in (0.3, 0.6)]) - 0.2
    for row, which in missing:
        losses[row, which] = np.nan
    return features, losses


def generations(features, losses, initial, seed, n_steps):
    """Rows generation by generation: the initial design with random rows up to 20 in all, then offspring."""
    rng = np.random.default_rng(seed)
    left = [row for row in range(len(features)) if row not in initial]
    n_random = max(20 - len(initial), 1)
    generation = [*initial, *rng.permutation(left)[:n_random].tolist()]
    algorithm = NSGA2(pop_size=len(generation), sampling=features[generation])
    cube = PymooProblem(n_var=features.shape[1], n_obj=2, xl=0.0, xu=1.0)
    algorithm.setup(cube, termination=NoTermination(), seed=int(rng.integers(2**31)))
    algorithm.ask()
    rows = list(generation)
    while len(rows) < n_steps:
        # A row without losses, or with one of the two, is worse than any other in both.
        known = losses[rows]
        bad = np.nanmax(known, axis=0) + np.abs(np.nanmax(known, axis=0)) + 1.0
        told = [bad if np.isnan(losses[row]).any() else losses[row] for row in generation]
        algorithm.tell(infills=Population.new(X=features[generation], F=np.array(told)))
        generation = []
        for point in algorithm.ask().get("X"):
            free = [row for row in range(len(features)) if row not in rows]
            if free:
                generation.append(min(free, key=lambda row: np.linalg.norm(features[row] - point)))
                rows.append(generation[-1])
    return rows[:n_steps]


def trial(features, losses, initial, seed, n_steps):
    problem = Problem(features, 2, n_steps, len(initial))
    done = run_trial(problem, Trainings.whole(losses), NSGA2Search, np.random.default_rng(seed), initial)
    assert not done.failure
    return done.rows.tolist()


@pytest.mark.parametrize(
    ("n_rows", "initial"),
    [(150, [3, 70, 140]), (150, []), (150, list(range(25))), (150, list(range(19))), (21, [4])],
    ids=["usual", "no design", "large design", "nearly full design", "one row more than a generation"],
)
def test_rows_are_those_of_pymoo_snapped_to_the_table(n_rows, initial):
    features, losses = table(n_rows)
    n_steps = min(n_rows, 110)
    expected = generations(features, losses, initial, 5, n_steps)
    assert trial(features, losses, initial, 5, n_steps) == expected


def test_a_row_that_lacks_one_of_two_losses_is_the_worst_in_both():
    # Every third row lacks a loss, and would otherwise be among the best in the other.
    features, losses = table(150, missing=[(row, row % 2) for row in range(0, 150, 3)])
    expected = generations(features, losses, [3, 70, 140], 0, 110)
    assert trial(features, losses, [3, 70, 140], 0, 110) == expected
    found = NSGA2Search(Problem(features, 2, 150, 3), np.random.default_rng(0))
    for row, told in ((0, [1.0, 5.0]), (1, [np.nan, -9.0]), (2, [-2.0, np.nan]), (3, [-1.0, -3.0])):
        found.tell(row, np.array(told))
    assert found._complete([0, 1, 2, 3]).tolist() == [[1.0, 5.0], [3.0, 11.0], [3.0, 11.0], [-1.0, -3.0]]


def test_before_any_row_has_losses_all_are_equal():
    features, _ = table(10)
    found = NSGA2Search(Problem(features, 2, 10, 2), np.random.default_rng(0))
    for row in (0, 1):
        found.tell(row, np.full(2, np.nan))
    assert found._complete([0, 1]).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_where_pymoo_has_no_more_offspring_rows_are_random(monkeypatch):
    class Barren(NSGA2):
        def _infill(self):
            return None  # as where all offspring are equal to their parents

    monkeypatch.setattr("hpobench_nmt.methods.nsga2.NSGA2", Barren)
    features, losses = table(30)
    rows = [trial(features, losses, [0, 1, 2], seed, 30) for seed in range(5)]
    assert all(sorted(found) == list(range(30)) for found in rows)
    assert len({tuple(found[20:]) for found in rows}) == 5
