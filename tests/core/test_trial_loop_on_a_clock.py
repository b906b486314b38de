"""The trial loop on a clock, step by step: requests, observations, budgets and goals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trials_on_a_clock import Fails, problem_of, run, trainings

from hpobench_nmt.core.problem import Request
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.random_search import RandomSearch


def scripted(*answers):
    """A method that gives these answers one after the other, and notes what it is told."""

    class Scripted:
        told = None

        def __init__(self, problem, rng):
            self.answers = list(answers)
            type(self).told = []

        def suggest(self, running):
            answer = self.answers.pop(0)
            return answer(running) if callable(answer) else answer

        def observe(self, progress):
            self.told.append(progress)

    return Scripted


def told(trial):
    """What a trajectory says, as a list of tuples: row, resource, start, finish, cost, worker."""
    t = trial.timeline
    columns = (trial.rows, t.resources, t.starts, t.finishes, t.costs, t.workers)
    return list(zip(*(column.tolist() for column in columns), strict=True))


# --- one worker, by hand ---------------------------------------------------------------------------


def test_a_training_goes_on_from_where_it_is_at_the_cost_of_the_rest():
    method = scripted((0, 1.0), 1, (0, 2.0), Request(2, 2.0), Request(0))
    trial = run(method)
    assert trial.failure == ""
    assert told(trial) == [
        (0, 1.0, 0.0, 10.0, 10.0, 0),
        (1, 3.0, 10.0, 25.0, 15.0, 0),
        (0, 2.0, 25.0, 35.0, 10.0, 0),
        (2, 2.0, 35.0, 42.0, 7.0, 0),
        (0, 4.0, 42.0, 62.0, 20.0, 0),
    ]
    np.testing.assert_array_equal(trial.losses, [[3.0], [1.0], [2.0], [np.nan], [2.0]])  # the best so far


def test_without_pauses_a_training_that_was_left_starts_anew_and_one_that_goes_on_at_once_does_not():
    method = scripted((0, 1.0), (0, 2.0), (1, 1.0), 0, 1, 2)
    trial = run(method, trainings(resume=False))
    assert told(trial) == [
        (0, 1.0, 0.0, 10.0, 10.0, 0),
        (0, 2.0, 10.0, 20.0, 10.0, 0),
        (1, 1.0, 20.0, 25.0, 5.0, 0),
        (0, 4.0, 25.0, 65.0, 40.0, 0),
        (1, 3.0, 65.0, 80.0, 15.0, 0),
        (2, 2.0, 80.0, 87.0, 7.0, 0),
    ]


def test_without_pauses_a_worker_that_waited_starts_anew():
    method = scripted((0, 1.0), 1, None, (0, 2.0), None, 2, 0)
    trial = run(method, trainings(resume=False), workers=2)
    # Worker 0 comes to row 0's first checkpoint at 10 and waits until row 1 has ended, at 15.
    assert told(trial)[:3] == [
        (0, 1.0, 0.0, 10.0, 10.0, 0),
        (1, 3.0, 0.0, 15.0, 15.0, 1),
        (0, 2.0, 15.0, 35.0, 20.0, 0),
    ]


def test_a_request_between_two_checkpoints_goes_to_the_next_one_and_one_beyond_the_last_to_the_end():
    method = scripted((0, 1.5), (1, 2), (0, 1e9), (2, 0.5))
    trial = run(method)
    assert [(row, resource) for row, resource, *_ in told(trial)] == [(0, 2.0), (1, 3.0), (0, 4.0), (2, 2.0)]


def test_a_method_is_told_the_whole_curve_up_to_there_and_whether_the_training_has_ended():
    method = scripted((0, 2.0), 1, 0, 2)
    run(method)
    first, second, third, fourth = method.told
    assert (first.row, first.done, first.time) == (0, False, 20.0)
    assert first.resources.tolist() == [1.0, 2.0]
    assert first.costs.tolist() == [10.0, 20.0]
    assert first.losses.tolist() == [[3.0], [2.0]]
    assert first.best.tolist() == [2.0]
    assert (second.row, second.done, second.time) == (1, True, 35.0)
    assert (third.row, third.done, third.best.tolist()) == (0, True, [2.0])
    assert third.losses.tolist() == [[3.0], [2.0], [2.5]]
    assert fourth.done
    assert np.isnan(fourth.best).all()  # it failed


def test_a_method_cannot_change_what_is_recorded():
    class Changing(scripted(0, 1, 2)):
        def observe(self, progress):
            progress.losses[:] = 0.0

    assert "read-only" in run(Changing).failure

    class Telling(RandomSearch):
        def tell(self, index, losses):
            super().tell(index, losses)
            losses *= 0.0

    trial = run(Telling)
    assert trial.failure == ""
    np.testing.assert_array_equal(trial.losses[trial.rows == 0], [[2.0]])


def test_the_rows_that_run_are_shown_and_cannot_be_changed():
    seen = []

    def look(running):
        seen.append(dict(running))
        return 2

    run(scripted((0, 2.0), look, 1, 0), workers=2)
    assert seen == [{0: 2.0}]

    def change(running):
        running[1] = 2.0

    assert "raised TypeError" in run(scripted(change)).failure


# --- requests that make no sense -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([(0, 2.0), (0, 1.0)], "row 0 up to resource 1, but it was trained to 2"),
        ([(0, 2.0), (0, 2.0)], "row 0 up to resource 2, but it was trained to 2"),
        ([0, 0], "suggest returned row 0, whose training has ended"),
        ([2, (2, 9.0)], "suggest returned row 2, whose training has ended"),
        ([None], "suggest returned None, to wait, but nothing is running and there are rows left to train"),
        ([(0, 1.0), None], "nothing is running"),
        ([3], "suggest returned row 3, but rows go from 0 to 2"),
        ([-1], "suggest returned row -1"),
        (["0"], "suggest returned str '0', not a row number"),
        ([True], "not a row number"),
        ([(True, 1.0)], "not a row number"),
        ([(0, 1.0, 2.0)], "suggest returned 3 values, not a row and a resource"),
        ([(0, math.nan)], "a request for resource nan; it must be above 0"),
        ([(0, -1)], "a request for resource -1; it must be above 0"),
        ([(0, 0)], "a request for resource 0; it must be above 0"),
        ([(0, "far")], "a request for str 'far', which is not a resource"),
        ([(0, True)], "a request for bool True, which is not a resource"),
        ([(0, None)], "a request for NoneType None, which is not a resource"),
        ([], "suggest raised IndexError: pop from empty list"),
    ],
)
def test_a_request_that_makes_no_sense_fails_the_trial(answers, reason):
    assert reason in run(scripted(*answers)).failure


def test_a_row_that_is_running_cannot_be_asked_for():
    assert run(scripted(0, 0), workers=2).failure == "suggest returned row 0, which is running"
    assert run(scripted((0, 1.0), (0, 2.0)), workers=2).failure == "suggest returned row 0, which is running"


class Sequential:
    """Trains rows 1, 0 and 2 to their end, and notes what it is told."""

    heard = None

    def __init__(self, problem, rng):
        self.left = [1, 0, 2]
        type(self).heard = []

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.heard.append((index, losses.tolist()))
        self.left.remove(index)


def test_no_ask_no_tell_and_a_sequential_method_on_several_workers():
    assert run(Sequential).failure == ""
    failure = run(Sequential, workers=2).failure
    assert failure == (
        "what was made, a Sequential, has no suggest, so it cannot run several trainings at a time: "
        "use 1 worker, not 2"
    )
    assert run(lambda p, r: object()).failure == "what was made, a object, has no ask"
    only_suggests = type("Half", (), {"__init__": lambda self, p, r: None, "suggest": lambda self, r: 0})
    assert run(only_suggests).failure == "what was made, a Half, has no tell"


def test_a_sequential_method_trains_rows_to_their_end_and_is_told_the_best_checkpoint():
    trial = run(Sequential)
    assert Sequential.heard[:2] == [(1, [1.0]), (0, [2.0])]
    assert [row[3] for row in told(trial)] == [15.0, 55.0, 62.0]
    again = type("Again", (Sequential,), {"tell": lambda self, index, losses: None})
    assert run(again).failure == "ask returned row 1, which was looked up before"


def test_a_failed_method_leaves_the_whole_initial_design_and_nothing_else():
    class Failing(RandomSearch):
        def tell(self, index, losses):
            raise ValueError("no")

    given = Trainings.whole(np.arange(6.0)[:, None], np.array([9.0, 1.0, 1.0, 1.0, 1.0, 5.0]))
    trial = run(Failing, given, workers=3, initial=[0, 1, 5])
    assert trial.failure.startswith("tell raised ValueError: no (test_trial_loop_on_a_clock.py, line ")
    assert trial.rows.tolist() == [1, 5, 0]
    trial = run(lambda p, r: 1 / 0, given, workers=2, initial=[0, 1, 5])
    assert trial.failure.startswith("<lambda> raised ZeroDivisionError: division by zero (")
    assert told(trial) == [(1, 1, 0, 1, 1, 1), (5, 1, 1, 6, 5, 1), (0, 1, 0, 9, 9, 0)]


def test_errors_that_are_not_the_methods_pass_through():
    class Full(RandomSearch):
        def tell(self, index, losses):
            raise OSError(28, "no space")

    with pytest.raises(OSError, match="no space"):
        run(Full)


def test_every_call_is_announced():
    calls = []
    problem = problem_of(trainings())
    method = scripted((0, 1.0), 1, 0, 2)
    run_trial(problem, trainings(), method, np.random.default_rng(0), (), (), calls.append)
    assert calls == ["making it", *["suggest", "observe"] * 4]
    calls.clear()
    run_trial(problem, trainings(), Fails, np.random.default_rng(0), (), (), calls.append)
    assert calls == ["making it", *["ask", "tell"] * 3]


# --- budgets and goals -----------------------------------------------------------------------------


def test_a_trial_ends_before_the_first_training_that_would_finish_too_late():
    script = [(0, 1.0), 1, (0, 2.0), 2, 0]
    assert [row[3] for row in told(run(scripted(*script), time=35.0))] == [10.0, 25.0, 35.0]
    assert [row[3] for row in told(run(scripted(*script), time=34.9))] == [10.0, 25.0]
    assert run(scripted(*script[:3]), time=35.0).failure == ""  # nobody is asked once the time is over
    # The initial design is trained in any case.
    assert [row[3] for row in told(run(scripted(*script), initial=[0], time=1.0))] == [40.0]


def test_a_budget_of_rows_does_not_count_those_that_go_on():
    trial = run(scripted((0, 1.0), (1, 1.0), (0, 2.0), 2), lookups=2)
    assert trial.failure == ""
    assert trial.rows.tolist() == [0, 1, 0]
    assert run(scripted(0, 1), lookups=2).rows.tolist() == [0, 1]
    for many in (3, 20):  # of three rows
        trial = run(scripted((0, 1.0), 1, np.int64(2), 0), lookups=many)
        assert (trial.failure, trial.rows.tolist()) == ("", [0, 1, 2, 0])
    one = Trainings([0, 2, 3], [0.0, 1.0, 1.0], [0.0, 3.0, 2.0], np.zeros((3, 1)))
    goal = Goal(np.array([True, False]), 1, resources=np.array([0.0, 1.0]))
    assert told(run(scripted((0, 0.5)), one, goals=[goal])) == [(0, 1.0, 0.0, 3.0, 3.0, 0)]


def test_a_goal_is_met_at_the_resource_from_which_the_row_counts():
    def goal(resources, needed=1, score_at=None):
        return [Goal(np.array([True, True, False]), needed, score_at, resources=resources)]

    script = [(0, 1.0), (0, 2.0), (1, 1.0), 1, 0, 2]
    assert run(scripted(*script), goals=goal(np.array([2.0, 1, 1]))).rows.tolist() == [0, 0]
    assert run(scripted(*script), goals=goal(np.array([4.0, 3, 1]))).rows.tolist() == [0, 0, 1, 1]
    assert run(scripted(*script), goals=goal(np.array([1.0, 1, 1]), 2)).rows.tolist() == [0, 0, 1]
    assert run(scripted(*script), goals=goal(np.array([4.0, 9, 9]), 2, 25.0)).rows.tolist() == [0, 0, 1]
    assert run(scripted(*script), goals=goal(np.array([4.0, 9, 9]), 2, 24.0)).rows.tolist() == [0, 0, 1]
    assert run(scripted(*script), goals=goal(np.array([4.0, 9, 9]), 2, 20.0)).rows.tolist() == [0, 0]


def test_all_that_finishes_at_one_time_is_told_before_the_next_request():
    calls = []

    class Noting(RandomSearch):
        def suggest(self, running):
            calls.append("suggest")
            return super().suggest(running)

        def tell(self, index, losses):
            calls.append("tell")
            super().tell(index, losses)

    run(Noting, Trainings.whole(np.zeros((4, 1))), workers=2)
    assert calls == ["suggest"] * 2 + ["tell"] * 2 + ["suggest"] * 2 + ["tell"] * 2
