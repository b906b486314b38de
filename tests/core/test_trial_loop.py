"""The trial loop on look-ups: which losses a method receives, and when a trial ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials_of_look_ups import INITIAL, LOSSES, N_ROWS, FromBelow, answering, run

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial

# --- trials that go well ---------------------------------------------------------------------------


def test_trial_looks_up_the_initial_design_and_then_what_is_asked():
    trajectory = run(FromBelow)
    assert trajectory.rows.tolist() == [6, 1, 3, 0, 2, 4, 5, 7]
    assert trajectory.rows.dtype == np.int64
    assert trajectory.timing is None  # compressed
    assert trajectory.timeline.finishes.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_array_equal(trajectory.losses, LOSSES[trajectory.rows])
    assert trajectory.failure == ""


def test_method_is_told_everything_in_order():
    made = []
    run(lambda problem, rng: made.append(FromBelow(problem, rng)) or made[0])
    assert made[0].told == [(row, LOSSES[row].tolist()) for row in (6, 1, 3, 0, 2, 4, 5, 7)]


def test_method_gets_the_problem_and_the_generator():
    given_to = []
    problem, rng = Problem(np.zeros((N_ROWS, 1)), 2, 3, 1), np.random.default_rng(5)

    def make(*arguments):
        given_to.extend(arguments)
        return FromBelow(*arguments)

    run_trial(problem, Trainings.whole(LOSSES), make, rng, [0])
    assert given_to[0] is problem
    assert given_to[1] is rng


@pytest.mark.parametrize(("budget", "n_looked_up"), [(3, 3), (5, 5), (8, 8), (100, 8), (1, 3)])
def test_budget_counts_the_initial_design_which_is_always_looked_up(budget, n_looked_up):
    trajectory = run(FromBelow, budget=budget)
    assert len(trajectory.rows) == n_looked_up
    assert trajectory.failure == ""


def test_failed_trainings_are_told_as_nan():
    losses = LOSSES.copy()
    losses[[1, 2], 0] = np.nan
    made = []
    trajectory = run(lambda problem, rng: made.append(FromBelow(problem, rng)) or made[0], losses)
    assert trajectory.failure == ""
    np.testing.assert_array_equal(trajectory.losses, losses[trajectory.rows])
    told = dict(made[0].told)
    np.testing.assert_array_equal(told[1], losses[1])
    np.testing.assert_array_equal(told[2], losses[2])


@pytest.mark.parametrize("number", [int, np.int64, np.int8, np.uint16, np.array])
def test_any_kind_of_integer_is_a_row_number(number):
    trajectory = run(answering(number(5)))
    assert trajectory.failure == ""
    assert trajectory.rows.tolist() == [6, 1, 3, 5, 0, 2, 4, 7]


def test_method_cannot_change_what_is_recorded():
    class Scaling(FromBelow):
        def tell(self, index, losses):
            super().tell(index, losses)
            losses *= 0.0

    trajectory = run(Scaling)
    np.testing.assert_array_equal(trajectory.losses, LOSSES[trajectory.rows])


def test_no_rows_give_empty_losses_of_the_right_width():
    trajectory = run(FromBelow, budget=0, initial=[])
    assert trajectory.losses.shape == (0, 2)
    assert trajectory.rows.shape == (0,)
    assert trajectory.rows.dtype == np.int64


class Suggests:
    """Has `suggest` alone, and is told by `tell`."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def suggest(self, running):
        assert not running
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)


class Observes(Suggests):
    tell = None

    def observe(self, progress):
        assert progress.done and progress.resources.tolist() == progress.costs.tolist() == [1.0]
        assert progress.losses.tolist() == [progress.best.tolist()] == [LOSSES[progress.row].tolist()]
        self.left.remove(progress.row)


class Both(Suggests):
    def observe(self, progress):
        raise AssertionError("a look-up has no curve")


@pytest.mark.parametrize("kind", [Suggests, Observes, Both])
def test_what_a_function_makes_may_have_suggest_alone(kind):
    trajectory = run(lambda problem, rng: kind(problem, rng))
    assert (trajectory.failure, trajectory.rows.tolist()) == ("", [6, 1, 3, 0, 2, 4, 5, 7])
    assert trajectory.timing is None


# --- goals -----------------------------------------------------------------------------------------


