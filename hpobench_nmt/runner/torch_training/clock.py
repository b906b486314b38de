"""The clock of language models, and how jobs that share a GPU measure their times.

On a CPU, it is the processor time of the process, which other processes hardly change. On a CUDA device, it
is the wall clock. CUDA events would measure the same, because they also include the work of other processes
on the device. Therefore only one process at a time measures an evaluation on a GPU. It holds the GPU's lock.
Meanwhile the trainings of other jobs on that GPU stand still, which does not count as their time. They look
for the lock ten times a second. So a process that takes the lock waits a tenth of a second before it
measures. Translation models use the same lock.

With exclusive_timing = "machine", all GPUs of a machine share one lock. This is for machines whose processor
is too busy for several GPUs. With "never", there is no lock. This is for small models, if many train on one
GPU at a time and nobody compares their times.

Times are exact only with one job per GPU, for two reasons. The work that other jobs do without the clock
after their trainings (tuning, statistics, test) continues while a job measures. And the time of a training
includes the work of other jobs.
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
    """The lock that the job holds to measure times, and for which its training pauses; None on a CPU."""
    return None if job.device == "cpu" else timing_lock(job)


def timing_lock(job: Job[Any]) -> Path | None:
    """The same lock; on a CPU, the lock of the machine."""
    if job.settings.exclusive_timing == "never":
        return None
    several = getattr(job.settings, "workers", 1) > 1  # one training uses several GPUs
    whole = job.device == "cpu" or several or job.settings.exclusive_timing == "machine"
    return measuring_lock(job.cache, "" if whole else gpu_identity(job.device))


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Inside, no other process measures a time, and trainings stand still; None: nothing is locked."""
    if lock is None:
        yield
        return
    with exclusive(lock):
        time.sleep(_LOOK_SECONDS)  # until all trainings have seen the lock
        yield


def is_disturbing(lock: Path | None) -> bool:
    """Whether a process is inside `alone` now."""
    return lock is not None and is_held(lock)


class Watch:
    """Tells a training when to stand still. It opens the lock's file at most ten times a second."""

    def __init__(self, lock: Path | None) -> None:
        self._lock = lock
        self._next = 0.0

    def is_disturbing(self) -> bool:
        """Whether a process is inside `alone`; False, without looking, within 0.1 s of the last look."""
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
