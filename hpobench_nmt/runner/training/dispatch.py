"""Trainings, dispatched to processes on this machine or to a cluster."""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

from hpobench_nmt.core.system.clusters import Backend, Cluster, cluster, cluster_results
from hpobench_nmt.core.system.errors import InputError, Notify, RunError, one_line
from hpobench_nmt.core.system.text import counted, printable
from hpobench_nmt.runner.devices import find_devices
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.ledgers.plan import Training
from hpobench_nmt.runner.specs.spec import describe
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.train_row import GO_ON, Unfinished, train_and_record
from hpobench_nmt.runner.training.workspace import Workspace

# The run ends after this many trainings with an unexpected error if no training has succeeded.
_MOST_ERRORS = 3

Progress = Callable[[int, int], None]
OnRecord = Callable[[Record], None]
Trained = Iterator[tuple[Training, Record | Unfinished]]


Turn = tuple[bool, bool]
"""How trainings are tried: the arguments `wait` and `last` of `train_and_record`."""


@dataclass(frozen=True)
class Run:
    """A run that is ready to start, with `jobs` trainings at a time.

    Attributes:
        devices: "cpu", or CUDA devices that simultaneous trainings share.
        backend: "local" for processes on this machine; "dask" or "ray" for a cluster whose machines share
            the folder. Ray gives each training its part of a GPU.
        mixed: a warning if this run adds rows of this machine's CPU to rows of another device; else "".
        caution: a warning if parts or sides of the corpus are the same text; else "".
    """

    workspace: Workspace
    devices: Sequence[str]
    jobs: int
    backend: Backend = "local"
    mixed: str = ""
    caution: str = ""


def train(
    run: Run,
    trainings: Sequence[Training],
    progress: Progress | None = None,
    notify: Notify = lambda message: None,
    on_record: OnRecord = lambda record: None,
) -> int:
    """Train configurations and record them in the ledger. Returns how many paused because of Workspace.until.

    Args:
        trainings: (row, replicate) pairs.
        progress: called with (done, total).
        notify: called with a line about each training that failed, was paused or has no record.

    A training that runs out of memory, or is killed, is tried again at the end, alone. A training that ends
    in an unexpected error is not recorded, and the others continue.

    Raises RunError if the run cannot continue, or if trainings ended in an error. Records are kept.
    """
    done = paused = 0
    elsewhere: list[Training] = []
    again: list[Training] = []
    errors: list[str] = []

    def is_broken() -> bool:
        """Whether the installation is probably broken, so that the run ends."""
        return not done and len(errors) >= _MOST_ERRORS

    def attempt(some: Sequence[Training], run: Run, turn: Turn) -> None:
        nonlocal done, paused
        if not some or is_broken():
            return
        if run.backend == "local":
            trained = _run_local(run, some, turn)
        else:
            trained = _run_on_cluster(run, some, turn, run.backend)
        for training, ended in trained:
            name = describe(run.workspace.spec.configuration(training[0]))
            if isinstance(ended, Record):
                done += 1
                on_record(ended)
                if ended.status == "failed":
                    notify(f"Failed: {name}: {printable(ended.reason)}")
            elif ended.kind == "paused":
                done, paused = done + 1, paused + 1
                point = " ".join(f"{metric}={value:.6g}" for metric, value in ended.curve[-1].items())
                notify(f"Paused: {name}: {point}")
            elif ended.kind == "elsewhere":
                elsewhere.append(training)
            elif ended.kind == "again":
                again.append(training)
                notify(f"To be tried again, alone: {name}: {printable(ended.reason)}")
            else:
                errors.append(f"{name}: {ended.reason}")
                notify(f"Not recorded: {printable(errors[-1])}")
                if is_broken():
                    break
            if progress and (isinstance(ended, Record) or ended.kind == "paused"):
                progress(done, len(trainings))

    attempt(trainings, run, (False, False))
    # Another run may fill the same ledger. Wait for its current trainings only at the end.
    attempt(elsewhere.copy(), run, (True, False))
    attempt(again, replace(run, jobs=1), (True, True))
    if errors:
        raise RunError(
            f"{len(errors)} of {counted(len(trainings), 'training')} ended with an error and "
            f"{'is' if len(errors) == 1 else 'are'} not recorded. The first: {printable(errors[0])} {GO_ON}"
        )
    return paused


def _run_local(run: Run, trainings: Sequence[Training], turn: Turn) -> Trained:
    free: queue.SimpleQueue[str] = queue.SimpleQueue()
    for job in range(run.jobs):
        free.put(run.devices[job % len(run.devices)])
    processes = Processes()

    def on_free_device(training: Training) -> Record | Unfinished:
        device = free.get()
        try:
            return train_and_record(run.workspace, *training, device, processes, *turn)
        finally:
            free.put(device)

    with ThreadPoolExecutor(run.jobs) as threads:
        futures = {threads.submit(on_free_device, training): training for training in trainings}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
            processes.stop()


def _run_on_cluster(run: Run, trainings: Sequence[Training], turn: Turn, backend: Cluster) -> Trained:
    # Workers receive the spec itself, because its file may change while the trainings run.
    workspace, device, jobs = run.workspace, run.devices[0], run.jobs
    there = replace(workspace, folder=workspace.folder.resolve(), cache=workspace.cache.resolve())
    tasks = ((training, there, device, turn) for training in trainings)
    with cluster(backend, jobs, processes=False):
        try:
            share = _share_of_ray(jobs) if backend == "ray" and device != "cpu" else 0.0
            yield from cluster_results(backend, _train_remotely, tasks, jobs, num_gpus=share, max_retries=0)
        except (InputError, RunError):
            raise
        except Exception as error:  # each backend has its own errors for a worker that died
            raise RunError(f"the cluster stopped ({one_line(error)}). {GO_ON}") from error


def _share_of_ray(jobs: int) -> float:
    """The part of one of the cluster's GPUs that Ray gives each training. It hides the other GPUs."""
    import ray

    resources: Any = ray.cluster_resources
    gpus = int(resources().get("GPU", 0))
    if not gpus:
        raise InputError("Ray knows of no GPU. Start its workers with --num-gpus, or give --device cpu.")
    return gpu_share(jobs, gpus)


def gpu_share(jobs: int, gpus: int) -> float:
    """The part of a GPU that each of `jobs` trainings takes, in Ray's steps of 0.0001.

    A training never has parts of two GPUs. For instance, 3 trainings on 2 GPUs take half a GPU each.
    """
    return math.floor(1e4 / math.ceil(jobs / gpus)) / 1e4


def _train_remotely(
    training: Training, workspace: Workspace, device: str, turn: Turn
) -> tuple[Training, Record | Unfinished]:
    found = find_devices(device)  # an error of one line if the machine has no such device
    if len(found) > 1:
        raise InputError(
            f"--device {device}: a worker sees {len(found)} CUDA devices, and all workers would use the "
            f"first. Start each worker with its own device: CUDA_VISIBLE_DEVICES=0 dask worker …"
        )
    return training, train_and_record(workspace, *training, device, Processes(), *turn)
