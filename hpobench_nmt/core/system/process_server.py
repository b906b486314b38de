"""The server that processes.py starts: it forks processes, signals them, and reports how they end."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from hpobench_nmt.core.system.errors import RunError

KILLED = -1000
"""The code of a process that was killed at the request of the process that wanted it."""

CODE = struct.Struct("<i")
"""The server's last word on a leash: the code of the process, as in processes.Ended."""

_MOST_SIGNALS = 64  # read from a leash at a time
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Once all processes have ended, their orphans are killed for at most this long.
_ORPHANS_SECONDS = 1.0
_WATCH_MILLISECONDS = 20

T = TypeVar("T")


# --- in the server ---------------------------------------------------------------------------------


def serve(control: socket.socket, prepare: str, arguments: Sequence[Any]) -> None:
    """Start, kill and watch processes until the other end of the control socket is closed."""
    module, _, function = prepare.partition(":")
    with _ended_by_hangup(control):
        if module:
            getattr(importlib.import_module(module), function)(*arguments)
    _take_orphans()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    server = os.getpid()
    leashes: dict[int, socket.socket] = {}  # by process id
    condemned: set[int] = set()
    try:
        while True:
            held = {leash: pid for pid, leash in leashes.items() if pid not in condemned}
            ready = wait([control, ended, *held])
            if ended in ready:
                os.read(ended, 4096)
            _report_ended(leashes, condemned)  # first: those that ended by themselves were not killed
            _kill_orphans(leashes)  # an orphan's end wakes this loop, which then finds its children
            for pid in {held[end] for end in ready if end in held} & leashes.keys():
                numbers = _signals(leashes[pid])
                for number in numbers or [signal.SIGKILL]:
                    _signal(pid, number)
                if not numbers:
                    condemned.add(pid)
            if control in ready:
                _, (connection, leash, *files), _, _ = socket.recv_fds(control, 1, 8)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for end in (control, *leashes.values()):
                        end.close()
                    for file in (ended, wake, leash):
                        os.close(file)
                    _run(server, Connection(connection), files)
                leashes[pid] = socket.socket(fileno=leash)
                for file in (connection, *files):
                    os.close(file)
    except (ConnectionError, ValueError):  # the control socket was closed
        pass
    finally:
        for pid in leashes:
            _signal(pid, signal.SIGKILL)
        for pid in leashes:
            os.waitpid(pid, 0)  # all of them must end before this process does
        deadline = time.monotonic() + _ORPHANS_SECONDS
        while _kill_orphans(()) and time.monotonic() < deadline:
            select.select((), (), (), 0.01)


@contextlib.contextmanager
def _ended_by_hangup(control: socket.socket) -> Iterator[None]:
    """Inside the block, the server ends when the other end of its control socket is closed.

    Importing and compiling take seconds, during which it does not respond. The thread ends before any fork.
    """
    over = threading.Event()
    poll = select.poll()
    poll.register(control, 0)  # only a hangup; requests wait

    def watch() -> None:
        while not over.is_set():
            if poll.poll(_WATCH_MILLISECONDS):
                os._exit(1)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _report_ended(leashes: dict[int, socket.socket], condemned: set[int]) -> None:
    for pid in list(leashes):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # processes that it has left behind
            code = os.waitstatus_to_exitcode(status)
            if pid in condemned and code == -signal.SIGKILL:
                code = KILLED
            condemned.discard(pid)
            with leashes.pop(pid) as leash, contextlib.suppress(OSError):  # the other end is closed
                leash.sendall(CODE.pack(code))


def _take_orphans() -> None:
    """On Linux, make this process the parent of descendants whose parents end."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _kill_orphans(own: Container[int]) -> bool:
    """Kill the children that are not `own`, whose parents have ended; returns whether any could be killed."""
    found = False
    with contextlib.suppress(OSError):  # not Linux
        for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
            if pid not in own:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    found = True
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    return found


def _signals(leash: socket.socket) -> bytes:
    """The numbers of the signals that a process is sent; empty if its leash was shut, which kills it."""
    with contextlib.suppress(OSError):
        return leash.recv(_MOST_SIGNALS)
    return b""


def _signal(pid: int, number: int) -> None:
    """Signal a process that has not been waited for, and all processes of its group."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # it may not lead its group yet
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


# --- in a process ----------------------------------------------------------------------------------


def _run(server: int, connection: Connection, files: Sequence[int]) -> None:
    """Do what the process was started for; never returns."""
    code = 1
    try:
        os.setsid()
        _end_with_the_server(server)
        _take_orphans()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.path[:], folder, environment = connection.recv()
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        with contextlib.suppress(OSError):
            os.chdir(folder)
        connection.recv()(connection, *files)
        code = 0
    except (EOFError, OSError):
        # The requesting process has ended or closed the connection: the server kills this process.
        while os.getppid() == server:
            select.select((), (), (), 0.5)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # without exit handlers that users' code has registered


def _end_with_the_server(server: int) -> None:
    """On Linux, make the system kill this process when the server ends."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # If memory runs out, the system kills this process first.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
    if os.getppid() != server:  # the server ended before the call above
        os._exit(1)


def ignore_sigterm(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process that ignores SIGTERM, as do the programs that it starts.

    The process that started it can end it nevertheless: `Process.kill` sends SIGKILL.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return function(*arguments)


def answer(function: Callable[..., Any], log: Path | None, connection: Connection, *files: int) -> None:
    """Call a function with the files, append its output to a log if there is one, and send the outcome."""
    process = os.getpid()
    try:
        if log is not None:
            with log.open("ab", buffering=0) as file:
                for stream in (1, 2):
                    os.dup2(file.fileno(), stream)
        message = function(*files), ""
    except BaseException as error:
        last_line = traceback.format_exception_only(error)[-1].strip()
        message = None, str(error) if isinstance(error, RunError) else last_line
        with contextlib.suppress(OSError):  # a full disk must not hide the error, which may be about it
            traceback.print_exc()
    for output in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            output.flush()
    if os.getpid() == process:  # not in a copy that the function has made by os.fork
        connection.send(message)


def execute(words: list[str], environment: Mapping[str, str], connection: Connection, *files: int) -> None:
    """Become a program whose standard streams are the files, or send why it cannot be started."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in (*files, connection.fileno()):
        os.set_inheritable(file, False)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], words, environment)
    except (OSError, ValueError) as error:
        connection.send(getattr(error, "strerror", None) or str(error))
