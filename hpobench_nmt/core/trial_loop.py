"""The loop that runs every trial: workers train rows, and a method chooses what an idle worker trains next
(Zhang & Duh 2020, Figure 2 and Algorithm 1, on a clock with several workers).

A look-up is a training with one checkpoint that takes one unit of time. At each moment, all trainings that
finish at that moment are recorded and passed to the method, in the order of their requests. Then each idle
worker gets the next row of the initial design, or the row that the method chooses.

The trial ends

- when nothing is running, and nothing is left to train or the method's budget of rows is spent;
- at the first moment when all goals are settled;
- before the first training that would finish after `problem.time`;
- when the method fails.

Trainings that run at the end are not recorded. The initial design is trained to its end in any case. The loop
keeps an answer until it is used, so that a method is never asked twice for one choice. The `Trainer`
(core/simulation.py) determines where trainings take place.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Violations, observer, teller
from hpobench_nmt.core.guard import (
    MethodFailure,
    as_failure,
    failure_text,
    function_of,
    guarded,
    recommended_row,
    resource_amount,
    row_number,
)
from hpobench_nmt.core.problem import MethodFactory, Problem, Progress, name_of
from hpobench_nmt.core.simulation import Event, SimulatedTrainer, Trainer
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Timeline, Trajectory

OnCall = Callable[[str], None]
TRIAL_VERSION = 1
"""Rises if the loop, the seeds or the tables give trials other values, so that methods look up other rows."""


def run_trial(
    problem: Problem,
    trainings: Trainings | Trainer,
    make_method: MethodFactory,
    rng: np.random.Generator,
    initial: Sequence[int] = (),
    goals: Sequence[Goal] = (),
    on_call: OnCall | None = None,
    violations: Violations | None = None,
    debug: bool = False,
    again: Callable[[int, int], Floats] | None = None,
) -> Trajectory:
    """One trial of a method.

    A method's errors end its trial and are recorded as its failure. A trainer's errors are raised. Each event
    takes O(log W) for W workers, in addition to the method's own time.

    Args:
        problem: what the method sees. Its `workers` is the number of workers of a simulation. `lookups`
            limits how many rows are started; resuming a row does not count.
        trainings: a table's trainings, which are simulated, or a trainer of real ones.
        make_method: makes the method from (problem, rng).
        rng: the method's generator.
        initial: the initial design: rows that are trained to their end first.
        goals: the trial stops as soon as all are settled. Without goals, it runs until the budget is spent.
        on_call: called with the name of each call of the method ("making it", "ask", "tell", "suggest" or
            "observe"), for a time limit.
        violations: violations of the problem's constraints, by row; None without constraints.
        debug: raise the method's errors unchanged, so that a debugger stops there.
        again: where rows may be looked up again, the losses of a row's k-th look-up after the first.
    """
    trainer = SimulatedTrainer(trainings, problem.workers) if isinstance(trainings, Trainings) else trainings
    running: dict[int, float] = {}  # requested resource, by row
    settled = _Settled(goals)
    lookups = isinstance(trainings, Trainings) and trainings.are_lookups and problem.counts_lookups
    method, failure = None, ""
    try:
        method = _Method(
            make_method, problem, rng, trainer.workers, lookups, running, on_call, violations, debug
        )
    except MethodFailure as error:
        if debug and error.__cause__ is not None:
            raise error.__cause__ from None
        failure = str(error)
    if lookups and isinstance(trainings, Trainings) and (method is None or not method.observes):
        return _look_up(problem, trainings.losses, method, initial, settled, failure, again)
    trial = _train(problem, trainer, method, initial, settled, running, failure)
    return replace(trial, timing=None) if lookups else trial


def _look_up(
    problem: Problem,
    losses: Floats,
    method: _Method | None,
    initial: Sequence[int],
    settled: _Settled,
    failure: str,
    again: Callable[[int, int], Floats] | None,
) -> Trajectory:
    """The trial of one worker that looks up whole rows: the same result as `_train`, without events."""
    most = min(problem.lookups, len(problem.features), problem.time)
    rows: list[int] = []
    told: list[Floats] = []
    reached: dict[int, float] = {}
    while True:
        time = len(rows) + 1
        if time <= len(initial):
            row = initial[time - 1]
        elif method is None or settled.all or time > most:
            break
        else:
            try:
                request = method.next(reached)
                if request is None:
                    raise MethodFailure(_NO_PROGRESS)
            except MethodFailure as error:
                failure = str(error)
                break
            row = request[0]
        own = losses[row] if row not in reached or again is None else again(row, rows.count(row))
        rows.append(row)
        settled.note(row, reached.get(row, -1.0), math.inf, time)
        reached[row] = math.inf
        told.append(own)
        if method is not None and (failure := method.told(row, own)):
            method = None
    found, place = np.array(rows, dtype=np.int64), None if again is None else -1
    if again is not None and method is not None and not failure:
        known = [row for row, own in zip(rows, told, strict=True) if not np.isnan(own).any()]
        try:
            best = method.recommended(list(dict.fromkeys(known)))
            place = -1 if best is None else rows.index(best)
        except MethodFailure as error:
            failure = str(error)
    recorded = np.array(told).reshape(len(rows), losses.shape[1])
    return Trajectory(found, recorded, failure_text(failure), recommended=place)


def _train(
    problem: Problem,
    trainer: Trainer,
    method: _Method | None,
    initial: Sequence[int],
    settled: _Settled,
    running: dict[int, float],
    failure: str,
) -> Trajectory:
    """The trial of any number of workers, whose trainings may stop before their end."""
    budget = min(problem.lookups, len(problem.features))
    waiting, unfinished = deque(initial), set(initial)  # of the initial design
    idle = list(range(trainer.workers))
    latest = [-1] * trainer.workers  # the row that each worker trained last
    reached: dict[int, float] = {}  # resource, by row that was started; infinite once its training has ended
    recorded = array("d")  # the events, one after the other
    started, ended, now = 0, 0, 0.0

    while True:
        while idle:
            if waiting:
                row, resource = waiting.popleft(), math.inf
            elif method is None or settled.all or now >= problem.time:
                break
            else:
                spent = started >= budget
                if spent and (method.only_new or len(running) + ended == started):
                    break
                try:
                    request = method.next(reached)
                    if request is None and not running:
                        raise MethodFailure(_NO_PROGRESS)
                except MethodFailure as error:
                    method, failure = None, str(error)
                    break
                if request is None or (spent and reached.get(request[0], math.inf) == math.inf):
                    break
                row, resource = request
            place = 0
            if len(idle) > 1:
                # If possible, a worker continues its own row, so that the training is not paused.
                place = next((i for i, worker in enumerate(idle) if latest[worker] == row), 0)
            worker = idle.pop(place)
            latest[worker] = row
            running[row] = resource
            started += reached.setdefault(row, -1.0) in (-1.0, math.inf)  # a new row, or one again
            trainer.start(worker, row, resource)

        if not running or ((method is None or settled.all) and not unfinished):
            break
        finished = trainer.finish()
        if finished[0].finish > problem.time and not unfinished:
            break
        for event in finished:
            now, _, worker, row, _, _, _, done = event
            del running[row]
            idle.append(worker)
            ended += done
            before, reached[row] = reached[row], math.inf if done else trainer.resource(event)
            settled.note(row, before, reached[row], now)
            recorded.extend(event)
            if unfinished:
                unfinished.discard(row)
            if method is not None:
                news = trainer.progress(event) if method.observes else trainer.best(event)
                if failure := method.told(row, news):
                    method = None
        if len(idle) > 1:
            idle.sort()

    return _trajectory(recorded, trainer, problem.n_objectives, failure_text(failure))


_NO_PROGRESS = "suggest returned None, to wait, but nothing is running and there are rows left to train"


def _trajectory(recorded: array[float], trainer: Trainer, n_objectives: int, failure: str) -> Trajectory:
    # All events are numbers of one type, so that a trial of many events is small and fast to convert.
    columns = np.array(recorded).reshape(-1, len(Event._fields)).T
    events = dict(zip(Event._fields, columns, strict=True))
    rows = events["row"].astype(np.int64)
    losses, resources = trainer.reached(rows, events["checkpoint"].astype(np.int64))
    costs, starts, finishes = (events[name].copy() for name in ("cost", "start", "finish"))
    timing = Timeline(resources, costs, starts, finishes, events["worker"].astype(np.int32))
    return Trajectory(rows, losses.reshape(len(rows), n_objectives), failure, timing)


class _Settled:
    """Counts down the goals. `all` becomes True when the last open goal is settled."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._open: list[list[Any]] = [
            [_found_by_row(goal), goal.needed, goal.score_at or math.inf] for goal in goals
        ]
        self.all = False

    def note(self, row: int, before: float, now: float, time: float) -> None:
        """Record that a row was trained from `before` (negative: it is new) to `now` (infinite: its end)."""
        if not self._open or self.all:
            return
        still = False
        for goal in self._open:
            at = goal[0][row]
            if type(at) is list:
                goal[1] -= bisect_right(at, now) - bisect_right(at, before)
            elif before < at <= now:
                goal[1] -= 1
            still = still or (goal[1] > 0 and time < goal[2])
        self.all = not still


