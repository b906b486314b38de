"""MO-ASHA against a naive twin, and its order of rows on points worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from twins.halving import NaiveASHA, NaiveMOASHA
from twins.made import curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.early.multi_objective_halving import MOASHA, FrontLevel
from hpobench_nmt.testing import PARALLEL_CHECKS, checks_for


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance(check, m):
    assert check in checks_for(MOASHA, m)
    check(MOASHA, m)


def trial(method, given, seed, workers):
    problem = Problem(
        np.zeros((len(given), 1)),
        given.losses.shape[1],
        len(given),
        0,
        workers=workers,
        resources=np.unique(given.resources),
        resume=given.resume,
        clock="cost",
    )
    return run_trial(problem, given, method, np.random.default_rng(seed))


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("others", [1, 2])
def test_every_request_is_that_of_the_twin(others, workers):
    for seed in range(2):
        made = curves(seed, n_rows=24, longest=16, failing=0.1, ties=seed % 2 == 0, shortest=1, others=others)
        ours, twin = (trial(method, made, seed, workers) for method in (MOASHA, NaiveMOASHA))
        assert ours.failure == twin.failure == ""
        assert ours.rows.tolist() == twin.rows.tolist()
        assert ours.timeline.resources.tolist() == twin.timeline.resources.tolist()


def test_with_one_loss_it_is_asha():
    made = curves(5, n_rows=30, failing=0.1, ties=True)
    ours, asha = (trial(method, made, 1, 3) for method in (MOASHA, NaiveASHA))
    assert ours.rows.tolist() == asha.rows.tolist()


def order_of(points):
    """All rows of a level, first to last."""
    losses = {row: np.array(point, dtype=float) for row, point in enumerate(points)}
    level = FrontLevel(losses, len(points[0]))
    for row, point in losses.items():
        level.add((point[0], row, row))
    found = []
    while (row := level.first_waiting(len(points))) is not None:
        found.append(row)
        level.drop_first()
    return found


def test_fronts_come_one_after_the_other_and_each_is_spread_out():
    # The front 0, 1, 2, 4: first the least first loss, then the other end, then the one between them.
    assert order_of([(2, 3), (0, 10), (10, 0), (11, 11), (1, 6), (3, 4)]) == [1, 2, 0, 4, 5, 3]
    assert order_of([(5, 5), (4, 4), (3, 3)]) == [2, 1, 0]
    assert order_of([(1, 1), (1, 1), (np.nan, 0), (0, np.nan), (2, 2)]) == [0, 1, 4, 2, 3]


def test_only_so_many_of_a_level_may_be_promoted():
    losses = {row: np.array([row, -row], dtype=float) for row in range(6)}
    level = FrontLevel(losses, 2)
    for row in losses:
        level.add((0.0, row, row))
    assert level.first_waiting(0) is None
    assert level.first_waiting(1) == 0
    level.drop_first()
    assert level.first_waiting(1) is None
    assert level.first_waiting(2) == 5
