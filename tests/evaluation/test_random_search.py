from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twins.permutations import over_all_permutations

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.random_search import (
    exact_random_search,
    random_search_attainment,
    random_search_choice,
    random_search_regret,
)
from hpobench_nmt.evaluation.scores import SCORES, answer, make_goal
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.random_search import RandomSearch


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    n_initial=st.integers(1, 4),
    budget=st.integers(1, 7),
    ties=st.sampled_from(["any", "first"]),
)
def test_mean_and_spread_over_all_permutations(score, data, n_initial, budget, ties):
    n_objectives = 1 if SCORES[score].n_objectives == 1 else data.draw(st.integers(2, 3))
    cell = st.sampled_from([np.nan, 0.0, 1.0, 1.5, 2.0, 7.0])
    losses = np.array(data.draw(st.lists(st.tuples(*[cell] * n_objectives), min_size=1, max_size=5)))
    assume(not np.isnan(losses).any(axis=1).all())
    n_initial = min(n_initial, len(losses))
    asked = make_goal(score, losses, tolerance=0.5, score_at=budget, ties=ties)
    expected = over_all_permutations(asked, n_initial)
    np.testing.assert_allclose(exact_random_search(asked, n_initial), expected, atol=1e-7)


@pytest.mark.parametrize("n_initial", [1, 3, 6])
@pytest.mark.parametrize("score", SCORES)
def test_seven_rows_exhaustively(score, n_initial):
    losses = np.array([[2.0, 5.0], [1.0, 6.0], [1.2, 5.5], [4.0, 1.0], [3.0, 3.0], [1.0, 7.0], [4.0, 4.0]])
    asked = make_goal(
        score, losses[:, :1] if SCORES[score].n_objectives == 1 else losses, tolerance=0.3, score_at=3
    )
    expected = over_all_permutations(asked, n_initial)
    np.testing.assert_allclose(exact_random_search(asked, n_initial), expected, rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(n_rows=st.integers(1, 900), data=st.data())
def test_mean_runtime_without_an_initial_design(n_rows, data):
    n_targets = data.draw(st.integers(1, n_rows))
    losses = np.ones((n_rows, 1))
    losses[:n_targets] = 0.0
    mean, _ = exact_random_search(make_goal("ftb", losses), n_initial=1)
    assert mean == pytest.approx((n_rows + 1) / (n_targets + 1))


@pytest.mark.parametrize(
    ("n_rows", "n_within", "in_paper"), [(118, 7, 14.9), (176, 8, 19.7), (767, 3, 192.0)]
)
def test_expected_runtimes_of_the_published_tables(n_rows, n_within, in_paper):
    losses = np.ones((n_rows, 1))
    losses[:n_within] = 0.0
    mean, _ = exact_random_search(make_goal("ftc", losses, tolerance=0.5), n_initial=1)
    assert mean == pytest.approx(in_paper, abs=0.06)


def test_trials_that_see_only_failed_trainings_are_left_out_where_they_are_rare():
    losses = np.concatenate([np.full(10, np.nan), np.arange(20.0) ** 2])[:, None]
    # The best of 8 rows is the i-th of 20, or none: of 30.
    count = np.array([math.comb(29 - i, 7) for i in range(20)])
    assert 1e-6 < 1 - count.sum() / math.comb(30, 8) < 1e-3
    mean = count @ losses[10:, 0] / count.sum()
    std = math.sqrt(count @ losses[10:, 0] ** 2 / count.sum() - mean**2)
    np.testing.assert_allclose(exact_random_search(make_goal("fb", losses, score_at=8), 1), (mean, std))
    assert math.isnan(exact_random_search(make_goal("fb", losses, score_at=4), 1)[0])


def test_budget_that_may_see_only_failed_trainings_has_no_mean():
    losses = np.array([[np.nan], [np.nan], [1.0], [3.0]])
    assert all(math.isnan(x) for x in exact_random_search(make_goal("fb", losses, score_at=2), 1))
    mean, std = exact_random_search(make_goal("fb", losses, score_at=3), 1)
    # Three of four rows: row 2 is left out once in four.
    assert mean == pytest.approx(0.25 * 2.0)
    assert std == pytest.approx(math.sqrt(0.25 * 4.0 - 0.25))


@pytest.mark.parametrize("budget", [20, 50])
def test_budget_that_spends_the_table_finds_the_whole_front(budget):
    losses = np.column_stack([np.arange(20.0), np.arange(20.0)[::-1] // 4])
    asked = make_goal("fbp", losses, score_at=budget)
    assert exact_random_search(asked, 3) == (asked.targets.sum(), 0.0)


def test_front_that_is_never_reached_has_no_exact_value():
    asked = make_goal("fta", np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]))
    impossible = type(asked)(asked.targets, needed=3)
    assert all(math.isnan(x) for x in exact_random_search(impossible, 1))


def random_losses(n_objectives, n_rows=60):
    return np.round(np.random.default_rng(n_objectives).normal(size=(n_rows, n_objectives)), 1)


@pytest.mark.parametrize("n_initial", [1, 3, 20])
@pytest.mark.parametrize("score", SCORES)
def test_against_simulation(score, n_initial):
    losses = random_losses(1 if SCORES[score].n_objectives == 1 else 2)
    asked = make_goal(score, losses, tolerance=0.3, score_at=15)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(losses)) for _ in range(4000)]
    scores = np.array([answer(asked, Trajectory(rows, losses[rows]), n_initial) for rows in orders])
    mean, std = exact_random_search(asked, n_initial)
    if score == "fbh":
        assert math.isnan(std)
        std = scores.std()
    assert abs(scores.mean() - mean) < 4 * std / math.sqrt(4000)
    if len(np.unique(scores)) == 1:  # a spread that so few orders do not show
        assert std < 0.05
        return
    # The standard error of a standard deviation, from the fourth moment.
    error = np.sqrt(((scores - mean) ** 4).mean() - std**4) / (2 * std * math.sqrt(4000))
    assert abs(scores.std() - std) < 4 * error


