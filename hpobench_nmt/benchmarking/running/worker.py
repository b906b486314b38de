"""Worker processes for trials: their interface for the main process, and their work.

A worker gets each table once, and then tasks: trials of one method on one table. It sends each trajectory,
and shares a clock with the main process that shows since when a call of a method has been running. The server
that forks workers (core/system/processes.py) never loads a user's method.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hpobench_nmt.benchmarking.contestants.opened_files import Notes, recorded
from hpobench_nmt.benchmarking.contestants.plugins import PREPARE, load_method, stand_in
from hpobench_nmt.benchmarking.running.trials import Sample, TrialTable, failed_trial, trial_of
from hpobench_nmt.core.guard import failure_text, is_no_room
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.system.errors import RunError, one_line
from hpobench_nmt.core.system.process_server import KILLED
from hpobench_nmt.core.system.processes import Ended, Process, Server, current_folder, events, shared_server
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial

# The memory that a worker shares with the main process begins with the time at which the running call of a
# method began, in seconds of time.monotonic (0 if none is running), and the call's place in CALLS. The paths
# of opened files follow.
CLOCK = struct.Struct("<dd")
CALLS = ("loading it", "making it", "ask", "tell", "suggest", "observe")


@dataclass(frozen=True)
class Task:
    """Trials of one method on a table that was sent to the worker before.

    The source is the place to load the method from, or the pickled method itself. Any error of an untrusted
    method, which is a user's, fails a trial, not the run.
    """

    table: str
    method: str
    source: str | bytes
    seed: int
    trials: range
    untrusted: bool
    transcripts: Path | None = None
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class TaskDone:
    """All trials of a task are finished."""

    seconds: float


@dataclass(frozen=True)
class TaskBroken:
    """A task that could not continue, for a reason that is not the method's."""

    reason: str


def how_a_method_ended(ended: Ended) -> str:
    """How a user's method ended its process, if nothing else has ended it."""
    if ended.code == KILLED:  # by us, because its connection was closed
        return "the method closed the connection of its process"
    return f"the method ended its process ({ended})"


# --- in the main process ---------------------------------------------------------------------------


class Worker(Process):
    """One worker process. Made by Workers.start."""

    def __init__(self, server: Server) -> None:
        with tempfile.TemporaryFile() as file:
            self._notes = Notes(file.fileno(), CLOCK.size)
            super().__init__(server, work, [file.fileno()])

    def call(self) -> tuple[str, float] | None:
        """The call of a method that is running, and for how many seconds; None if none is."""
        began, which = CLOCK.unpack_from(self._notes.memory)
        return (CALLS[int(which)], time.monotonic() - began) if began else None

    def opened(self) -> frozenset[Path]:
        """The files that users' methods have opened in it."""
        return self._notes.files()


class Workers:
    """Worker processes on this machine. All end with the context, or when this process dies.

    The methods of the package in `warm`, each with a number of objectives, are loaded before workers start.
    """

    def __init__(self, warm: Iterable[tuple[str, int]] = ()) -> None:
        self._server = shared_server(PREPARE, *warm)
        self._workers: set[Worker] = set()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.kill()
        with contextlib.suppress(RunError):  # the server has ended, and the workers with it
            while self._workers:
                list(self.events())
        for worker in self._workers:
            worker.close()

    def start(self) -> Worker:
        """A new worker process."""
        worker = Worker(self._server)
        self._workers.add(worker)
        return worker

    def events(self, seconds: float | None = None) -> Iterator[tuple[Worker, Any]]:
        """The messages of all workers, and their ends (see `events` in core/system/processes.py)."""
        for worker, message in events(self._workers, seconds):
            if isinstance(message, Ended):
                self._workers.remove(worker)
            yield worker, message


# --- in the server ---------------------------------------------------------------------------------


def prepare(*warm: tuple[str, int]) -> None:
    """Run methods of the package once, so that their functions are compiled before workers are forked."""
    for name, n_objectives in warm:
        # A method's error occurs again in its trials, where it is reported.
        with contextlib.suppress(Exception):
            _warm_up(name, n_objectives)
    threadpool_limits(limits=1)


def _warm_up(name: str, n_objectives: int) -> None:
    rng = np.random.default_rng(0)
    losses = rng.random((12, n_objectives))
    run_trial(stand_in(n_objectives), Trainings.whole(losses), load_method(name), rng, [0, 1, 2])


# --- in a worker -----------------------------------------------------------------------------------


def work(connection: Connection, shared: int) -> None:
    """Run the tasks that the main process sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker(connection, Notes(shared, CLOCK.size)).work()


class _Worker:
    def __init__(self, connection: Connection, notes: Notes) -> None:
        self._connection = connection
        self._notes = notes
        self._tables: dict[str, TrialTable] = {}
        self._home = current_folder()
        self._process = os.getpid()

    def work(self) -> None:
        while True:
            message: Any = self._connection.recv()
            if isinstance(message, TrialTable):
                # Unpickled arrays can be written to, but a method must not change them.
                problem = message.problem
                arrays = [problem.features, problem.configs, problem.resources, *message.trainings.arrays]
                arrays += [] if message.violations is None else [message.violations]
                arrays += [] if problem.prior is None else [problem.prior]
                arrays += [array for s in problem.sources for array in (s.features, s.losses)]
                for array in arrays:
                    array.setflags(write=False)
                self._tables[message.name] = message
            else:
                with recorded(self._notes.add) if message.untrusted else contextlib.nullcontext():
                    done = self._do(message)
                self._connection.send(done)

    def _do(self, task: Task) -> TaskDone | TaskBroken:
        start = time.perf_counter()
        data = self._tables[task.table]
        factory: MethodFactory | None = None
        samples = task.samples or (None,) * len(task.trials)
        for trial, sample in zip(task.trials, samples, strict=True):
            # A method's changes to the working directory or to Ctrl-C last only for its own trial.
            with contextlib.suppress(OSError):
                os.chdir(self._home)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            where = "loading it in a worker process"
            try:
                if factory is None:
                    self._on_call("loading it")
                    factory = _load(task.source)
                where = "its code outside of ask and tell"
                seen, transcripts = data.of_sample(sample), task.transcripts
                done = trial_of(seen, task.method, factory, task.seed, trial, self._on_call, transcripts)
            except BaseException as error:
                if not task.untrusted or is_no_room(error):
                    return TaskBroken(one_line(error))
                reason = failure_text(f"{where} raised {one_line(error)}")
                done = failed_trial(data.of_sample(sample), task.seed, trial, reason)
            finally:
                self._idle()
                if os.getpid() != self._process:
                    os._exit(0)  # a copy that the method has made by os.fork
            self._connection.send(done)
        return TaskDone(time.perf_counter() - start)

    def _on_call(self, what: str) -> None:
        CLOCK.pack_into(self._notes.memory, 0, time.monotonic(), CALLS.index(what))

    def _idle(self) -> None:
        CLOCK.pack_into(self._notes.memory, 0, 0.0, 0.0)


def _load(source: str | bytes) -> MethodFactory:
    if isinstance(source, str):
        return load_method(source)
    (factory,) = pickle.loads(source)  # noqa: S301 - the main process made it
    found: MethodFactory = factory
    return found
