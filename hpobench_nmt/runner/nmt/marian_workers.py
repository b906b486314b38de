"""Several processes for one training of `marian`, each with its own batches and, on GPUs, its own GPU.

The first process starts the others. They meet at a file, so that no port is needed. Each process has the
whole model and makes every update: it computes the gradient of its own batches, the gradients are added up,
and all processes change their weights in the same way. Only the first process evaluates dev and writes files.
It sends the results to the others.

Masks of dropout depend on the seed, the update and the worker. A state therefore need not hold the random
states of the other workers, and a training that resumes has the same bits as one that was never stopped.

If one process fails, all end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.process_server import answer, ignore_sigterm
from hpobench_nmt.core.system.processes import Ended, Process, Server, outcome
from hpobench_nmt.runner.devices import first_devices
from hpobench_nmt.runner.disk.training_log import say
from hpobench_nmt.runner.family import Job, tells_of_no_memory
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings

T = TypeVar("T")

# The others wait while the first evaluates dev, or stands still because another job measures a time.
_PATIENCE = timedelta(days=7)
# How long an error waits until the end of another process is noticed.
_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True)
class Workers:
    """The processes of a training, of which this is one.

    Attributes:
        number: the number of this process, from 0.
        count: the number of processes.
    """

    number: int = 0
    count: int = 1

    def own(self, batches: Sequence[T]) -> Sequence[T]:
        """The batches of an update that this process computes."""
        return batches[self.number :: self.count]

    def begin_update(self, seed: int, update: int) -> None:
        """Seed the dropout masks of this worker for an update, so that they are the same in every run."""
        if self.count > 1:
            (state,) = np.random.SeedSequence([seed, update, self.number]).generate_state(1)
            torch.manual_seed(int(state))

    @torch.no_grad()
    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over the processes."""
        if self.count > 1:
            flat = torch.cat([each.reshape(-1) for each in tensors])
            torch.distributed.all_reduce(flat)
            parts = zip(flat.split([each.numel() for each in tensors]), tensors, strict=True)
            torch._foreach_copy_(list(tensors), [part.view_as(own) for part, own in parts])

    def of_first(self, function: Callable[[], T]) -> T:
        """The result of a function, which only the first process calls."""
        if self.count == 1:
            return function()
        found = [function() if self.number == 0 else None]
        torch.distributed.broadcast_object_list(found)
        return found[0]  # type: ignore[return-value]


@contextmanager
def workers_of(
    job: Job[MarianSettings], work: Callable[[Job[MarianSettings], Workers], object]
) -> Iterator[Workers]:
    """Inside, this process is the first of the job's workers. The others call `work`, and then end.

    Args:
        work: a function at the top of a module, which only trains. It gets the job with the worker's device.

    Raises:
        InputError: there are too few GPUs, or processes cannot be forked here.
    """
    count = job.settings.workers
    if count == 1:
        yield Workers()
        return
    if not hasattr(os, "fork"):
        raise InputError(f"workers = {count} needs an operating system that forks processes, such as Linux.")
    first_devices([job.device], count)  # raises an error if there are too few GPUs
    meeting, server = job.scratch / f"meeting-{os.getpid()}", Server(f"{__name__}:prepare")
    others = []
    for number in range(1, count):
        other = replace(job, device=_device(job.device, number))
        join = partial(ignore_sigterm, _join, other, number, meeting, work)
        others.append(Process(server, partial(answer, join, job.scratch / f"worker-{number}.log")))
    over = threading.Event()
    watching = [
        threading.Thread(target=_end_with, args=(process, number, over), daemon=True)
        for number, process in enumerate(others, start=1)
    ]
    for thread in watching:
        thread.start()
    try:
        with _met(job.device, 0, count, meeting):
            yield Workers(0, count)
    except RuntimeError:  # perhaps in an exchange with a process that has ended; then that end is reported
        for thread in watching:
            thread.join(_LAST_WORDS_SECONDS / len(watching))
        raise
    finally:
        over.set()
        for process in others:
            process.kill()


def prepare() -> None:
    """Do nothing. The server of the other workers calls it, and so has imported this module and torch."""


def _device(first: str, number: int) -> str:
    """The device of a worker. GPUs are numbered from that of the first worker."""
    kind, _, at = first.partition(":")
    return kind if kind == "cpu" else f"{kind}:{int(at or 0) + number}"


def _join(
    job: Job[MarianSettings],
    number: int,
    meeting: Path,
    work: Callable[[Job[MarianSettings], Workers], object],
) -> None:
    with _met(job.device, number, job.settings.workers, meeting):
        work(job, Workers(number, job.settings.workers))


@contextmanager
def _met(device: str, number: int, count: int, meeting: Path) -> Iterator[None]:
    on_gpu = device != "cpu"
    if on_gpu:
        torch.cuda.set_device(_device(device, 0))
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{meeting.resolve()}",
        rank=number,
        world_size=count,
        timeout=_PATIENCE,
        device_id=torch.device(_device(device, 0)) if on_gpu else None,
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def _end_with(process: Process, number: int, over: threading.Event) -> None:
    """Wait for another worker. If it fails before the training is over, end this process in the same way."""
    ended = outcome(process)
    error = ended if isinstance(ended, Ended) else ended[1]
    if over.is_set() or not error:
        return
    say(f"worker {number} failed: {error}")
    killed = isinstance(error, Ended) and error.signal == signal.SIGKILL
    if killed or tells_of_no_memory(str(error)):  # a training that was killed is tried once more
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)
