"""The guard of child processes: forked from a server, they end when this process ends, however it ends.

    this process --(control: requests)--> server --(fork)--> process 1, process 2, ...
         ^-----(for each: a connection for its messages, and a leash that the server holds)-----^

The server imports and compiles once what the processes need, so that a new process starts within
milliseconds. It has one thread and does not run users' code, so it always responds. Each process has a leash,
a socket between this process and the server. A byte that this process writes to it is the number of a signal,
which the server sends to the process. When this end is shut, by `Process.kill` or because this process has
ended, the server kills the process. When the process has ended, the server writes its exit code to the leash.
Each process leads a process group of its own, which ends with it. On Linux, descendants that have left that
group, as daemons do, end as well: the system gives orphans to their nearest ancestor that accepts them, first
the process and then the server, which kills them. On Linux, all processes except daemons also end when the
server is killed.

Slurm and systemd send SIGTERM to all processes of a program. The server ignores it, so that this process
decides how the others end. SIGTERM ends the other processes, except those that call `ignore_sigterm`.

A process calls a function of a module, or becomes a program (`Program`, `run_program`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from hpobench_nmt.core.system.ctrl_c import raise_lost_ctrl_c
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.core.system.process_server import CODE, KILLED, execute
from hpobench_nmt.core.system.text import printable

_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS")
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}
_PROGRAM = """
import json, os, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:], number, prepare, arguments = json.loads(sys.argv[1])
from hpobench_nmt.core.system.process_server import serve
serve(socket.socket(fileno=number), prepare, arguments)
os._exit(0)  # to clear up what torch has loaded takes seconds
"""
# A server has about 5 s to end. It is polled more often at first.
_GRACE_SECONDS = (0.001,) * 20 + (0.01,) * 100 + (0.1,) * 40
# A process that has closed its connection has this long to end by itself.
_LAST_WORDS_SECONDS = 1.0
# A program that was asked to stop has this long to end by itself.
STOP_SECONDS = 5.0
_WATCH_SECONDS = 0.05
# A signal that comes just before a system call does not interrupt it: Ctrl-C then waits this long.
_LONGEST_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """The end of a process. `code` is its exit code, a signal's number negated, or KILLED."""

    code: int

    @property
    def signal(self) -> int:
        """The number of the signal that ended it, or 0."""
        return signal.SIGKILL if self.code == KILLED else max(-self.code, 0)

    @property
    def name(self) -> str:
        """The name of that signal."""
        with contextlib.suppress(ValueError):
            return signal.Signals(self.signal).name
        return "signal"

    def __str__(self) -> str:
        """The name and number of the signal, or the exit code."""
        return f"{self.name} {-self.signal}" if self.signal else f"exit code {self.code}"


# --- in this process -------------------------------------------------------------------------------


class Server:
    """Starts processes by forking itself. It and its processes end when this object is no longer referenced.

    First it calls `prepare`, "module:function", once, with arguments that JSON can represent. If the text is
    empty, it calls nothing.
    """

    def __init__(self, prepare: str, *arguments: Any) -> None:
        self._prepare = prepare, arguments
        self._lock = threading.Lock()
        self._owner = 0

    def fork(self, function: Callable[..., object], files: Sequence[int]) -> tuple[Connection, socket.socket]:
        """The connection and the leash of a new process (see Process)."""
        ours, theirs = socket.socketpair()
        leash, held = socket.socketpair()
        with theirs, held, self._lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self._owner != os.getpid() or self._process.poll() is not None:
                self._launch()
            socket.send_fds(self._control, [b"+"], [theirs.fileno(), held.fileno(), *files])
        connection = Connection(ours.detach())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `events` will report it
            connection.send((_path(), current_folder(), os.environ | _ONE_THREAD))
            connection.send(function)  # second, because its module may be found only on that path
        return connection, leash

    def _launch(self) -> None:
        self._owner = os.getpid()
        self._control, theirs = socket.socketpair()
        arguments = json.dumps([_path(), theirs.fileno(), *self._prepare])
        with theirs:
            # Its standard output is our standard error. So what processes print stays out of our output, and
            # programs that read our output to its end do not wait for a process.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, arguments],
                stdin=subprocess.DEVNULL,
                stdout=2 if _is_open(2) else subprocess.DEVNULL,
                env=os.environ | _ONE_THREAD,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process alone
            )
        weakref.finalize(self, _end, self._control, self._process)


def _end(control: socket.socket, server: subprocess.Popen[bytes]) -> None:
    control.close()  # the server then kills all processes and ends
    # Not time.sleep, which Popen.wait with a timeout uses: it sleeps until a time of a clock, and raises an
    # error if that clock was set, as by libfaketime.
    for wait_seconds in _GRACE_SECONDS:
        if server.poll() is not None:
            return
        select.select((), (), (), wait_seconds)
    server.kill()
    server.wait()


shared_server = functools.lru_cache(maxsize=4)(Server)
"""The server for these arguments, the same in each call. The last four servers are kept."""


