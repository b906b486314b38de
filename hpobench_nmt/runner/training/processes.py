"""Each training runs in a process of its own, so that a crash costs one training and not the run."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.process_server import answer, ignore_sigterm
from hpobench_nmt.core.system.processes import Ended, Process, outcome, shared_server
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.runner.disk.save_requests import request_saves
from hpobench_nmt.runner.family import STOPPING

# Every language model needs lm.measure, which imports numba. The first optimizer in a process makes torch
# import its compiler, which is not used but takes almost as long to import as torch itself.
_PRELOADED = [
    "hpobench_nmt.runner.training.training_process",
    "hpobench_nmt.runner.lm.measure",
    "scipy.stats",
    "torch",
    "torch._dynamo",
]


class Killed(Exception):
    """The process was killed. The message names the signal."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.asked_to_stop = number in STOPPING


class Crashed(Exception):
    """The function raised an unexpected error, or ended its process. The message describes it."""


class StopAsked(BaseException):
    """The program was asked to stop. The message explains why. `in_time`: because of its time limit."""

    def __init__(self, message: str, in_time: bool) -> None:
        super().__init__(message)
        self.in_time = in_time


_states: set[Path] = set()
"""The folders of the states of all trainings that run in processes of this program."""

_SAVE_SECONDS = 20.0


def ask_to_save() -> tuple[int, int]:
    """Make all trainings of this program save their states, and wait for at most 20 s.

    Returns how many were asked, and how many of them have not saved.
    """
    return request_saves(tuple(_states), _SAVE_SECONDS)


@contextmanager
def saves_when_stopped(seconds: float | None = None) -> Iterator[None]:
    """Inside, SIGTERM makes all trainings save their state, and then raises StopAsked in the main thread.

    A time limit in seconds has the same effect. A batch system such as Slurm sends SIGTERM before it kills.
    By default it then waits 30 s, and saving takes at most 20 s. Use this in the main thread.
    """
    began = time.monotonic()

    def stop(number: int, frame: object) -> None:
        asked, unsaved = ask_to_save()
        late = seconds is not None and time.monotonic() - began >= seconds
        some = f", except {counted(unsaved, 'training')}" if unsaved else ""
        why = "the time limit is reached" if late else "stopped by SIGTERM"
        if not asked:  # trainings by Sockeye, on other machines, or that have just started
            raise StopAsked(f"{why}; trainings resume from their last saved state", late)
        raise StopAsked(f"{why}; the state of every training is saved{some}", late)

    before = signal.signal(signal.SIGTERM, stop)
    timer = threading.Timer(seconds or 0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, before)


class Processes:
    """The running processes, which can be ended together."""

    def __init__(self) -> None:
        self._running: set[Process] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def run(self, function: Callable[..., Any], *arguments: Any, log: Path, state: Path | None = None) -> Any:
        """The result of a module's function that is called in a separate process, which prints to `log`.

        `state` is the folder in which the process may be asked to save its state. It ignores SIGTERM.

        Raises:
            Killed: a signal ended the process.
            Crashed: the function raised, or ended the process itself. The traceback is in the log.
        """
        if not hasattr(os, "fork"):
            return function(*arguments)
        with self._lock:
            self.refuse_stopped()
            # SIGTERM may reach all processes at once. Then this one asks them to save, and ends them.
            call = partial(answer, partial(ignore_sigterm, function, *arguments), log)
            process = Process(shared_server(f"{__name__}:prepare"), call)
            self._running.add(process)
        if state is not None:
            _states.add(state)
        try:
            ended = outcome(process)
        finally:
            if state is not None:
                _states.discard(state)
            with self._lock:
                self._running.discard(process)
            process.close()
        if isinstance(ended, Ended) and ended.signal:
            raise Killed(f"killed by {ended.name}", ended.signal)
        value, error = (None, f"it ended its process with {ended}.") if isinstance(ended, Ended) else ended
        if error:
            raise Crashed(error)
        return value

    def refuse_stopped(self) -> None:
        """Raise Killed if `stop` was called."""
        if self.stopped:
            raise Killed("stopped")

    def stop(self) -> None:
        """End all processes, and do not start any more."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.kill()


def prepare() -> None:
    """Import the modules that trainings need into the server. A training itself reports a missing library."""
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
