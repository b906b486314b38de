"""Functions in processes of their own, so that a crash costs one training and not the run.

A process ends when its parent does, however that ended, together with the processes that it started itself.
Processes are forked from a server that has imported the slow libraries once: a start costs milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hpobench_nmt.core.errors import RunError
from hpobench_nmt.runner.family import STOPPING

# Every language model needs measure, and numba with it. torch imports its compiler, unused, with the first
# optimizer that a process makes, which takes almost as long as torch itself.
_PRELOADED = [
    "hpobench_nmt.runner.training.training_process",
    "hpobench_nmt.runner.lm.measure",
    "scipy.stats",
    "torch",
    "torch._dynamo",
]


class Killed(Exception):
    """The process was killed; the message says how."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.asked_to_stop = number in STOPPING


class Crashed(Exception):
    """The function raised an error that nobody expected, or ended its process; the message says which."""


class Processes:
    """The processes that run now, so that they can be ended together."""

    def __init__(self) -> None:
        self._running: set[Any] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def run(self, function: Callable[..., Any], *arguments: Any, log: Path) -> Any:
        """The result of a module's function, called in a process of its own that prints to `log`.

        Raises:
            Killed: a signal ended the process.
            Crashed: the function raised, or ended the process itself. The traceback is in the log.
        """
        context: Any = _context()
        ours, theirs = context.Pipe()
        process = context.Process(target=_child, args=(theirs, function, arguments, str(log)))
        with self._lock:
            if self.stopped:
                raise Killed("stopped")
            _start(process)
            self._running.add(process)
        theirs.close()
        try:
            kind, value = ours.recv()
        except (EOFError, OSError):
            kind, value = "died", None
        process.join()
        _end(process)  # what it started and left behind
        ours.close()
        with self._lock:
            self._running.discard(process)
        if kind == "result":
            return value
        if kind == "raised":
            raise Crashed(value)
        if process.exitcode is not None and process.exitcode < 0:
            raise Killed(f"killed by {_signal(-process.exitcode)}", -process.exitcode)
        raise Crashed(f"it ended its process with exit code {process.exitcode}.")

    def stop(self) -> None:
        """End all of them, and start none any more."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                _end(process)


def _context() -> Any:
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(_PRELOADED)
    return context


def _start(process: Any) -> None:
    try:
        process.start()
    except AssertionError as error:
        raise RunError(
            "the workers may not start processes of their own. Start Dask's workers with --no-nanny."
        ) from error


def _child(connection: Connection, function: Callable[..., Any], arguments: Any, log: str) -> None:
    """The process: it sends its result through the connection, and ends when that closes."""
    if hasattr(os, "setsid"):
        os.setsid()  # a group of its own: Ctrl-C is for the parent, and all of the group can be ended
    with Path(log).open("ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    try:
        message = ("result", function(*arguments))
    except BaseException as error:
        last_line = traceback.format_exception_only(error)[-1].strip()
        message = ("raised", str(error) if isinstance(error, RunError) else last_line)
        with suppress(OSError):  # a full disk must not hide the error, which may be that of a full disk
            traceback.print_exc()
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError):
            output.flush()
    connection.send(message)


def _end_with_parent(connection: Connection) -> None:
    with suppress(EOFError, OSError):
        connection.recv()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _end(process: Any) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    # Not asked whether it is alive: two threads that read how one process ended read one pipe, and one of
    # them would find it empty and take that for exit code 255.
    process.kill()


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