def _found_by_row(goal: Goal) -> list[Any]:
    """By row, the resource from which it counts (NaN if it never does), or those of its models, ascending."""
    found: list[Any] = goal.counts_from.tolist() if goal.rows is None else [math.nan] * goal.n_rows
    if goal.rows is None:
        return found
    for place in np.flatnonzero(goal.targets).tolist():  # ordered by row and resource
        row, at = int(goal.rows[place]), float(goal.counts_from[place])
        found[row] = [*found[row], at] if type(found[row]) is list else [at]
    return found


class _Method:
    """Calls a method in a guarded way, and checks its answers."""

    def __init__(
        self,
        make: MethodFactory,
        problem: Problem,
        rng: np.random.Generator,
        workers: int,
        lookups: bool,
        running: Mapping[int, float],
        on_call: OnCall | None,
        violations: Violations | None,
        debug: bool,
    ) -> None:
        if on_call is not None:
            on_call("making it")
        made = self._made = guarded(name_of(make), make, problem, rng)
        self._n_rows, self._again = len(problem.features), problem.again
        self._running = running
        self._shown = MappingProxyType(running)
        self._on_call, self._debug = on_call, debug
        self.only_new = not callable(guarded("suggest", getattr, made, "suggest", None))
        """Whether it can request only new rows, which are trained to their end."""
        self._ask_name = "ask" if self.only_new else "suggest"
        self._ask = function_of(made, self._ask_name)
        has = {name: callable(guarded(name, getattr, made, name, None)) for name in ("observe", "tell")}
        self.observes = not self.only_new and has["observe"] and not (lookups and has["tell"])
        """Whether it gets curves, not the losses of a row's best checkpoint. A look-up has no curve."""
        self._tell_name = "observe" if self.observes else "tell"
        self._tell = function_of(made, self._tell_name)
        if violations is not None and self.observes:
            self._tell = observer(self._tell, violations)
        elif violations is not None:
            self._tell = guarded("tell_constrained", teller, made, self._tell, violations)
        if self.only_new and workers > 1:
            raise MethodFailure(
                f"what was made, a {type(made).__name__}, has no suggest, so it cannot run several "
                f"trainings at a time: use 1 worker, not {workers}"
            )

    def next(self, reached: Mapping[int, float]) -> tuple[int, float] | None:
        """The next request, or None to wait. `reached` has the resource of each row that was started."""
        name = self._ask_name
        if self._on_call is not None:
            self._on_call(name)
        try:
            answer = self._ask() if self.only_new else self._ask(self._shown)
        except BaseException as error:
            if self._debug:
                raise
            raise as_failure(name, error) from error
        resource = math.inf
        if not self.only_new:
            if answer is None:
                return None
            if isinstance(answer, tuple):
                if len(answer) != 2:
                    raise MethodFailure(f"suggest returned {len(answer)} values, not a row and a resource")
                answer, resource = answer[0], resource_amount("suggest", answer[1])
        row: int = answer if type(answer) is int else row_number(name, answer, self._n_rows)
        if not 0 <= row < self._n_rows:
            row_number(name, answer, self._n_rows)  # raises
        if row in reached:
            self._check_again(row, resource, reached[row])
        return row, resource

    def told(self, row: int, what: Floats | Progress) -> str:
        """Pass it the losses or the progress of a row; returns why it failed, or "" if it did not."""
        if self._on_call is not None:
            self._on_call(self._tell_name)
        try:
            if isinstance(what, Progress):
                self._tell(what)
            else:
                self._tell(row, what.copy())  # a copy that it may change
        except BaseException as error:
            if self._debug:
                raise
            return str(as_failure(self._tell_name, error))
        return ""

    def recommended(self, rows: Sequence[int]) -> int | None:
        """The row that it recommends among some that were looked up; None if it does not recommend rows."""
        recommend = guarded("recommend", getattr, self._made, "recommend", None)
        if not rows or not callable(recommend):
            return None
        return recommended_row(self._made, rows, self._n_rows)

    def _check_again(self, row: int, resource: float, trained: float) -> None:
        """Refuse a request for a row that was started, unless it can be trained further."""
        if row in self._running:
            raise MethodFailure(f"{self._ask_name} returned row {row}, which is running")
        if trained == math.inf and self._again:
            return
        if self.only_new:
            raise MethodFailure(f"ask returned row {row}, which was looked up before")
        if trained == math.inf:
            raise MethodFailure(f"suggest returned row {row}, whose training has ended")
        if resource <= trained:
            raise MethodFailure(
                f"suggest returned row {row} up to resource {resource:g}, but it was trained to {trained:g}"
            )
