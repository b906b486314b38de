"""Real trainings as the trainer of the loop: they are paused, resumed and reported in real time.

If several trainings run at a time, or are stopped early, a journal beside the ledger records what has
finished (journal.py). Paused trainings have their states in the user's cache.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Condition
from typing import Any, Literal, NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.problem import Progress
from hpobench_nmt.core.simulation import Event
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.runner.ledgers.ledger import Record, training_key
from hpobench_nmt.runner.ledgers.ledger_tail import recorded
from hpobench_nmt.runner.specs.spec import describe
from hpobench_nmt.runner.training.processes import Processes, ask_to_save
from hpobench_nmt.runner.training.train_row import Unfinished, train_and_record
from hpobench_nmt.runner.training.workspace import Workspace
from hpobench_nmt.runner.tuning.journal import Journal, Line

_OVER = Event(math.inf, 0, 0, 0, 0, 0.0, 0.0, False)
# If none of this many trainings has a metric, then trainings do not measure it.
_ENOUGH = 3


class Point(NamedTuple):
    """A checkpoint: how far the training was, its cost so far, its losses (NaN if not measured), and by how
    much it misses each constraint (NaN if not measured)."""

    resource: float
    cost: float
    losses: tuple[float, ...]
    violations: tuple[float, ...] = ()


def refuse_unmeasured(metrics: Sequence[Metric], ended: Sequence[Record]) -> None:
    """Refuse an objective that none of the first trainings measured, because all choices would be blind.

    A single training may lack a metric, for instance if its dynamic evaluation diverged.
    """
    done = [record for record in ended if record.status == "done"]
    for metric in metrics:
        if len(done) >= _ENOUGH and not any(metric.name in record.metrics for record in done):
            raise InputError(
                f"none of {len(done)} trainings measured {metric.name}. Name a measured metric with "
                f"--objectives: {', '.join(done[-1].metrics)}."
            )


@dataclass(frozen=True)
class TuningStep:
    """A training that has reached the requested resource, or has ended before.

    Attributes:
        event: the row, the worker, the times of start and finish, and whether the training has ended.
        losses: those of the row's best checkpoint, NaN if there are none.
        violations: by how much it misses each constraint, shape (c,), NaN if not measured.
        source: "journal" if it finished before a kill, "ledger" if it was already recorded.
        reason: why the training failed; empty if it did not.
    """

    number: int
    event: Event
    losses: Floats
    violations: Floats
    source: Literal["new", "ledger", "journal"]
    reason: str


class _Trained(NamedTuple):
    """All checkpoints of a row so far, whether its training has ended, and whether it was recorded before."""

    points: list[Point]
    ended: bool
    known: bool = False


@dataclass
class _Request:
    """A request to a worker."""

    number: int
    worker: int
    resource: float
    start: float
    launched: bool = False


class Room:
    """How many trainings run. One that finds no memory is tried again beside fewer others, at last alone."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._one_alone = False

    def trained(self, train: Callable[[bool], Record | Unfinished]) -> Record | Unfinished:
        """The result of `train`, which is called with whether it is the last try."""
        most, last = math.inf, False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._one_alone and self._running <= most)  # noqa: B023
                others = self._running
                self._one_alone = last = others == 0 and math.isfinite(most)
                self._running += 1
            try:
                done = train(last)
            finally:
                with self._changed:
                    self._running -= 1
                    self._one_alone &= not last
                    self._changed.notify_all()
            if last or not isinstance(done, Unfinished) or done.kind != "again":
                return done
            most = max(0, others - 1)


