"""The other processes of a run: a server that starts workers by forking itself, and the workers.

    main process --(control)--> server --(fork)--> worker 1, worker 2, ...
         ^-----------(one socket for each worker)----------^

The server imports and compiles once what its workers need, so that a new worker is there within milliseconds.
It has one thread and runs no user's code, so it always answers: it kills a worker when the main process asks
for it, reports how each one ended, and, when the main process is gone, however that ended, kills all of them
and ends too. A worker leads a process group of its own; what a method started there ends with it.

Messages on the control socket:

    to the server     b"W", number    start a worker; its socket and the file of its clock come along
                      b"K", number    kill a worker
    from the server   number, code    a worker has ended, with this exit code (negative: a signal; KILLED: it
                                      was killed because the main process asked for it)
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import pickle
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hpobench_nmt.benchmarking.plugins import load_method
from hpobench_nmt.benchmarking.trials import TrialTable, failed_trial, trial_of
from hpobench_nmt.core.errors import one_line
from hpobench_nmt.core.guard import failure_text, is_no_room
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.core.trial_loop import run_trial

REQUEST = struct.Struct("<cI")
REPORT = struct.Struct("<Ii")
# When the running call of a method began, in seconds of time.monotonic (0: none is running), and which it is.
CLOCK = struct.Struct("<dd")
CALLS = ("loading it", "making it", "ask", "tell", "suggest", "observe")
KILLED = -1000
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Task:
    """Trials of one method on a table that was sent to the worker before.

    Attributes:
        table: the table's name.
        method: the method's name.
        source: where to load the method from, or the pickled method itself.
        seed: root seed.
        trials: their numbers.
        untrusted: whether the method is a user's, so that whatever goes wrong fails a trial and not the run.
    """

    table: str
    method: str
    source: str | bytes
    seed: int
    trials: range
    untrusted: bool


@dataclass(frozen=True)
class TrialDone:
    """A finished trial: the rows that it looked up, why it failed if it did, and on a clock the rest."""

    rows: NDArray[np.int64]
    failure: str
    losses: NDArray[np.float64] | None = None
    timing: Timeline | None = None
    own_seconds: float = math.nan

    @classmethod
    def of(cls, trial: Trajectory) -> TrialDone:
        """Of a trajectory. The losses are the table's where there are no times."""
        timed = trial.timing is not None
        losses = trial.losses if timed else None
        return cls(trial.rows, trial.failure, losses, trial.timing, trial.own_seconds)

    def trajectory(self, table_losses: NDArray[np.float64]) -> Trajectory:
        """What it was made of."""
        losses = table_losses[self.rows] if self.losses is None else self.losses
        return Trajectory(self.rows, losses, self.failure, self.timing, self.own_seconds)


@dataclass(frozen=True)
class TaskDone:
    """All trials of a task are finished."""

    seconds: float


@dataclass(frozen=True)
class TaskBroken:
    """A task that could not go on, for a reason that is not the method's."""

    reason: str


# --- the server ------------------------------------------------------------------------------------


def serve(control: socket.socket, warm: Sequence[tuple[str, int]]) -> None:
    """Start, kill and watch workers until the other end of the control socket is closed.

    Args:
        control: the socket.
        warm: names of methods of the package, each with a number of objectives: they are run once, so that
            their compiled functions are loaded before the workers are made.
    """
    for name, n_objectives in warm:
        # What is wrong with a method shows again in its trials, where it is reported.
        with contextlib.suppress(Exception):
            _warm_up(name, n_objectives)
    threadpool_limits(limits=1)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    server = os.getpid()
    workers: dict[int, int] = {}  # number by process id
    condemned: set[int] = set()
    try:
        while True:
            ready = wait([control, ended])
            if ended in ready:
                os.read(ended, 4096)
                _report_ended(control, workers, condemned)
            if control in ready:
                message, files, _, _ = socket.recv_fds(control, REQUEST.size, 2)
                if not message:
                    return
                kind, number = REQUEST.unpack(message)
                if kind == b"W":
                    pid = os.fork()
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        for other in (ended, wake, control.detach()):
                            os.close(other)
                        _run_worker(server, *files)
                    workers[pid] = number
                    for file in files:
                        os.close(file)
                for pid in [pid for pid, its in workers.items() if kind == b"K" and its == number]:
                    _kill(pid)
                    condemned.add(pid)
    except ConnectionError:
        pass  # closed before it was read to its end
    finally:
        for pid in workers:
            _kill(pid)
        for pid in workers:
            os.waitpid(pid, 0)  # once this process has ended, so have all of them


