"""Trainings that take simulated time: a heap of events, ordered by (finish time, number of the request).

The real clock is never used, so that a trial is the same on any machine and for any number of processes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.problem import Progress
from hpobench_nmt.core.trainings import Trainings


class Event(NamedTuple):
    """A training that has reached the requested resource, or has ended before that.

    Attributes:
        finish, start: when it finished, and when its worker began, on the trial's clock.
        number: the number of the request, from 1, in the order of the requests.
        worker, row: their numbers.
        checkpoint: the number of the last checkpoint that was reached, from 1.
        cost: the worker's time that the request took.
        done: whether the training has ended by itself, so that the row has no more checkpoints.
    """

    finish: float
    number: int
    worker: int
    row: int
    checkpoint: int
    start: float
    cost: float
    done: bool


class Trainer(Protocol):
    """Where trainings take place: simulated from a table's curves, or real ones."""

    @property
    def workers(self) -> int:
        """How many trainings can run at a time."""

    def start(self, worker: int, row: int, resource: float) -> None:
        """Let an idle worker train a row to its first checkpoint at or above this resource, or to its end."""

    def finish(self) -> list[Event]:
        """Wait until a training finishes. Returns all that finish at that time, in the order of requests."""

    def best(self, event: Event) -> Floats:
        """Losses of the row's best checkpoint so far, shape (m,)."""

    def resource(self, event: Event) -> float:
        """The resource of the checkpoint that was reached."""

    def progress(self, event: Event) -> Progress:
        """The row's curve so far, as a method receives it."""

    def reached(self, rows: Rows, checkpoints: Rows) -> tuple[Floats, Floats]:
        """Losses of the best checkpoint so far, shape (n, m), and resources, shape (n,), of n trainings."""


class SimulatedTrainer:
    """Trainings from a table, on workers whose time is simulated. O(log W) for each request."""

    def __init__(self, trainings: Trainings, workers: int = 1) -> None:
        self.workers = workers
        self._trainings = trainings
        cells: Any = memoryview  # reads a single number several times faster than an array
        self._first = cells(trainings.starts)
        self._resources = cells(trainings.resources)
        self._costs = cells(trainings.costs)
        self._best = trainings.best
        self._trained: dict[int, int] = {}  # by row, the place of its next checkpoint
        self._heap: list[Event] = []
        self._latest: dict[int, Event] = {}  # by worker
        self._now = 0.0
        self._number = 0

    def start(self, worker: int, row: int, resource: float) -> None:
        """See Trainer."""
        first, end = self._first[row], self._first[row + 1]
        trained = self._trained.get(row, first)
        at = end - 1
        if resource < math.inf:
            at = min(bisect_left(self._resources, resource, trained, end), at)
        cost = self._costs[at]
        if trained > first and (self._trainings.resume or self._goes_on(worker, row)):
            cost -= self._costs[trained - 1]
        if at + 1 < end:
            self._trained[row] = at + 1
        now = self._now
        number = self._number = self._number + 1
        heappush(self._heap, Event(now + cost, number, worker, row, at - first + 1, now, cost, at + 1 == end))

    def _goes_on(self, worker: int, row: int) -> bool:
        """Whether the worker has just reached a checkpoint of this row, so that it was not paused."""
        latest = self._latest.get(worker)
        return latest is not None and latest.row == row and latest.finish == self._now

    def finish(self) -> list[Event]:
        """See Trainer."""
        heap = self._heap
        found = [heappop(heap)]
        self._now = found[0].finish
        while heap and heap[0].finish == self._now:
            found.append(heappop(heap))
        if not self._trainings.resume:
            self._latest.update((event.worker, event) for event in found)
        return found

    def best(self, event: Event) -> Floats:
        """See Trainer."""
        found: Floats = self._best[self._first[event.row] + event.checkpoint - 1]
        return found

    def resource(self, event: Event) -> float:
        """See Trainer."""
        found: float = self._resources[self._first[event.row] + event.checkpoint - 1]
        return found

    def progress(self, event: Event) -> Progress:
        """See Trainer."""
        whole, first = self._trainings, self._first[event.row]
        end = first + event.checkpoint
        resources, costs, losses = whole.resources[first:end], whole.costs[first:end], whole.losses[first:end]
        return Progress(event.row, resources, costs, losses, self._best[end - 1], event.done, event.finish)

    def reached(self, rows: Rows, checkpoints: Rows) -> tuple[Floats, Floats]:
        """See Trainer."""
        places = self._trainings.starts[rows] + checkpoints - 1
        return self._best[places], self._trainings.resources[places]