@pytest.mark.parametrize("score", SCORES)
def test_random_search_in_the_loop_meets_its_exact_scores(score):
    losses = random_losses(1 if SCORES[score].n_objectives == 1 else 2, n_rows=40)
    problem = Problem(np.zeros((40, 1)), losses.shape[1], 40, 3)
    asked = make_goal(score, losses, tolerance=0.3, score_at=10)
    scores = []
    for trial in range(500):
        initial = initial_rows(0, "random", trial, 40, 3)
        rng = method_generator(0, "random", "RS", trial)
        done = run_trial(problem, Trainings.whole(losses), BUILT_IN["RS"].load(), rng, initial, [asked])
        scores.append(answer(asked, done, 3))
    mean, std = exact_random_search(asked, 3)
    assert abs(np.mean(scores) - mean) < 4 * (np.std(scores) if score == "fbh" else std) / math.sqrt(500)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.integers(0, 4),
    st.integers(1, 3),
    st.integers(0, 4),
)
@settings(max_examples=60, deadline=None)
def test_the_exact_cost_of_random_search_is_that_of_all_orders(costs, k, needed, n_initial):
    costs, targets = np.array(costs, dtype=float), np.arange(len(costs)) < k
    n_initial = min(n_initial, len(costs))
    mean, std = exact_random_search(Goal(targets, needed), n_initial, costs=costs)
    if targets.sum() < needed:
        assert np.isnan([mean, std]).all()
        return
    taken = []
    for order in itertools.permutations(range(len(costs))):
        met = np.flatnonzero(targets[list(order)])[needed - 1] + 1
        taken.append(costs[list(order[: max(met, n_initial)])].sum())
    np.testing.assert_allclose(mean, np.mean(taken), rtol=1e-9, atol=1e-9)
    if n_initial < 2:
        np.testing.assert_allclose(std, np.std(taken), rtol=1e-9, atol=1e-6)
    else:
        assert np.isnan(std) or (costs == 1.0).all()  # of look-ups it is known


def test_simulated_random_search_has_its_exact_cost():
    rng = np.random.default_rng(0)
    costs, losses = rng.lognormal(size=60), rng.normal(size=(60, 1))
    given = Trainings.whole(losses, costs)
    goal = make_goal("ftc", given, tolerance=0.5)
    problem = Problem(np.zeros((60, 1)), 1, 60, 0, clock="cost")
    trials = [
        run_trial(problem, given, RandomSearch, np.random.default_rng(seed), (), [goal])
        for seed in range(1000)
    ]
    times = [answer(goal, trial, 0) for trial in trials]
    mean, std = exact_random_search(goal, 0, costs=costs)
    assert abs(np.mean(times) - mean) < 3.5 * std / 1000**0.5
    np.testing.assert_allclose(np.std(times), std, rtol=0.1)


def test_quantiles_are_those_of_exact_fractions():
    """Chances that are just a level are rounded now above it and now below."""
    levels = [Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4)]
    for n_rows in range(1, 25):
        curve = random_search_regret(np.arange(float(n_rows)), n_rows, [float(level) for level in levels])
        for t in range(1, n_rows + 1):
            # The best of t rows is among the k best with chance 1 - C(N - k, t) / C(N, t).
            chances = [1 - Fraction(comb(n_rows - k, t), comb(n_rows, t)) for k in range(n_rows + 1)]
            expected = [next(k for k, c in enumerate(chances) if c >= level) - 1 for level in levels]
            assert curve.quantiles[:, t - 1].tolist() == expected, (n_rows, t)


def test_a_quantile_is_reached_where_the_chance_is_just_the_level():
    """Of two rows, one draw finds the best with probability 0.5."""
    assert random_search_regret(np.array([1.0, 0.0]), 1, [0.5]).quantiles.tolist() == [[0.0]]
    losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert sorted(random_search_attainment(losses, 1).tolist()) == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("drawn", [1, 2, 4, 6])
def test_the_row_that_is_chosen_over_all_orders(drawn):
    losses = np.array([3.0, 1.0, 2.0, 1.0, 5.0, 1.0])  # ties, which the first one drawn wins
    values = np.array([7.0, 10.0, -3.0, 2.0, 0.5, 4.0])
    chosen = [
        values[min(order[:drawn], key=lambda row: losses[row])] for order in itertools.permutations(range(6))
    ]
    assert random_search_choice(losses, values, drawn) == pytest.approx(np.mean(chosen))


def test_a_row_without_a_loss_is_never_chosen():
    losses, values = np.array([np.nan, 2.0, 1.0]), np.array([100.0, 5.0, 3.0])
    assert random_search_choice(losses, values, 3) == 3.0
    assert random_search_choice(losses, values, 2) == pytest.approx((3 + 3 + 5) / 3)
    assert np.isnan(random_search_choice(losses, values, 1))
