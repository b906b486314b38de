"""The sequential loop: initial design, then ask, evaluate, tell, without replacement (Zhang & Duh 2020,
Figure 2 and Algorithm 1).

The loop does not know where losses come from. A table look-up and a training run are both an `Evaluate`.

This is the case of the loop in core/timed_loop.py that has one worker and look-ups of one unit of time. It is
a function of its own because most benchmarks are of this kind, and it takes half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Violations, teller
from hpobench_nmt.core.guard import MethodFailure, failure_text, function_of, guarded, row_number
from hpobench_nmt.core.problem import MethodFactory, Problem, name_of
from hpobench_nmt.core.trajectory import Goal, Trajectory

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
    violations: Violations | None = None,
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
        violations: of the problem's constraints, by row; None: there are none.
    """
    n_rows = len(problem.features)
    budget = min(problem.lookups, n_rows)
    rows: list[int] = []
    losses: list[Floats] = []
    seen = bytearray(n_rows)
    settled = Settled(goals)

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
        return guarded(what, function, *arguments)

    failure = ""
    try:
        if on_call is not None:
            on_call("making it")
        method = guarded(name_of(make_method), make_method, problem, rng)
        ask, tell = function_of(method, "ask"), function_of(method, "tell")
        if violations is not None:
            tell = guarded("tell_constrained", teller, method, tell, violations)
        for row in initial:
            call("tell", tell, row, look_up(row))
        while len(rows) < budget and not settled.all:
            row = row_number("ask", call("ask", ask), n_rows)
            if seen[row]:
                raise MethodFailure(f"ask returned row {row}, which was looked up before")
            call("tell", tell, row, look_up(row))
    except MethodFailure as error:
        for row in initial[len(rows) :]:
            look_up(row)
        failure = failure_text(str(error))
    array = np.array(losses) if losses else np.empty((0, problem.n_objectives))
    return Trajectory(np.array(rows, dtype=np.int64), array, failure)


class Settled:
    """Counts down the goals; `all` says when none is open any more."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._open = [[goal.targets.tolist(), goal.needed, goal.score_at or np.inf] for goal in goals]
        self._from = [None if goal.resources is None else goal.resources.tolist() for goal in goals]
        self._endless = not goals
        self.all = False

    def note(self, row: int, time: float) -> None:
        """A row was looked up; the time is the number of look-ups."""
        if self._endless or self.all:
            return
        still = False
        for goal in self._open:
            goal[1] -= goal[0][row]
            still = still or (goal[1] > 0 and time < goal[2])
        self.all = not still

    def note_part(self, row: int, before: float, now: float, done: bool, time: float) -> None:
        """A row was trained from one resource, negative if it is new, to another, or to its end (done)."""
        if self._endless or self.all:
            return
        still = False
        for goal, counts_from in zip(self._open, self._from, strict=True):
            if goal[0][row] and (done if counts_from is None else before < counts_from[row] <= now):
                goal[1] -= 1
            still = still or (goal[1] > 0 and time < goal[2])
        self.all = not still
