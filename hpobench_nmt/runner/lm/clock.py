"""The clock of language models, and how jobs that share a GPU measure their times.

On a CPU it is the processor time of the process, which the work of other processes hardly changes. On a CUDA
device it is the clock on the wall; CUDA events would measure the same, because they too count what other
processes do there meanwhile. Therefore only one process of a machine measures an evaluation at a time. It
holds a lock, and the trainings of other jobs stand still from their next update on, which does not count as
time of theirs. Translation models take the same lock.

Two things are not measured alone, so that times are exact only with one job per GPU. What other jobs do
without the clock after their trainings (tuning, statistics, test) goes on while one measures. And the time of
training itself has their share in it.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from hpobench_nmt.runner.disk.locks import exclusive, is_held, measuring_lock
from hpobench_nmt.runner.family import Job


def seconds(device: torch.device) -> float:
    """A clock: processor time of this process on a CPU, wall clock after pending work on a CUDA device."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def lock_of(job: Job[Any]) -> Path | None:
    """The lock under which the job measures times, and for which its training stands still; None on a CPU."""
    return None if job.device == "cpu" else measuring_lock(job.cache)


def alone(lock: Path | None) -> AbstractContextManager[None]:
    """Inside, no other process measures a time, and trainings stand still; None: they do not matter."""
    return nullcontext() if lock is None else exclusive(lock)


def is_disturbing(lock: Path | None) -> bool:
    """Whether a process is inside `alone` now."""
    return lock is not None and is_held(lock)


def wait_for_others(lock: Path | None) -> None:
    """Return when no process is inside `alone`."""
    with alone(lock):
        pass