class Process:
    """A process with the import path, folder, environment and open standard error of this one.

    The server forks it. It calls a function of a module, or a partial of such a function, with its end of the
    connection and the open files, whose numbers are different there.
    """

    def __init__(self, server: Server, function: Callable[..., object], files: Sequence[int] = ()) -> None:
        self._server = server  # keeps a reference: the server must not end before
        self._connection, self._leash = server.fork(function, files)

    def send(self, message: Any) -> None:
        """Send a message. It is not an error if the process has ended: `events` will report it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(message)

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group."""
        with contextlib.suppress(OSError):  # it has ended
            self._leash.send(bytes([number]))

    def kill(self) -> None:
        """End the process at once, with all processes that it has started."""
        with contextlib.suppress(OSError):  # it has ended
            # Closing it would have no effect if a fork of this process has the socket open.
            self._leash.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Kill the process if it still runs, and close its connection and its leash."""
        self.kill()
        self._connection.close()
        self._leash.close()


class Program(Process):
    """A program that is started without a shell, in the current folder and this environment by default.

    `files` are the numbers of the open files for its standard input, output and error. Raises OSError, whose
    message is the reason, if it cannot be started.
    """

    def __init__(
        self, words: Sequence[str], files: Sequence[int], environment: Mapping[str, str] = os.environ
    ) -> None:
        super().__init__(shared_server(""), partial(execute, list(words), dict(environment)), files)
        self._ended: Ended | None = None
        with contextlib.suppress(EOFError, ConnectionResetError):  # closed: it has started
            reason = self._connection.recv()
            self.close()
            raise OSError(reason)

    def wait(self, seconds: float | None = None) -> Ended | None:
        """Wait for its end for at most the given seconds; None if it still runs."""
        if self._ended is None and _ready([self._leash], seconds):
            self._ended = _reported(self._leash)
        return self._ended

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the program by SIGTERM, and what is left of it and its group after some seconds by SIGKILL."""
        self.signal(signal.SIGTERM)
        self.wait(seconds)
        self.kill()

    def close(self) -> None:
        """Kill the program and its group if it still runs, and wait for its end."""
        self.kill()
        with contextlib.suppress(RunError):  # the server has ended, and the program with it
            self.wait()
        super().close()


def run_program(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] = os.environ,
    seconds: float = math.inf,
    watch: Callable[[Program], None] = lambda program: None,
) -> Ended | None:
    """Run a program to its end, and append its output to a log. None if it was stopped after some seconds.

    `watch` is called about 20 times a second. The program ends with whatever it raises. Raises OSError if the
    program cannot be started, or the log cannot be written.
    """
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        program = Program(words, [nothing.fileno(), output.fileno(), output.fileno()], environment)
    deadline = time.monotonic() + seconds
    try:
        while (ended := program.wait(_WATCH_SECONDS)) is None:
            watch(program)
            if time.monotonic() >= deadline:
                program.stop()
                break
        return ended
    finally:
        program.close()


def last_line(output: bytes) -> str:
    """The last line of a process's output that is not empty, which is most often its reason to end."""
    lines = output.decode(errors="replace").strip().splitlines()
    return printable(lines[-1]) if lines else ""


P = TypeVar("P", bound=Process)


def events(processes: Iterable[P], seconds: float | None = None) -> Iterator[tuple[P, Any]]:
    """Wait for messages of processes, and for their end as `Ended`, for at most the given seconds.

    A process's messages come before its `Ended`, upon which the process is closed. Raises RunError if the
    server has ended.
    """
    ends = {end: process for process in processes for end in (process._connection, process._leash)}
    for process in dict.fromkeys(ends[end] for end in _ready(list(ends), seconds)):
        over = bool(wait([process._leash], 0))
        try:
            while process._connection.poll():
                yield process, process._connection.recv()
                if not over:
                    break
        except Exception:  # closed, or not a message: users' code can write to any open file
            over = True
            if not wait([process._leash], _LAST_WORDS_SECONDS):
                process.kill()
        if over:
            ended = _reported(process._leash)
            process.close()
            yield process, ended


def _ready(ends: Sequence[Any], seconds: float | None) -> list[Any]:
    """The ends from which can be read, as soon as there are any; none after the given seconds."""
    over = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        raise_lost_ctrl_c()
        left = max(over - time.monotonic(), 0.0)
        if (ready := wait(ends, min(left, _LONGEST_WAIT_SECONDS))) or left <= _LONGEST_WAIT_SECONDS:
            return ready


def _reported(leash: socket.socket) -> Ended:
    """How a process ended, as the server reports it; RunError if the server itself has ended."""
    report = leash.recv(CODE.size, socket.MSG_WAITALL)
    if len(report) < CODE.size:
        raise RunError(
            "the process that starts workers has ended. Finished work is kept. Run the same command "
            "again to resume. If memory is short, use fewer --jobs."
        )
    return Ended(*CODE.unpack(report))


def outcome(process: Process) -> tuple[Any, str] | Ended:
    """Wait for the end of a process that calls `answer`, and of all processes that it started.

    Returns the function's result and its error: the message of a RunError, the last line of any other error's
    traceback, or "". If the process sent neither, returns how it ended.
    """
    found: tuple[Any, str] | None = None
    while True:
        for _, message in events([process]):
            if isinstance(message, Ended):
                return found or message
            found = message


def current_folder() -> str:
    """The current folder, or the root folder if it no longer exists."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return os.sep


def _path() -> list[str]:
    return [folder for folder in sys.path if isinstance(folder, str)]


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
