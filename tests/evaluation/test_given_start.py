from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.given_start import (
    fewest_given_start,
    random_search_given_start,
    simulated_given_start,
)
from hpobench_nmt.evaluation.restricted import restricted_random_search, runtime_within
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.methods.random_search import RandomSearch


def look_up_by_look_up(order, targets, n_initial, tau, workers, lookups):
    """min(T, tau) of one order of the rows, counted one look-up at a time."""
    for place, row in enumerate(order[:lookups]):
        unit = place // workers + 1
        if targets[row]:
            return min(max(unit, math.ceil(n_initial / workers)), tau)
    return tau


@settings(max_examples=60, deadline=None)
@given(
    targets=st.lists(st.booleans(), min_size=1, max_size=6),
    n_initial=st.integers(0, 4),
    tau=st.sampled_from([1.0, 2.0, 2.5, 3.0, 5.25, 8.0]),
    workers=st.integers(1, 3),
    lookups=st.none() | st.integers(1, 7),
)
def test_over_all_orders_of_the_rows_that_are_left(targets, n_initial, tau, workers, lookups):
    assume(n_initial <= min(len(targets), lookups or len(targets)) and any(targets))
    start, left = range(n_initial), range(n_initial, len(targets))
    runtimes = [
        look_up_by_look_up([*start, *rest], targets, n_initial, tau, workers, lookups)
        for rest in itertools.permutations(left)
    ]
    hit, k = any(targets[:n_initial]), sum(targets[n_initial:])
    found = random_search_given_start(len(left), k, hit, n_initial, tau, workers, lookups)
    assert found == pytest.approx(np.mean(runtimes), abs=1e-12)


def test_the_formula_of_one_worker():
    m, k, n_initial, tau = 115, 7, 3, 20
    missed = [math.comb(m - k, s) / math.comb(m, s) for s in range(tau - n_initial)]
    found = random_search_given_start(m, k, False, n_initial, tau)
    assert found == pytest.approx(n_initial + sum(missed), rel=1e-12)
    assert random_search_given_start(m, k, True, n_initial, tau) == n_initial


@pytest.mark.parametrize("workers", [1, 4])
def test_its_mean_over_starts_is_random_search_from_nothing(workers):
    n, k, n_initial, tau = 40, 3, 5, 9.5
    chances = [math.comb(k, hits) * math.comb(n - k, n_initial - hits) for hits in range(k + 1)]
    values = [
        random_search_given_start(n - n_initial, k - hits, hits > 0, n_initial, tau, workers)
        for hits in range(k + 1)
    ]
    without = restricted_random_search(Goal(np.arange(n) < k, 1), tau, n_initial, workers)
    assert np.average(values, weights=chances) == pytest.approx(without, rel=1e-12)


def test_without_targets_or_a_cap():
    assert random_search_given_start(10, 0, False, 2, 7.0) == 7.0
    assert random_search_given_start(10, 0, False, 2, math.inf) == math.inf
    assert random_search_given_start(10, 1, False, 2, math.inf) == pytest.approx(2 + 11 / 2)
    assert random_search_given_start(10, 1, False, 2, math.inf, lookups=5) == math.inf


def event_by_event(order, costs, until_target, n_initial, tau, workers):
    """min(T, tau) of one order on a clock of costs, from a list of times at which workers are free."""
    free, finishes, found = [0.0] * workers, [], [math.inf]
    for row in order:
        begin = min(free)
        free[free.index(begin)] = begin + costs[row]
        finishes.append(begin + costs[row])
        found.append(begin + until_target[row])
    return min(max(min(found), max(finishes[:n_initial], default=0.0)), tau)


# The first target is trained for long, so that the second may be found before it.
COSTS = np.array([1.0, 4.0, 9.0, 0.0, 3.0, 7.0, 2.0])
UNTIL = np.array([np.inf, np.inf, 8.0, np.inf, 0.5, np.inf, np.inf])


@pytest.mark.parametrize(
    ("start", "workers", "tau", "lookups"),
    [
        ([0], 1, 15.0, None),
        ([5, 1, 0], 2, 11.0, None),
        ([], 3, 50.0, None),
        ([6, 4], 2, 9.0, None),
        ([6, 2], 2, 9.0, None),
        ([6], 2, 9.0, 4),
        ([0, 1], 1, 3.0, None),
    ],
)
def test_a_clock_of_costs_over_all_orders(start, workers, tau, lookups):
    start = np.array(start, dtype=np.int64)
    left = np.setdiff1d(np.arange(7), start)
    every = [
        event_by_event([*start, *rest][:lookups], COSTS, UNTIL, len(start), tau, workers)
        for rest in itertools.permutations(left)
    ]
    found = simulated_given_start(COSTS, UNTIL, start, tau, workers, lookups, permutations=40_000)
    assert found == pytest.approx(np.mean(every), abs=4 * np.std(every) / 200 + 1e-12)


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_of_unit_cost_are_look_ups(workers):
    until_target = np.where(np.arange(30) < 4, 1.0, np.inf)
    found = simulated_given_start(np.ones(30), until_target, np.array([9, 20]), 12.0, workers)
    exact = random_search_given_start(28, 4, False, 2, 12.0, workers)
    assert found == pytest.approx(exact, rel=0.01)
    assert found == simulated_given_start(np.ones(30), until_target, np.array([9, 20]), 12.0, workers)
    assert found != simulated_given_start(np.ones(30), until_target, np.array([9, 20]), 12.0, workers, seed=1)


@pytest.mark.parametrize(("start", "workers"), [([0], 1), ([5, 1, 0], 2), ([], 3), ([6, 2], 2), ([4, 3], 1)])
def test_the_fewest_over_all_orders(start, workers):
    start = np.array(start, dtype=np.int64)
    left = np.setdiff1d(np.arange(7), start)
    every = [
        event_by_event([*start, *rest], COSTS, UNTIL, len(start), 40.0, workers)
        for rest in itertools.permutations(left)
    ]
    assert fewest_given_start(COSTS, UNTIL, start, 40.0, workers) == min(every)
    assert fewest_given_start(COSTS, UNTIL, start, 0.25, workers) == 0.25


@pytest.mark.parametrize("workers", [1, 3])
def test_trials_of_the_loop_from_one_start_agree_with_the_simulation(made, workers):
    trainings, start, tau, runtimes = made(1), np.array([21, 4, 13]), 75.0 / workers, []
    goal = make_goal("ftc", trainings, tolerance=0.4)
    rules = {"workers": workers, "resources": np.unique(trainings.resources), "clock": "cost"}
    problem = Problem(np.zeros((30, 1)), 1, 30, len(start), **rules)
    for seed in range(300):
        told = run_trial(problem, trainings, RandomSearch, np.random.default_rng(seed), start)
        runtimes.append(min(runtime_within(goal, told, tau, len(start), 30), tau))
    costs = trainings.whole_costs
    found = simulated_given_start(costs, np.where(goal.targets, costs, np.inf), start, tau, workers)
    assert np.std(runtimes) > 1
    assert found == pytest.approx(np.mean(runtimes), abs=3 * np.std(runtimes) / 300**0.5)
