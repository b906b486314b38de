from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twins.permutations import score_of_order

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trajectory import Goal, Timeline, Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.given_start import simulated_random_search
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.restricted import (
    restricted_mean,
    restricted_random_search,
    runtime_within,
)
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.methods.random_search import RandomSearch

RUNTIMES = ("ftb", "ftc", "fto", "fta")


def naive(goal, tau, n_initial, workers, lookups):
    """Restricted mean over all orders of the rows, each look-up on its own."""
    runtimes = []
    for order in itertools.permutations(range(len(goal.targets))):
        row_by_row = score_of_order(goal, order, n_initial)
        runtimes.append(math.ceil(row_by_row / workers) if row_by_row <= lookups else math.inf)
    return np.mean([min(t, tau) for t in runtimes])


@pytest.mark.parametrize("score", RUNTIMES)
@settings(max_examples=20, deadline=None)
@given(
    data=st.data(),
    n_initial=st.integers(0, 4),
    tau=st.integers(1, 8),
    workers=st.integers(1, 3),
    lookups=st.integers(1, 7),
)
def test_random_search_over_all_permutations(score, data, n_initial, tau, workers, lookups):
    m = 1 if score in ("ftb", "ftc") else data.draw(st.integers(2, 3))
    cell = st.sampled_from([np.nan, 0.0, 1.0, 1.5, 2.0, 7.0])  # ties, and rows that miss a loss
    losses = np.array(data.draw(st.lists(st.tuples(*[cell] * m), min_size=1, max_size=6)))
    assume(not np.isnan(losses).any(axis=1).all())
    goal = make_goal(score, losses, tolerance=0.5)
    n_initial = min(n_initial, len(losses), lookups)
    found = restricted_random_search(goal, tau, n_initial, workers, lookups)
    np.testing.assert_allclose(found, naive(goal, tau, n_initial, workers, lookups), atol=1e-12)
    whole = restricted_random_search(goal, tau, n_initial, workers)
    np.testing.assert_allclose(whole, naive(goal, tau, n_initial, workers, math.inf), atol=1e-12)


def test_the_closed_form_of_one_worker():
    n, k, n_initial, tau = 118, 7, 3, 20
    goal = Goal(np.arange(n) < k, 1)
    by_hand = sum(1.0 if t < n_initial else math.comb(n - k, t) / math.comb(n, t) for t in range(tau))
    assert restricted_random_search(goal, tau, n_initial) == pytest.approx(by_hand, rel=1e-12)


def test_without_a_cap_it_is_the_mean_runtime():
    goal = Goal(np.arange(30) < 4, 2)
    mean = restricted_random_search(goal, math.inf, 3, 4)
    assert mean == pytest.approx(exact_random_search(goal, 3, 4)[0], rel=1e-12)


def test_too_few_targets_are_never_reached():
    assert np.isnan(restricted_random_search(Goal(np.zeros(5, bool), 1), 3, 1))


def simulated(targets, costs, tau, n_initial, workers, permutations=100_000):
    until = np.where(targets, costs, np.inf)
    return simulated_random_search(costs, until, n_initial, tau, workers, permutations)


def event_by_event(order, costs, targets, tau, n_initial, workers):
    """The runtime of one order on a clock, from a list of workers that are free."""
    free, finishes = [0.0] * workers, []
    for row in order:
        start = min(free)
        free[free.index(start)] = start + costs[row]
        finishes.append(start + costs[row])
    hit = min(f for row, f in zip(order, finishes, strict=True) if targets[row])
    runtime = max(hit, max(finishes[:n_initial], default=0.0))
    return min(runtime, tau)


@pytest.mark.parametrize(("workers", "n_initial", "tau"), [(1, 1, 9.0), (2, 3, 6.0), (3, 0, 50.0)])
def test_a_clock_of_costs_over_all_permutations(workers, n_initial, tau):
    costs = np.array([1.0, 4.0, 2.5, 0.0, 3.0, 7.0])
    targets = np.array([False, False, True, False, True, False])
    orders = list(itertools.permutations(range(6)))
    every = np.array([event_by_event(o, costs, targets, tau, n_initial, workers) for o in orders])
    mean = simulated(targets, costs, tau, n_initial, workers, 40_000)
    assert mean == pytest.approx(every.mean(), abs=4 * every.std() / 200)


