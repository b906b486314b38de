"""Methods that fail in the trial loop: wrong answers, exceptions, and what is written of them."""

from __future__ import annotations

import errno
import re
import signal

import numpy as np
import pytest
from trials_of_look_ups import INITIAL, LOSSES, N_ROWS, FromBelow, answering, run

from hpobench_nmt.core.problem import name_of
from hpobench_nmt.core.trajectory import Goal


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


# --- methods that misbehave ------------------------------------------------------------------------


def without_place(failure):
    """A reason without the line of this file that raised it."""
    return re.sub(r" \(test_trial_loop_failures\.py, line \d+\)$", "", failure)


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