def naive_length(order, n_initial, budget, goals):
    """How many rows are looked up: count upwards until nothing is left to wait for."""
    for time in range(n_initial, len(order) + 1):
        if time >= min(budget, len(order)):
            return time
        seen = set(order[:time])
        if goals and all(
            len(targets & seen) >= needed or (limit is not None and time >= limit)
            for targets, needed, limit in goals
        ):
            return time
    return len(order)


@settings(max_examples=300, deadline=None)
@given(
    order=st.permutations(range(12)),
    n_initial=st.integers(1, 4),
    budget=st.integers(4, 15),
    goals=st.lists(
        st.tuples(st.sets(st.integers(0, 11), min_size=1), st.integers(1, 4), st.none() | st.integers(1, 14)),
        max_size=3,
    ),
)
def test_trial_stops_exactly_when_the_last_goal_is_settled(order, n_initial, budget, goals):
    asked = [Goal(np.isin(np.arange(12), list(targets)), needed, limit) for targets, needed, limit in goals]
    trajectory = run(answering(*order[n_initial:]), np.zeros((12, 2)), asked, budget, order[:n_initial])
    assert trajectory.failure == ""
    assert trajectory.rows.tolist() == list(order[: naive_length(order, n_initial, budget, goals)])


def test_goal_that_cannot_be_reached_exhausts_the_table():
    trajectory = run(FromBelow, goals=[Goal(np.zeros(N_ROWS, dtype=bool), 1)])
    assert len(trajectory.rows) == N_ROWS
    assert trajectory.failure == ""


def test_goals_are_not_used_up_by_a_trial():
    goal = Goal(np.arange(N_ROWS) == 2, 1)
    assert [len(run(FromBelow, goals=[goal]).rows) for _ in range(2)] == [5, 5]


def test_goal_settled_in_the_initial_design_ends_the_trial_after_it():
    made = []
    trajectory = run(
        lambda problem, rng: made.append(FromBelow(problem, rng)) or made[0],
        goals=[Goal(np.arange(N_ROWS) == INITIAL[0], 1)],
    )
    assert trajectory.rows.tolist() == INITIAL
    assert [row for row, _ in made[0].told] == INITIAL


# --- large tables, and the calls of a method -------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "length"), [(1, 4), (255, 258), (256, 259), (257, 260), (700, 703), (701, 1003)]
)
def test_goals_and_rows_are_counted_beyond_a_byte(needed, length):
    # FromBelow looks up 1000, 1001, 1002 first, then 0, 1, 2, ...: the targets are rows 0 to 699.
    goal = Goal(np.arange(1003) < 700, needed)
    trajectory = run(FromBelow, np.zeros((1003, 2)), [goal], 1003, [1000, 1001, 1002])
    assert len(trajectory.rows) == length
    assert trajectory.rows.tolist() == [1000, 1001, 1002, *range(length - 3)]


@pytest.mark.parametrize("score_at", [4, 255, 256, 257, 1000])
def test_a_goal_at_a_number_of_look_ups_is_settled_there(score_at):
    goal = Goal(np.zeros(1003, dtype=bool), 1, score_at)
    trajectory = run(FromBelow, np.zeros((1003, 2)), [goal], 1003, [0, 1, 2])
    assert len(trajectory.rows) == score_at


def test_a_row_far_up_that_was_looked_up_before_is_noticed():
    losses = np.zeros((1003, 2))
    trajectory = run(answering(700, 700), losses, (), 1003, [0, 1, 2])
    assert trajectory.failure == "ask returned row 700, which was looked up before"
    assert trajectory.rows.tolist() == [0, 1, 2, 700]
    trajectory = run(answering(1003), losses, (), 1003, [0, 1, 2])
    assert trajectory.failure == "ask returned row 1003, but rows go from 0 to 1002"


def test_every_call_of_a_method_is_announced_before_it_is_made():
    calls = []

    class Noting(FromBelow):
        def __init__(self, problem, rng):
            calls.append("made")
            super().__init__(problem, rng)

        def ask(self):
            calls.append("asked")
            return super().ask()

        def tell(self, index, losses):
            calls.append("told")
            super().tell(index, losses)

    problem = Problem(np.zeros((N_ROWS, 1)), 2, 4, 2)
    run_trial(problem, Trainings.whole(LOSSES), Noting, np.random.default_rng(0), [3, 1], (), calls.append)
    step = ["ask", "asked", "tell", "told"]
    assert calls == ["making it", "made", "tell", "told", "tell", "told", *step, *step]