def test_a_training_may_reach_the_target_at_the_budget_itself():
    """Of four rows that cost 1 each, the target is as likely to be the first as the fourth."""
    mean = simulated(np.arange(4) == 0, np.ones(4), 2.0, 1, 1, 4000)
    assert mean == pytest.approx((1 + 2 + 2 + 2) / 4, abs=0.05)


def test_a_clock_of_costs_without_a_cap_has_the_exact_mean():
    rng = np.random.default_rng(3)
    costs, targets = rng.gamma(1.0, size=40), np.arange(40) < 3
    exact, _ = exact_random_search(Goal(targets, 1), 3, 1, costs)
    mean = simulated(targets, costs, math.inf, 3, 1, 20_000)
    assert mean == pytest.approx(exact, rel=0.02)
    assert simulated(targets, costs, math.inf, 3, 1, 20_000) == mean


def test_trials_with_curves_on_a_clock_agree_with_the_simulation(made):
    """Whole trainings by random search in the loop itself: the target counts once its training is over."""
    trainings = made(1)
    goal = make_goal("ftc", trainings, tolerance=0.4)
    tau, workers, n_initial, runtimes = 12.0, 2, 3, []
    rules = {"workers": workers, "resources": np.unique(trainings.resources), "clock": "cost"}
    problem = Problem(np.zeros((30, 1)), 1, 30, n_initial, **rules)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        initial = rng.permutation(30)[:n_initial]
        told = run_trial(problem, trainings, RandomSearch, rng, initial)
        runtimes.append(runtime_within(goal, told, tau, n_initial, 30))
    mean, _ = restricted_mean(np.array(runtimes), tau)
    expected = simulated(goal.targets, trainings.whole_costs, tau, n_initial, workers)
    spread = np.minimum(runtimes, tau).std() / len(runtimes) ** 0.5
    assert mean == pytest.approx(expected, abs=4 * spread)


def trial(*rows, failure="", timing=None):
    return Trajectory(np.array(rows), np.zeros((len(rows), 1)), failure, timing)


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (trial(3, 4, 0), 3.0),
        (trial(0), 2.0),  # not before the initial design of two is over
        (trial(3, 4, 5, 6, 0), 5.0),  # reached at the budget itself
        (trial(3, 4, 5, 6, 7, 0), np.inf),
        (trial(3, 4, 5, 6, 7), np.inf),
        (trial(3, 4), np.nan),  # stopped early: nobody knows
        (trial(3, 4, failure="crashed"), np.inf),
        (trial(0, 3, failure="crashed"), np.inf),
    ],
)
def test_what_a_trial_counts(told, value):
    goal = Goal(np.arange(9) == 0, 1)
    assert runtime_within(goal, told, 5.0, 2) == value or np.isnan(value)
    assert np.isnan(runtime_within(goal, told, 5.0, 2)) == np.isnan(value)


def test_a_trial_on_a_clock_that_ran_out_of_time_is_capped_and_one_short_of_rows_is_not():
    goal = Goal(np.arange(9) == 0, 1)
    ran = Timeline(
        np.ones(2), np.array([2.0, 3.0]), np.array([0.0, 2.0]), np.array([2.0, 5.0]), np.zeros(2, np.int32)
    )
    assert runtime_within(goal, trial(3, 4, timing=ran), 6.0, 1, 9) == np.inf
    assert np.isnan(runtime_within(goal, trial(3, 4, timing=ran), 6.0, 1, 2))
    assert runtime_within(goal, trial(3, 4, timing=ran), 5.0, 1, 2) == np.inf


def test_restricted_means():
    assert restricted_mean(np.array([3.0, np.inf, 4.0, np.inf]), 10.0) == (6.75, 0.5)
    assert np.isnan(restricted_mean(np.array([3.0, np.nan]), 10.0)).all()
    assert np.isnan(restricted_mean(np.array([]), 10.0)).all()
