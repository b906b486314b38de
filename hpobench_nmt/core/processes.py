"""Processes that are forked from a server, and that end when this process ends, however it ends.

    this process --(control: requests)--> server --(fork)--> process 1, process 2, ...
         ^-----(for each: a connection for its messages, and a leash that the server holds)-----^

The server imports and compiles once what the processes need, so that a new process starts within
milliseconds. It has one thread and does not run users' code, so it always responds. Each process has a leash,
a socket between this process and the server. When this end is shut, by `Process.kill` or because this process
has ended, the server kills the process. When the process has ended, the server writes its exit code to the
leash. Each process leads a process group of its own, which ends with it. On Linux, descendants that have left
that group, as daemons do, end as well: the system gives orphans to their nearest ancestor that accepts them,
first the process and then the server, which kills them. On Linux, all processes except daemons also end when
the server is killed.

Slurm and systemd send SIGTERM to all processes of a program. The server ignores it, so that this process
decides how the others end. SIGTERM ends the other processes, except those that call `ignore_sigterm`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from hpobench_nmt.core.errors import RunError

KILLED = -1000
"""The code of a process that was killed at the request of this process."""

_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS")
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}
_PROGRAM = """
import json, os, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:], number, prepare, arguments = json.loads(sys.argv[1])
from hpobench_nmt.core.processes import _serve
_serve(socket.socket(fileno=number), prepare, arguments)
os._exit(0)  # to clear up what torch has loaded takes seconds
"""
# A server has about 5 s to end. It is polled more often at first.
_GRACE_SECONDS = (0.001,) * 20 + (0.01,) * 100 + (0.1,) * 40
# A process that has closed its connection has this long to end by itself.
_LAST_WORDS_SECONDS = 1.0
_CODE = struct.Struct("<i")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Once all processes have ended, their orphans are killed for at most this long.
_ORPHANS_SECONDS = 1.0
_WATCH_MILLISECONDS = 20


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

    First it calls `prepare`, "module:function", once, with arguments that JSON can represent.
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


P = TypeVar("P", bound=Process)
T = TypeVar("T")


def events(processes: Iterable[P], seconds: float | None = None) -> Iterator[tuple[P, Any]]:
    """Wait for messages of processes, and for their end as `Ended`, for at most the given seconds.

    A process's messages come before its `Ended`, upon which the process is closed. Raises RunError if the
    server has ended.
    """
    ends = {end: process for process in processes for end in (process._connection, process._leash)}
    for process in dict.fromkeys(ends[end] for end in wait(ends, seconds)):  # type: ignore[index]
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
            report = process._leash.recv(_CODE.size, socket.MSG_WAITALL)
            if len(report) < _CODE.size:
                raise RunError(
                    "the process that starts workers has ended. Finished work is kept. Run the same command "
                    "again to resume. If memory is short, use fewer --jobs."
                )
            process.close()
            yield process, Ended(*_CODE.unpack(report))


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


# --- in the server ---------------------------------------------------------------------------------


def _serve(control: socket.socket, prepare: str, arguments: Sequence[Any]) -> None:
    """Start, kill and watch processes until the other end of the control socket is closed."""
    module, _, function = prepare.partition(":")
    with _ended_by_hangup(control):
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
                _kill(pid)
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
            _kill(pid)
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
            _kill_group(pid)  # processes that it has left behind
            code = os.waitstatus_to_exitcode(status)
            if pid in condemned and code == -signal.SIGKILL:
                code = KILLED
            condemned.discard(pid)
            with leashes.pop(pid) as leash, contextlib.suppress(OSError):  # the other end is closed
                leash.sendall(_CODE.pack(code))


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


def _kill(pid: int) -> None:
    """Kill a process that has not been waited for, and all processes of its group."""
    _kill_group(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not lead its group yet


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


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
