"""The clock of language models, and how jobs that share a GPU measure their times.

On a CPU it is the processor time of the process, which the work of other processes hardly changes. On a CUDA
device it is the clock on the wall; CUDA events would measure the same, because they too count what other
processes do there meanwhile. Therefore only one process measures an evaluation on a GPU at a time. It holds
the GPU's lock, and the trainings of other jobs there stand still, which does not count as time of theirs.
They look for the lock ten times a second, and a process that holds it waits as long before it measures.
Translation models take the same lock. With exclusive_timing = "machine", all GPUs of a machine have one lock:
for machines whose processor is too busy for several GPUs. With "never" there is none: for small models, many
of which train on one GPU at a time, and whose times nobody compares.

Two things are not measured alone, so that times are exact only with one job per GPU. What other jobs do
without the clock after their trainings (tuning, statistics, test) goes on while one measures. And the time of
training itself has their share in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from hpobench_nmt.runner.devices import gpu_identity
from hpobench_nmt.runner.disk.locks import exclusive, is_held, measuring_lock
from hpobench_nmt.runner.family import Job

_LOOK_SECONDS = 0.1


def seconds(device: torch.device) -> float:
    """A clock: processor time of this process on a CPU, wall clock after pending work on a CUDA device."""
    if device.type == "cpu":
        return time.process_time()
    torch.get_device_module(device).synchronize(device)
    return time.perf_counter()


def lock_of(job: Job[Any]) -> Path | None:
    """The lock under which the job measures times, and for which its training stands still; None on a CPU."""
    return None if job.device == "cpu" else timing_lock(job)


def timing_lock(job: Job[Any]) -> Path | None:
    """The same, but on a CPU the machine's lock."""
    if job.settings.exclusive_timing == "never":
        return None
    several = getattr(job.settings, "workers", 1) > 1  # GPUs for one training
    whole = job.device == "cpu" or several or job.settings.exclusive_timing == "machine"
    return measuring_lock(job.cache, "" if whole else gpu_identity(job.device))


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Inside, no other process measures a time, and trainings stand still; None: they do not matter."""
    if lock is None:
        yield
        return
    with exclusive(lock):
        time.sleep(_LOOK_SECONDS)  # until the others have seen it
        yield


def is_disturbing(lock: Path | None) -> bool:
    """Whether a process is inside `alone` now."""
    return lock is not None and is_held(lock)


class Watch:
    """Tells a training when it has to stand still. It opens the lock's file at most ten times a second."""

    def __init__(self, lock: Path | None) -> None:
        self._lock = lock
        self._next = 0.0

    def is_disturbing(self) -> bool:
        """Whether a process was inside `alone` when this looked last, which is now if it is time."""
        now = time.monotonic()
        if self._lock is None or now < self._next:
            return False
        self._next = now + _LOOK_SECONDS
        return is_disturbing(self._lock)

    def wait(self) -> None:
        """Return when no process is inside `alone`."""
        if self._lock is not None:
            with exclusive(self._lock):
                pass
