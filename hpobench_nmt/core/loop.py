"""The sequential loop: initial design, then ask, evaluate, tell, without replacement (Zhang & Duh 2020,
Figure 2 and Algorithm 1).

The loop does not know where losses come from. A table look-up and a training run are both an `Evaluate`.
"""

from __future__ import annotations

import errno
import operator
import re
import signal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.problem import MethodFactory, Problem, name_of
from hpobench_nmt.core.text import printable
from hpobench_nmt.core.trajectory import Goal, Trajectory

Floats = NDArray[np.float64]

Evaluate = Callable[[int], Floats]
"""The losses of a row, shape (m,), NaN where there are none."""


def run_trial(
    problem: Problem,
    evaluate: Evaluate,
    make_method: MethodFactory,
    rng: np.random.Generator,
    initial: Sequence[int],
    goals: Sequence[Goal] = (),
    on_call: Callable[[str], None] | None = None,
) -> Trajectory:
    """One trial of a method.

    It ends when the problem's budget is spent, when every goal is settled (if there are goals), or when
    all rows were looked up. What a method does wrong ends its trial and is recorded as its failure; what
    `evaluate` raises is passed on.

    Args:
        problem: what the method sees.
        evaluate: where losses come from.
        make_method: makes the method from (problem, rng).
        rng: the method's generator.
        initial: the initial design.
        goals: stop as soon as all are settled; none: run until the budget is spent.
        on_call: told "making it", "ask" or "tell" whenever the method is called; a time limit needs it.
    """
    n_rows = len(problem.features)
    budget = min(problem.lookups, n_rows)
    rows: list[int] = []
    losses: list[Floats] = []
    seen = bytearray(n_rows)
    settled = _Settled(goals)

    def look_up(row: int) -> Floats:
        # Copies: a method must not be able to change what is recorded, or what others are told.
        found = np.array(evaluate(row), dtype=np.float64)
        rows.append(row)
        losses.append(found)
        seen[row] = 1
        settled.note(row, len(rows))
        return found.copy()

    def call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if on_call is not None:
            on_call(what)
        return _guarded(what, function, *arguments)

    failure = ""
    try:
        if on_call is not None:
            on_call("making it")
        ask, tell = _ask_and_tell(_guarded(name_of(make_method), make_method, problem, rng))
        for row in initial:
            call("tell", tell, row, look_up(row))
        while len(rows) < budget and not settled.all:
            row = _row(call("ask", ask), n_rows, seen)
            call("tell", tell, row, look_up(row))
    except MethodFailure as error:
        for row in initial[len(rows) :]:
            look_up(row)
        failure = failure_text(str(error))
    array = np.array(losses) if losses else np.empty((0, problem.n_objectives))
    return Trajectory(np.array(rows, dtype=np.int64), array, failure)


class MethodFailure(Exception):
    """A method did something wrong; the message says what."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def _guarded(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method's code; whatever it raises becomes its failure."""
    try:
        return call(*arguments)
    except KeyboardInterrupt as error:
        # Where Ctrl-C is ignored, as in worker processes, only the method itself can have raised it.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise
        raise MethodFailure(f"{what} raised KeyboardInterrupt") from error
    except SystemExit as error:
        code = _text(str, error.code)
        raise MethodFailure(f"the method tried to exit the process (exit code {code})") from error
    except BaseException as error:
        if is_no_room(error):
            raise  # the machine's fault, not the method's
        raise MethodFailure(f"{what} raised {type(error).__name__}: {_text(str, error)}") from error


def is_no_room(error: BaseException) -> bool:
    """Whether it says that a disk is full: the machine's fault, not a method's."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def failure_text(text: str) -> str:
    """A reason that can be written to any file and terminal, on one line of at most 400 characters."""
    return printable(" ".join(text.split()))[:400]


def _ask_and_tell(method: Any) -> tuple[Callable[[], Any], Callable[[int, Floats], Any]]:
    found = [_guarded(name, getattr, method, name, None) for name in ("ask", "tell")]
    for name, function in zip(("ask", "tell"), found, strict=True):
        if not callable(function):
            raise MethodFailure(f"what was made, a {type(method).__name__}, has no {name}")
    return found[0], found[1]


def _row(answer: Any, n_rows: int, seen: bytearray) -> int:
    """The row number that ask gave, or what is wrong with it."""
    try:
        if isinstance(answer, bool | np.bool_):
            raise TypeError
        row = operator.index(answer)
    except Exception:
        shown = f"{type(answer).__name__} {_text(repr, answer)}"
        raise MethodFailure(f"ask returned {shown}, not a row number") from None
    if not 0 <= row < n_rows:
        raise MethodFailure(f"ask returned row {row}, but rows go from 0 to {n_rows - 1}")
    if seen[row]:
        raise MethodFailure(f"ask returned row {row}, which was looked up before")
    return row


def _text(describe: Callable[[Any], str], thing: object) -> str:
    """A short description of something that a method made, the same in every run."""
    try:
        text = " ".join(describe(thing).split())
    except KeyboardInterrupt:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise
        return f"(a {type(thing).__name__} that cannot be shown)"
    except BaseException:
        return f"(a {type(thing).__name__} that cannot be shown)"
    # Memory addresses differ from run to run.
    return _ADDRESS.sub("0x…", text)[:300]


class _Settled:
    """Counts down the goals."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._open = [[goal.targets.tolist(), goal.needed, goal.score_at or np.inf] for goal in goals]
        self._endless = not goals
        self.all = False

    def note(self, row: int, count: int) -> None:
        if self._endless or self.all:
            return
        still = False
        for goal in self._open:
            goal[1] -= goal[0][row]
            still = still or (goal[1] > 0 and count < goal[2])
        self.all = not still