@dataclass(eq=False)
class LiveTrainer:
    """See hpobench_nmt.core.simulation.Trainer. Use it as a context manager, which ends its trainings.

    Args:
        metrics: the objectives. If trainings are stopped early, checkpoints must have them.
        partial: whether trainings are stopped early.
        devices: assigned to the workers in turn.
        journal: the journal of this run; None if the ledger alone is enough to resume.
        told: called with each step.
        seconds: the time limit. If trainings can be stopped early, running trainings then save their states
            and are ended; otherwise, they run to their end.
        most: once all trainings together have used this much of the resource, no more is trained.
    """

    workspace: Workspace
    metrics: Sequence[Metric]
    partial: bool
    devices: Sequence[str]
    workers: int
    journal: Journal | None
    told: Callable[[TuningStep], None]
    seconds: float = math.inf
    constraints: Sequence[Constraint] = ()
    most: float = math.inf

    def __post_init__(self) -> None:
        self._past = deque(self.journal.read() if self.journal else ())
        self._running: dict[int, _Request] = {}
        self._curves: dict[int, list[Point]] = {}
        self._records: list[Record] = []  # only if trainings are not stopped early
        self._ended: dict[int, int] = {}  # how many trainings of a row have ended
        self._reached: list[tuple[Floats, float]] = []  # best losses and resource of each step
        self._finished: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._processes, self._room = Processes(), Room()
        self._pool = ThreadPoolExecutor(self.workers)
        self._number = self._steps = 0
        self._now = 0.0
        self._origin: float | None = None  # when the clock was at 0; None while the journal is replayed

    def __enter__(self) -> LiveTrainer:
        return self

    def __exit__(self, *error: object) -> None:
        """End the running trainings. The states that they have saved are kept."""
        self._processes.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def start(self, worker: int, row: int, resource: float) -> None:
        """See Trainer."""
        self._number += 1
        if row in self._ended and row not in self._running:
            self._curves.pop(row, None)  # it is trained again, with another seed
        self._running[row] = _Request(self._number, worker, resource, self._clock())

    def finish(self) -> list[Event]:
        """See Trainer. The next training that finishes, or the next in the journal."""
        if self._past:
            return [self._tell_again(self._past.popleft())]
        if self.spent and self.workspace.spec.start not in self._running:
            return [_OVER]
        if self._origin is None:
            self._origin = time.monotonic() - self._now
        for row, request in self._running.items():
            if not request.launched:
                request.launched = True
                self._pool.submit(self._work, row, request)
        try:
            left = (self.seconds if self.partial else math.inf) - self._clock()
            row, result = self._finished.get(timeout=None if math.isinf(left) else max(left, 0.0))
        except Empty:
            ask_to_save()
            return [_OVER]  # the time limit has passed
        if isinstance(result, BaseException):
            raise result
        points, ended, known_before = result
        request = self._running.pop(row)
        reached = points[: bisect_left([point.resource for point in points], request.resource) + 1]
        known = len(self._curves.get(row, ()))
        self._curves[row] = reached
        done = ended and len(reached) == len(points)
        new = [
            (p.resource, p.cost, [None if math.isnan(x) else x for x in (*p.losses, *p.violations)])
            for p in reached[known:]
        ]
        number, worker, start = request.number, request.worker, request.start
        line = Line(number, row, worker, start, self._clock(), len(reached), done, new)
        if self.journal:
            self.journal.append(line)
        return [self._tell(line, "ledger" if known_before else "new")]

    @property
    def spent(self) -> bool:
        """Whether all trainings together have used as much of the resource as they may."""
        return sum(points[-1].resource for points in self._curves.values()) >= self.most

    def _tell(self, line: Line, source: Literal["new", "ledger", "journal"]) -> Event:
        """Tell of a training that has finished, now or before a kill."""
        event = Event(line.finish, line.number, line.worker, line.row, line.checkpoint, line.start,
                      line.finish - line.start, line.done)  # fmt: skip
        reason = ""
        if event.done:
            record = self._recorded(event.row)
            reason = record.reason if record and record.status == "failed" else ""
            self._ended[event.row] = self._ended.get(event.row, 0) + 1
        violations = np.array(self._curves[event.row][-1].violations)
        self._steps += 1
        best = self.best(event)
        self._reached.append((best, self.resource(event)))
        self.told(TuningStep(self._steps, event, best, violations, source, reason))
        return event

    def _recorded(self, row: int) -> Record | None:
        """The record of a row's current training: its first, or the next replicate."""
        key = training_key(self.workspace.spec.configuration(row), self._ended.get(row, 0))
        return recorded(self.workspace.ledger, key)

    def _tell_again(self, line: Line) -> Event:
        """Replay a line of the journal. Raises InputError if the method has now requested something else."""
        request = self._running.pop(line.row, None)
        points = self._curves.setdefault(line.row, [])
        m = len(self.metrics)
        for resource, cost, noted in line.points:
            values = tuple(math.nan if x is None else x for x in noted)
            points.append(Point(resource, cost, values[:m], values[m:]))
        asked = request is not None and (request.number, request.worker) == (line.number, line.worker)
        widths = {(len(point.losses), len(point.violations)) for point in points}
        if not asked or line.checkpoint != len(points) or widths != {(m, len(self.constraints))}:
            path = self.journal.path if self.journal else ""
            raise InputError(
                f"{path}: does not match the method's current choices. Remove it; trainings in the ledger "
                f"are not repeated."
            )
        self._now = line.finish
        return self._tell(line, "journal")

    def _work(self, row: int, request: _Request) -> None:
        try:
            self._finished.put((row, self._train(row, request)))
        except BaseException as error:
            self._finished.put((row, error))

    def _train(self, row: int, request: _Request) -> _Trained:
        until = None if math.isinf(request.resource) else math.ceil(request.resource)
        workspace = replace(self.workspace, until=until)
        device = self.devices[request.worker % len(self.devices)]
        known, replicate = self._recorded(row) is not None, self._ended.get(row, 0)

        def attempt(last: bool) -> Record | Unfinished:
            return train_and_record(workspace, row, replicate, device, self._processes, wait=True, last=last)

        done = self._room.trained(attempt)
        if isinstance(done, Unfinished):
            if done.kind != "paused":
                raise RunError(f"{describe(workspace.spec.configuration(row))}: {done.reason}")
            return _Trained(self._points(done.curve), ended=False)
        if not self.partial:
            self._records.append(done)
            refuse_unmeasured(self.metrics, self._records)
            losses = tuple(self._loss(metric, done.metrics) for metric in self.metrics)
            return _Trained([Point(1.0, done.seconds, losses, self._missed_by(done.metrics))], True, known)
        points = self._points(done.curve)
        if len(points) < len(self._curves.get(row, ())):
            points = list(self._curves[row])  # the record of a failed training has no curve
        if done.status == "failed" or not points:
            # The end of a failed training is a checkpoint without losses.
            last = points[-1] if points else Point(0.0, 0.0, ())
            # The record has the seconds of the process that failed, and earlier ones may have taken more.
            cost = max(last.cost, done.seconds)
            points.append(Point(last.resource + 1, cost, (math.nan,) * len(self.metrics)))
        # Most constrained metrics are measured only at the end.
        points[-1] = points[-1]._replace(violations=self._missed_by(done.metrics))
        return _Trained(points, True, known)

    def _points(self, curve: Sequence[Mapping[str, float]]) -> list[Point]:
        for metric in self.metrics:
            if curve and metric.name not in curve[-1]:
                measured = [each.name for each in self.workspace.spec.metrics]
                known = ", ".join(name for name in curve[-1] if name in measured) or "none is"
                raise InputError(
                    f"{metric.name} is not measured at checkpoints, so trainings cannot be stopped by it. "
                    f"Name a metric that is, with --objectives: {known}."
                )
        return [
            Point(
                point["update"],
                point.get("seconds", point["update"]),
                tuple(self._loss(metric, point) for metric in self.metrics),
                self._missed_by(point),
            )
            for point in curve
        ]

    def _missed_by(self, values: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(each.missed_by(values) for each in self.constraints)

    def _loss(self, metric: Metric, values: Mapping[str, float]) -> float:
        return float(Objective(metric.name, metric.direction).to_loss(values.get(metric.name, math.nan)))

    def _clock(self) -> float:
        return self._now if self._origin is None else time.monotonic() - self._origin

    def best(self, event: Event) -> Floats:
        """See Trainer."""
        losses = [point.losses for point in self._curves[event.row][: event.checkpoint]]
        first = [math.inf if math.isnan(each[0]) else each[0] for each in losses]
        return np.array(losses[first.index(min(first))])

    def violations(self, row: int) -> Floats:
        """By how much a row misses each constraint, shape (c,).

        A metric that is not measured at checkpoints does not count against a row before its training has
        ended: its violation is 0 until then. If it is not measured at the end either, its violation is NaN.
        """
        found = np.array(self._curves[row][-1].violations)
        return found if row in self._ended else np.where(np.isnan(found), 0.0, found)

    def resource(self, event: Event) -> float:
        """See Trainer."""
        return self._curves[event.row][event.checkpoint - 1].resource

    def progress(self, event: Event) -> Progress:
        """See Trainer."""
        columns = list(zip(*self._curves[event.row][: event.checkpoint], strict=True))[:3]
        arrays = [np.array(column, dtype=np.float64) for column in columns]
        best = self.best(event)
        for array in (*arrays, best):
            array.setflags(write=False)
        resources, costs, losses = arrays
        return Progress(event.row, resources, costs, losses, best, event.done, event.finish)

    def reached(self, rows: Ints, checkpoints: Ints) -> tuple[Floats, Floats]:
        """See Trainer."""
        steps = self._reached[: len(rows)]
        losses = np.array([best for best, _ in steps]).reshape(len(rows), len(self.metrics))
        return losses, np.array([resource for _, resource in steps])
