"""Train the configurations of a spec that its ledger does not hold yet."""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from hpobench_nmt.benchmarking.execution import BACKENDS, Backend, cluster
from hpobench_nmt.core.errors import InputError, RunError, one_line, unknown
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.lookup.folder import LEDGER, SPEC
from hpobench_nmt.runner import ledger as ledgers
from hpobench_nmt.runner.child import Answer, device_name, library_versions, train_one
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.isolation import Crashed, Killed, Processes
from hpobench_nmt.runner.ledger import Ledger, Record
from hpobench_nmt.runner.spec import Configuration, Spec, copy_for, describe, short_key

WORK = "work"
_ATTEMPTS = 2
# Seconds between looks at whether another run has finished a training, or this one is to stop.
_PATIENCE = 1.0
_LEAST_ROOM = 2**16
_GO_ON = "Run the same command again to go on."


@dataclass(frozen=True)
class Bench:
    """Where a spec is trained.

    Attributes:
        spec: what to train.
        folder: holds the spec, the ledger and, in the end, the table.
        cache: corpora and models that trainings share.
    """

    spec: Spec
    folder: Path
    cache: Path

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / LEDGER


def open_bench(spec: Spec, folder: Path, cache: Path) -> tuple[Bench, Ledger]:
    """Prepare the corpus and open the ledger, or begin one, with a copy of the spec beside it."""
    from hpobench_nmt.runner.corpora import load_corpus

    corpus = load_corpus(spec.corpus, spec.base, cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ledgers.reserve(folder)
        ledger = ledgers.open_ledger(folder / LEDGER, spec.identity, corpus.provenance)
        copy = folder / SPEC
        if not copy.exists() or copy.resolve() != spec.path.resolve():
            write_whole(copy, copy_for(spec, folder).encode())
    except OSError as error:
        raise RunError(f"{error.filename or folder}: cannot be written: {error.strerror}.") from error
    return Bench(spec, folder, cache), ledger


def pending(spec: Spec, ledger: Ledger, rows: Sequence[int]) -> list[tuple[int, int]]:
    """(row, replicate) of the trainings that are still to do.

    Rows come in a random order, the same every time, so that what is there when a run is stopped is a
    fair sample of the grid. Trainings again with other seeds come last.
    """
    finished = ledger.finished()
    order = generator(spec.seed, "order").permutation(len(spec.configs)).tolist()
    wanted = [(row, 0) for row in order]
    # Seed after seed of a row: jobs that run at once do not all wait for one model that a seed stands for.
    wanted += [(row, turn + 1) for row in spec.replicate_rows for turn in range(spec.replicated[1])]
    chosen = set(rows)
    return [
        (row, replicate)
        for row, replicate in wanted
        if row in chosen and ledgers.training_key(spec.configuration(row), replicate) not in finished
    ]


def train(
    bench: Bench,
    trainings: Sequence[tuple[int, int]],
    devices: Sequence[str],
    jobs: int,
    backend: Backend = "loky",
    progress: Callable[[int, int], None] | None = None,
    notify: Callable[[str], None] = lambda message: None,
) -> None:
    """Train configurations and record them in the ledger.

    Args:
        bench: where.
        trainings: (row, replicate) pairs.
        devices: "cpu", or CUDA devices to share among the jobs.
        jobs: trainings at a time.
        backend: "loky" for processes on this machine; "dask" or "ray" for a cluster whose machines share
            the folder. Ray gives each training its part of a GPU.
        progress: called with (done, total).
        notify: called with a line about each failed configuration.

    Raises:
        RunError: something is wrong with the run, not with a configuration. What was recorded is kept.
    """
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r} is not one of {', '.join(BACKENDS)}.")
    done = 0
    remaining = list(trainings)
    for wait in (False, True):
        # Another run may be at the same ledger. What it trains now is waited for at the end.
        elsewhere = []
        for training, record in _run(bench, remaining, devices, jobs, backend, wait):
            if record is None:
                elsewhere.append(training)
                continue
            done += 1
            if record.status == "failed":
                notify(f"Failed: {describe(record.config)}: {record.reason}")
            if progress:
                progress(done, len(trainings))
        remaining = elsewhere
    clear(bench)


def clear(bench: Bench) -> None:
    """Remove what trainings that have ended left, and the reserve, unless another run is at the ledger."""
    work = bench.folder / WORK
    busy = False
    for path in work.glob("*.claim"):
        claim = FileLock(path, blocking=False)
        try:
            claim.acquire()
        except Timeout:
            busy = True
            continue
        with claim:
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            with contextlib.suppress(OSError):  # some systems remove no file that is open
                path.unlink()
    if not busy:
        with contextlib.suppress(OSError):  # a run that began just now
            work.rmdir()
        ledgers.release_reserve(bench.folder)


Trained = Iterator[tuple[tuple[int, int], Record | None]]


