"""Trainings in processes of their own, so that a crash costs one training and not the run."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hpobench_nmt.core.processes import Ended, Process, answer, outcome, shared_server
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
        self._running: set[Process] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def run(self, function: Callable[..., Any], *arguments: Any, log: Path) -> Any:
        """The result of a module's function, called in a process of its own that prints to `log`.

        Raises:
            Killed: a signal ended the process.
            Crashed: the function raised, or ended the process itself. The traceback is in the log.
        """
        if not hasattr(os, "fork"):
            return function(*arguments)
        with self._lock:
            if self.stopped:
                raise Killed("stopped")
            call = partial(answer, partial(function, *arguments), log)
            process = Process(shared_server(f"{__name__}:prepare"), call)
            self._running.add(process)
        try:
            ended = outcome(process)
        finally:
            with self._lock:
                self._running.discard(process)
            process.close()
        if isinstance(ended, Ended) and ended.signal:
            raise Killed(f"killed by {ended.name}", ended.signal)
        value, error = (None, f"it ended its process with {ended}.") if isinstance(ended, Ended) else ended
        if error:
            raise Crashed(error)
        return value

    def stop(self) -> None:
        """End all of them, and start none any more."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.kill()


def prepare() -> None:
    """Import in the server what trainings need. A training that misses a library says so itself."""
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
