"""Worker processes, as the main process sees them: started, sent work, heard, and ended."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from hpobench_nmt.benchmarking.worker import CALLS, CLOCK, KILLED, REPORT, REQUEST
from hpobench_nmt.core.errors import RunError

_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS")
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}
_PROGRAM = """
import json, socket, sys
sys.path[:], number, warm = json.loads(sys.argv[1])
from hpobench_nmt.benchmarking.worker import serve
serve(socket.socket(fileno=number), warm)
"""
_GRACE_SECONDS = 5.0
# A worker whose connection is closed has this long to end by itself.
_LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class Ended:
    """A worker process has ended: its exit code, a signal if that is negative, or worker.KILLED."""

    code: int

    def __str__(self) -> str:
        """The exit code, or the name and number of the signal."""
        code = -signal.SIGKILL if self.code == KILLED else self.code
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"{signal.Signals(-code).name} {code}"
        except ValueError:
            return f"signal {code}"

    @property
    def of_the_method(self) -> str:
        """What a user's method did, where nobody else has ended its process."""
        if self.code == KILLED:  # by us, because nothing more was to be heard
            return "the method closed the connection of its process"
        return f"the method ended its process ({self})"


class Worker:
    """One worker process. Made by Workers.start."""

    def __init__(self, number: int, connection: Connection, clock: mmap.mmap) -> None:
        self.number = number
        self._connection = connection
        self._clock = clock
        self._closed_at: float | None = None

    def send(self, message: Any) -> None:
        """Send a table, a task, or a function without arguments that raises nothing, to hear what it returns.

        A worker that has ended is not an error: Workers.events will say so.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(message)

    def call(self) -> tuple[str, float] | None:
        """The call of a method that is running, and for how many seconds; None if none is."""
        began, which = CLOCK.unpack_from(self._clock)
        return (CALLS[int(which)], time.monotonic() - began) if began else None


class Workers:
    """Worker processes on this machine. All end with the context, and when this process dies.

    Args:
        warm: methods of the package that are loaded before the workers are made, each with its number of
            objectives.
    """

    def __init__(self, warm: Sequence[tuple[str, int]] = ()) -> None:
        self._workers: dict[int, Worker] = {}
        self._count = 0
        self._control, theirs = socket.socketpair()
        arguments = json.dumps([[p for p in sys.path if isinstance(p, str)], theirs.fileno(), list(warm)])
        with theirs:
            # Its standard output is our standard error: a method's prints stay out of the scores, and nobody
            # who reads our output to its end waits for a worker.
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, arguments],
                stdin=subprocess.DEVNULL,
                stdout=2 if _is_open(2) else subprocess.DEVNULL,
                env=os.environ | _ONE_THREAD,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process alone
            )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._control.close()  # upon which the server kills all workers and ends
        try:
            self._server.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        for worker in self._workers.values():
            worker._connection.close()

    def start(self) -> Worker:
        """A new worker process."""
        self._count += 1
        ours, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as file:
            file.truncate(CLOCK.size)
            worker = Worker(self._count, Connection(ours.detach()), mmap.mmap(file.fileno(), CLOCK.size))
            self._request(b"W", worker, [theirs.fileno(), file.fileno()])
        self._workers[worker.number] = worker
        return worker

    def kill(self, worker: Worker) -> None:
        """End a worker at once, with all processes that it has started."""
        self._request(b"K", worker)

    def ask(self, call: Callable[[], Any]) -> Any:
        """What a function without arguments returns in a worker of its own, or how that ended: `Ended`."""
        worker = self.start()
        worker.send(call)
        while True:
            for which, message in self.events():
                if which is worker:
                    self.kill(worker)
                    return message

    def events(self, seconds: float | None = None) -> Iterator[tuple[Worker, Any]]:
        """Wait for messages of workers, and for their end as `Ended`, at most for some seconds.

        What a worker sent before its end comes before it.
        """
        heard = {w._connection: w for w in self._workers.values() if w._closed_at is None}
        silent = [w for w in self._workers.values() if w._closed_at is not None]
        if silent:
            seconds = _LAST_WORDS_SECONDS if seconds is None else min(seconds, _LAST_WORDS_SECONDS)
        ready = wait([self._control, *heard], seconds)
        for worker in silent:
            if worker._closed_at and time.monotonic() - worker._closed_at >= _LAST_WORDS_SECONDS:
                self.kill(worker)
        for connection in ready:
            if isinstance(connection, Connection):
                yield from self._hear(heard[connection])
        if self._control in ready:
            report = self._control.recv(REPORT.size, socket.MSG_WAITALL)
            if len(report) < REPORT.size:
                raise RunError(
                    "the process that starts workers has ended. What was finished is kept. Is memory short? "
                    "Run the same command again to go on, with fewer --jobs."
                )
            number, code = REPORT.unpack(report)
            worker = self._workers.pop(number)
            while worker._closed_at is None and worker._connection.poll():
                yield from self._hear(worker)
            worker._connection.close()
            yield worker, Ended(code)

    def _hear(self, worker: Worker) -> Iterator[tuple[Worker, Any]]:
        try:
            message = worker._connection.recv()
        except Exception:  # closed, or no message at all: a method can write to any open file
            worker._closed_at = time.monotonic()
            return
        yield worker, message

    def _request(self, kind: bytes, worker: Worker, files: Sequence[int] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # events() says so
            socket.send_fds(self._control, [REQUEST.pack(kind, worker.number)], files)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