def _run(
    bench: Bench,
    trainings: Sequence[tuple[int, int]],
    devices: Sequence[str],
    jobs: int,
    backend: Backend,
    wait: bool,
) -> Trained:
    if not trainings:
        return iter(())
    if backend == "loky":
        return _run_local(bench, trainings, devices, jobs, wait)
    return _run_on_cluster(bench, trainings, devices, jobs, wait, backend)


def _run_local(
    bench: Bench, trainings: Sequence[tuple[int, int]], devices: Sequence[str], jobs: int, wait: bool
) -> Trained:
    free: queue.SimpleQueue[str] = queue.SimpleQueue()
    for job in range(jobs):
        free.put(devices[job % len(devices)])
    processes = Processes()

    def on_free_device(training: tuple[int, int]) -> Record | None:
        device = free.get()
        try:
            return train_and_record(bench, *training, device, processes, wait)
        finally:
            free.put(device)

    with ThreadPoolExecutor(jobs) as threads:
        futures = {threads.submit(on_free_device, training): training for training in trainings}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
            processes.stop()


def _run_on_cluster(
    bench: Bench,
    trainings: Sequence[tuple[int, int]],
    devices: Sequence[str],
    jobs: int,
    wait: bool,
    backend: Literal["dask", "ray"],
) -> Trained:
    # The spec goes along as it is now: its file may change while the trainings run.
    there = replace(bench, folder=bench.folder.resolve(), cache=bench.cache.resolve())
    place = (there, devices[0], wait)
    run = _run_on_ray if backend == "ray" else _run_on_dask
    with cluster(backend, jobs, processes=False):
        try:
            yield from run(trainings, place, jobs)
        except (InputError, RunError):
            raise
        except Exception as error:  # each backend has its own for a worker that died
            raise RunError(f"the cluster stopped ({one_line(error)}). {_GO_ON}") from error


def _run_on_dask(trainings: Sequence[tuple[int, int]], place: tuple[Bench, str, bool], jobs: int) -> Trained:
    import joblib

    with joblib.parallel_config(backend="dask", n_jobs=jobs):
        pool = joblib.Parallel(batch_size=1, return_as="generator_unordered")
        yield from pool(joblib.delayed(_train_remotely)(training, *place) for training in trainings)