def _report_ended(control: socket.socket, workers: dict[int, int], condemned: set[int]) -> None:
    for pid in list(workers):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            _kill_group(pid)  # processes that the worker has left behind
            code = os.waitstatus_to_exitcode(status)
            if pid in condemned and code == -signal.SIGKILL:
                code = KILLED
            condemned.discard(pid)
            control.sendall(REPORT.pack(workers.pop(pid), code))


def _kill(pid: int) -> None:
    """Kill a worker that was not waited for yet, and all processes of its group."""
    _kill_group(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not lead its group yet


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _warm_up(name: str, n_objectives: int) -> None:
    rng = np.random.default_rng(0)
    features, losses = rng.random((12, 2)), rng.random((12, n_objectives))
    features.setflags(write=False)  # as those of a table are
    problem = Problem(features, n_objectives, 8, 3)
    run_trial(problem, Trainings.whole(losses), load_method(name), rng, [0, 1, 2])


# --- a worker --------------------------------------------------------------------------------------


def _run_worker(server: int, connection: int, clock: int) -> None:
    """Do the tasks that come; never returns."""
    try:
        os.setsid()
        _end_with_the_server(server)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _Worker(Connection(connection), mmap.mmap(clock, CLOCK.size)).work()
    except (EOFError, OSError):
        # The main process is gone, or its connection: the server kills this one.
        while os.getppid() == server:
            time.sleep(0.5)
    finally:
        os._exit(1)  # without what a method has registered to be done at the end


def _end_with_the_server(server: int) -> None:
    """Ask the system, if it is Linux, to kill this process when the server ends."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Where memory runs out, a worker is the one to go.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
    if os.getppid() != server:  # it ended before this was asked
        os._exit(1)


class _Worker:
    def __init__(self, connection: Connection, clock: mmap.mmap) -> None:
        self._connection = connection
        self._clock = clock
        self._tables: dict[str, TrialTable] = {}
        try:
            self._home = str(Path.cwd())
        except FileNotFoundError:  # the folder in which the run was started is gone
            self._home = os.sep
        self._process = os.getpid()

    def work(self) -> None:
        while True:
            message: Any = self._connection.recv()
            if isinstance(message, TrialTable):
                # Arrays that come out of a pickle can be written to; a method must not change them.
                problem = message.problem
                arrays = [problem.features, problem.configs, problem.resources, *message.trainings.arrays]
                arrays += [] if message.violations is None else [message.violations]
                arrays += [array for s in problem.sources for array in (s.features, s.losses)]
                for array in arrays:
                    array.setflags(write=False)
                self._tables[message.name] = message
            elif isinstance(message, Task):
                self._connection.send(self._do(message))
            else:
                found = message()
                if os.getpid() != self._process:
                    os._exit(0)  # as in a task
                self._connection.send(found)

    def _do(self, task: Task) -> TaskDone | TaskBroken:
        start = time.perf_counter()
        data = self._tables[task.table]
        factory: MethodFactory | None = None
        for trial in task.trials:
            # What a method does to the working directory or to Ctrl-C lasts for its own trial.
            with contextlib.suppress(OSError):
                os.chdir(self._home)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            where = "loading it in a worker process"
            try:
                if factory is None:
                    self._on_call("loading it")
                    factory = _load(task.source)
                where = "its code outside of its calls"
                found = trial_of(data, task.method, factory, task.seed, trial, self._on_call)
                done = TrialDone.of(found)
            except BaseException as error:
                if not task.untrusted or is_no_room(error):
                    return TaskBroken(one_line(error))
                reason = failure_text(f"{where} raised {one_line(error)}")
                done = TrialDone.of(failed_trial(data, task.seed, trial, reason))
            finally:
                self._idle()
                if os.getpid() != self._process:
                    os._exit(0)  # a copy that the method has made by os.fork
            self._connection.send(done)
        return TaskDone(time.perf_counter() - start)

    def _on_call(self, what: str) -> None:
        CLOCK.pack_into(self._clock, 0, time.monotonic(), CALLS.index(what))

    def _idle(self) -> None:
        CLOCK.pack_into(self._clock, 0, 0.0, 0.0)


def _load(source: str | bytes) -> MethodFactory:
    if isinstance(source, str):
        return load_method(source)
    (factory,) = pickle.loads(source)  # noqa: S301 - the main process made it
    found: MethodFactory = factory
    return found
