from __future__ import annotations

import errno
import re
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.problem import Problem, name_of
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial

N_ROWS = 8
INITIAL = [6, 1, 3]
LOSSES = np.linspace([0.0, 5.0], [7.0, -5.0], N_ROWS)


class FromBelow:
    """The lowest row that was not told."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        self.told = []

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)
        self.told.append((index, losses.tolist()))


def run(make_method, losses=LOSSES, goals=(), budget=N_ROWS, initial=INITIAL):
    """One worker that looks up rows of these losses."""
    problem = Problem(np.zeros((len(losses), 1)), 2, budget, len(initial))
    rng = np.random.default_rng(0)
    return run_trial(problem, Trainings.whole(losses), make_method, rng, initial, goals)


def answering(*answers):
    """A method that gives these answers, one each time it is asked, then behaves."""

    class Answering(FromBelow):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self.answers = list(answers)

        def ask(self):
            return self.answers.pop(0) if self.answers else super().ask()

    return Answering


def raising(where, error, after=0):
    """A method that raises in one of its calls, the first or a later one."""

    class Raising(FromBelow):
        calls = 0

        def fail(self, here):
            if here == where:
                self.calls += 1
                if self.calls > after:
                    raise error

        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self.fail("__init__")

        def ask(self):
            self.fail("ask")
            return super().ask()

        def tell(self, index, losses):
            self.fail("tell")
            super().tell(index, losses)

    return Raising


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


# --- methods that misbehave ------------------------------------------------------------------------


def without_place(failure):
    """A reason without the line of this file that raised it."""
    return re.sub(r" \(test_trial_loop\.py, line \d+\)$", "", failure)


def assert_failed(trajectory, rows, reason):
    assert trajectory.failure
    assert reason in trajectory.failure
    assert trajectory.rows.tolist() == rows
    np.testing.assert_array_equal(trajectory.losses, LOSSES[rows])


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no words")

    __str__ = __repr__


class BadIndex:
    def __index__(self):
        raise ValueError("no number")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (6, "ask returned row 6, which was looked up before"),
        (np.int64(1), "ask returned row 1, which was looked up before"),
        (N_ROWS, "ask returned row 8, but rows go from 0 to 7"),
        (10**30, "but rows go from 0 to 7"),
        (-1, "ask returned row -1, but rows go from 0 to 7"),
        (2.0, "ask returned float 2.0, not a row number"),
        (np.float64(2.0), "not a row number"),
        (float("nan"), "ask returned float nan, not a row number"),
        (None, "ask returned NoneType None, not a row number"),
        ("2", "ask returned str '2', not a row number"),
        (True, "ask returned bool True, not a row number"),
        (False, "ask returned bool False, not a row number"),
        (np.True_, "not a row number"),
        ([2], "ask returned list [2], not a row number"),
        (np.array([2]), "not a row number"),
        (Unprintable(), "not a row number"),
        (BadIndex(), "not a row number"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_answer_that_is_no_new_row_ends_the_trial(wrong, reason):
    assert_failed(run(answering(4, wrong)), [*INITIAL, 4], reason)


def test_row_that_the_method_itself_asked_for_before():
    assert_failed(run(answering(4, 4)), [*INITIAL, 4], "ask returned row 4, which was looked up before")


@pytest.mark.parametrize(
    ("where", "after", "rows"),
    [
        ("__init__", 0, INITIAL),
        ("ask", 0, INITIAL),
        ("ask", 2, [*INITIAL, 0, 2]),
        ("tell", 0, INITIAL),
        ("tell", 1, INITIAL),
        ("tell", 2, INITIAL),
        ("tell", 4, [*INITIAL, 0, 2]),
    ],
)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad\n  news"), "ValueError: bad news"),
        (KeyError("lr"), "KeyError: 'lr'"),
        (FileNotFoundError(errno.ENOENT, "no weights"), "FileNotFoundError: [Errno 2] no weights"),
        (StopIteration(), "StopIteration"),
        (SystemExit(3), "tried to exit the process (exit code 3)"),
        (SystemExit("enough"), "tried to exit the process (exit code enough)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exception_ends_the_trial_after_the_initial_design(where, after, rows, error, reason):
    trajectory = run(raising(where, error, after))
    assert_failed(trajectory, rows, reason)
    if not isinstance(error, SystemExit):
        name = "Raising" if where == "__init__" else where
        assert trajectory.failure.startswith(f"{name} raised {type(error).__name__}")


def having(name, **members):
    """A class with these members alone."""
    return type(name, (), {"__init__": lambda self, problem, rng: None, **members})


OnlyAsks = having("OnlyAsks", ask=lambda self: 0)
OnlyTells = having("OnlyTells", tell=lambda self, index, losses: None)


class CannotBeAsked(OnlyTells):
    @property
    def ask(self):
        raise ValueError("not yet")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda problem, rng: None, "what was made, a NoneType, has no ask"),
        (OnlyAsks, "what was made, a OnlyAsks, has no tell"),
        (OnlyTells, "what was made, a OnlyTells, has no ask"),
        (CannotBeAsked, "ask raised ValueError: not yet"),
        (lambda problem: None, "TypeError"),
        (raising("ask", Exception(Unprintable())), "Exception"),
        (lambda problem, rng: 1 / 0, "ZeroDivisionError"),
    ],
    ids=["no method", "no tell", "no ask", "ask raises", "wrong signature", "unprintable", "in a function"],
)
def test_what_is_not_a_method_is_a_failure_too(make, reason):
    assert_failed(run(make), INITIAL, reason)


def test_failure_ends_the_trial_even_where_a_goal_is_open():
    goal = Goal(np.arange(N_ROWS) == 7, 1)
    trajectory = run(raising("ask", ValueError("no"), after=1), goals=[goal])
    assert_failed(trajectory, [*INITIAL, 0], "ValueError: no")


@pytest.mark.parametrize(
    "make",
    [
        lambda: raising("ask", ValueError(f"lost {object()!r}")),
        lambda: raising("tell", SystemExit(object())),
        lambda: answering(object()),
    ],
    ids=["error", "exit", "answer"],
)
def test_reasons_do_not_hold_memory_addresses(make):
    keep = [make(), make()]  # both alive, so that their addresses differ
    first, second = [run(method).failure for method in keep]
    assert "<object object at 0x…>" in first
    assert "0x" not in first.replace("0x…", "")
    assert first == second


def test_reasons_are_short_and_on_one_line():
    failure = run(raising("ask", ValueError("x\ny " * 10_000))).failure
    assert len(failure) < 400
    assert "\n" not in failure
    assert len(run(answering("x" * 10_000)).failure) < 400
    # Of a message 300 characters are kept, and of the whole 400, once what cannot be shown is escaped.
    failure = run(raising("ask", ValueError("x" * 301))).failure
    assert without_place(failure) == "ask raised ValueError: " + "x" * 300 != failure
    assert len(run(raising("ask", ValueError("\x1b" * 300))).failure) == 400


@pytest.mark.parametrize("where", ["__init__", "ask", "tell"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "disk full")], ids=repr)
def test_what_is_not_the_methods_fault_passes_through(where, error):
    with pytest.raises(type(error)) as caught:
        run(raising(where, error))
    assert caught.value is error


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


# --- reasons that can be written and shown ---------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("caf\udce9"), "ask raised ValueError: caf\\udce9"),
        (ValueError("\x1b[2Jgone\x00"), "ask raised ValueError: \\x1b[2Jgone\\x00"),
        (ValueError("\u202egnp.exe"), "ask raised ValueError: \\u202egnp.exe"),
        (SystemExit("\udc80"), "the method tried to exit the process (exit code \\udc80)"),
        (type("Odd\x1b\u202e", (Exception,), {})(), "ask raised Odd\\x1b\\u202e: "),
        (ValueError("Übung 模型"), "ask raised ValueError: Übung 模型"),
    ],
    ids=["surrogate", "escape", "direction", "exit code", "class name", "letters"],
)
def test_reasons_hold_no_character_that_acts_on_a_terminal_or_that_no_file_can_hold(error, shown):
    failure = run(raising("ask", error)).failure
    assert without_place(failure) == shown.rstrip()
    assert failure.encode("utf-8").decode("utf-8") == failure


def test_an_answer_that_cannot_be_written_is_shown_escaped():
    class Odd:
        def __repr__(self):
            return "\ud800\x07"

    assert run(answering(Odd())).failure == "ask returned Odd \\ud800\\x07, not a row number"


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), RecursionError(), MemoryError()], ids=repr)
def test_an_error_that_raises_when_it_is_shown_is_a_failure_like_any_other(error):
    class Mute(Exception):
        def __str__(self):
            raise error

    assert (
        without_place(run(raising("ask", Mute())).failure) == "ask raised Mute: (a Mute that cannot be shown)"
    )


def test_ctrl_c_while_an_error_is_shown_is_the_users():
    class Slow(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(raising("ask", Slow()))
    # In a worker process, where Ctrl-C is ignored, only the method can have raised it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert (
            without_place(run(raising("ask", Slow())).failure)
            == "ask raised Slow: (a Slow that cannot be shown)"
        )
        assert run(raising("ask", KeyboardInterrupt())).failure == "ask raised KeyboardInterrupt"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_failure_names_the_line_of_the_users_code_that_raised_it(tmp_path):
    code = "import numpy as np\n\nclass Mine:\n    def __init__(self, problem, rng):\n        pass\n"
    code += (
        "    def ask(self):\n        return self.best()\n    def best(self):\n        return np.argmax([])\n"
    )
    path = tmp_path / "mine.py"
    path.write_text(code + "    def tell(self, row, losses):\n        pass\n")
    found = {}
    exec(compile(path.read_text(), str(path), "exec"), found)  # noqa: S102
    # What numpy raises is shown where the user called it.
    assert run(found["Mine"]).failure.endswith("argmax of an empty sequence (mine.py, line 9)")


def test_the_name_of_a_method_is_its_own_or_that_of_what_makes_it():
    class Named:
        name = "Mine"

        def __call__(self, problem, rng):
            raise ValueError("no")

    assert without_place(run(Named()).failure) == "Mine raised ValueError: no"
    assert name_of(Named) == "Named"
    assert name_of(name_of) == "name_of"
    assert name_of(type("Empty", (), {"name": ""})()) == "Empty"
    assert name_of(type("Number", (), {"name": 3})()) == "Number"
    assert name_of(type("Plain", (), {})()) == "Plain"