def _run_on_ray(trainings: Sequence[tuple[int, int]], place: tuple[Bench, str, bool], jobs: int) -> Trained:
    """Ray gives each training its part of one of the cluster's GPUs, and shows it no other."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    _, device, _ = place
    share = 0.0
    if device != "cpu":
        resources: Any = ray.cluster_resources
        gpus = int(resources().get("GPU", 0))
        if not gpus:
            raise InputError(
                "Ray knows of no GPU. Start its workers with --num-gpus, or train with --device cpu."
            )
        share = gpu_share(jobs, gpus)
    remote: Any = ray.remote(num_cpus=1, num_gpus=share, max_retries=0)(_train_remotely)
    waiting = iter(trainings)
    running = [remote.remote(training, *place) for training in itertools.islice(waiting, jobs)]
    while running:
        [ended], running = ray.wait(running)
        try:
            yield ray.get(ended)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        running += [remote.remote(training, *place) for training in itertools.islice(waiting, 1)]


def gpu_share(jobs: int, gpus: int) -> float:
    """The part of a GPU that each of so many trainings takes, in Ray's steps of 0.0001.

    A training never has parts of two: of 3 on 2 GPUs each takes half of one.
    """
    return math.floor(1e4 / math.ceil(jobs / gpus)) / 1e4


def _train_remotely(
    training: tuple[int, int], bench: Bench, device: str, wait: bool
) -> tuple[tuple[int, int], Record | None]:
    found = find_devices(device)  # an error of one line where the machine has none
    if len(found) > 1:
        raise InputError(
            f"--device {device}: a worker sees {len(found)} CUDA devices, and all would take the first. "
            "Start each with one of its own: CUDA_VISIBLE_DEVICES=0 dask worker …"
        )
    return training, train_and_record(bench, *training, device, Processes(), wait)


def train_and_record(
    bench: Bench, row: int, replicate: int, device: str, processes: Processes, wait: bool = True
) -> Record | None:
    """Train one configuration and append its record, unless the ledger holds it by now.

    Returns:
        its record; None when another run is training it and `wait` is false.

    Raises:
        RunError: what is wrong with the run.
    """
    configuration = bench.spec.configuration(row)
    key = ledgers.training_key(configuration, replicate)
    work = bench.folder / WORK / short_key(configuration, replicate)
    while True:
        if known := ledgers.read_ledger(bench.ledger).finished().get(key):
            return known
        if processes.stopped:
            raise RunError(f"stopped. {_GO_ON}")
        claim = FileLock(work.with_name(f"{work.name}.claim"))
        try:
            work.parent.mkdir(parents=True, exist_ok=True)
            claim.acquire(timeout=_PATIENCE if wait else 0)
            break
        except Timeout:
            if not wait:
                return None
        except FileNotFoundError:
            continue  # another run has just finished the ledger and cleared up
        except OSError as error:
            raise RunError(f"{work.parent}: cannot be written: {error.strerror}. {_GO_ON}") from error
    with claim:
        record = ledgers.read_ledger(bench.ledger).finished().get(key)
        if record is None:
            record = _train(bench, configuration, replicate, device, processes, work)
            ledgers.append(bench.ledger, record)
        shutil.rmtree(work, ignore_errors=True)
    return record


def _train(
    bench: Bench, configuration: Configuration, replicate: int, device: str, processes: Processes, work: Path
) -> Record:
    spec = bench.spec
    scratch = work / "scratch"
    seed = spec.training_seed(configuration, replicate)
    settings = spec.settings(configuration)
    job = Job(settings, seed, spec.corpus, spec.base, bench.cache, scratch, device)
    started, clock = datetime.now(UTC), time.perf_counter()
    answer = _attempt(spec, job, processes, work / "log")
    if answer.wrong_input:
        raise InputError(f"{describe(configuration)}: {answer.wrong_input}")
    outcome = answer.outcome
    return Record(
        config=configuration,
        replicate=replicate,
        seed=seed,
        status="done" if outcome else "failed",
        reason=answer.failure,
        metrics=dict(outcome.metrics) if outcome else {},
        curve=tuple(dict(point) for point in outcome.curve) if outcome else (),
        converged=outcome.converged if outcome else True,
        tuned=dict(outcome.tuned) if outcome else {},
        device=answer.device or device_name(device),
        versions=dict(answer.versions) or library_versions(device),
        started=started.isoformat(timespec="seconds"),
        seconds=round(answer.seconds or time.perf_counter() - clock, 3),
    )


def _attempt(spec: Spec, job: Job, processes: Processes, log: Path) -> Answer:
    for attempt in range(_ATTEMPTS):
        last = attempt + 1 == _ATTEMPTS
        shutil.rmtree(job.scratch.parent, ignore_errors=True)  # what a training that was killed left
        try:
            job.scratch.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"{job.scratch}: cannot be made: {error.strerror}. {_GO_ON}") from error
        try:
            answer: Answer = processes.run(train_one, spec.family.name, job, log=log)
            # What took the memory may have been another training, and a kill may come from anywhere.
            if last or not answer.starved:
                return answer
        except Killed as error:
            if processes.stopped:
                raise RunError(f"stopped. {_GO_ON}") from None
            if error.asked_to_stop:
                raise RunError(f"a training was {error}. {_GO_ON}") from None
            if last:
                return Answer(failure=f"{error}, {_ATTEMPTS} times (out of memory?)")
        except Crashed as error:
            _refuse_full_disk(job)
            raise RunError(f"a training stopped with an error: {error} Its output is in {log}.") from None
    raise AssertionError("unreachable")


def _refuse_full_disk(job: Job) -> None:
    """Raise RunError where there is no room: libraries have errors of their own for it."""
    for folder in (job.scratch, job.cache):
        if shutil.disk_usage(folder).free < _LEAST_ROOM:
            raise RunError(f"{folder}: no room left on the disk. Make room. {_GO_ON}")


def cluster_devices(text: str, backend: str) -> list[str]:
    """What the trainings of a cluster run on, "cpu" or "cuda": the cluster shares out its devices itself."""
    if text not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {text}: with --backend {backend} it is 'cpu' or 'cuda'.")
    return ["cpu" if text == "auto" else text]


def refuse_other_device(bench: Bench, ledger: Ledger, devices: Sequence[str]) -> None:
    """Raise InputError where "auto" has found another kind of device than the ledger's rows were trained on.

    Their clocks differ, and so do the models that rows of dynamic evaluation share.
    """
    now = devices[0].partition(":")[0]
    for record in ledger.records:
        if record.device and not record.device.startswith(now):
            raise InputError(
                f"{bench.ledger}: has rows trained on {record.device!r}, and --device auto finds {now!r}. "
                f"To mix them in one table all the same, say --device {now}."
            )


def find_devices(text: str) -> list[str]:
    """Devices from "auto" (all CUDA devices, else the CPU), "cpu", "cuda" or "cuda:0,cuda:1".

    Raises:
        InputError: no such device here.
    """
    if text == "cpu":
        return ["cpu"]
    import torch

    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if text == "auto":
        return found or ["cpu"]
    wanted = found if text == "cuda" else [part.strip() for part in text.split(",")]
    if not found and (text == "cuda" or any(w.startswith("cuda:") for w in wanted)):
        raise InputError(f"--device {text}: torch {torch.__version__} finds no CUDA device here.")
    for device in wanted:
        if device not in found:
            raise unknown("device", device, ["auto", "cpu", "cuda", *found], "(--device)")
    return wanted
