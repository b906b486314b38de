"""Blocks of trials in worker processes, surviving methods that take their process down with them.

Methods of the package run in a joblib pool. A user's method runs in a process of its own for each job, on
this machine whatever the backend, so that one that ends its process costs a trial and not the run.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.core.errors import InputError, RunError, one_line
from hpobench_nmt.core.loop import run_trial
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trajectory import Goal, Trajectory

Backend = Literal["loky", "dask", "ray"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)

# A method that ends its process this often in a row is not given another.
_MAX_CRASHES = 8
_BLOCK = 25


@dataclass(frozen=True, eq=False)
class Block:
    """Trials first to stop - 1 of one method on one table.

    Attributes:
        table, table_sha256: the table's name and hash.
        problem, losses, goals: as in hpobench_nmt.core.loop.
        method: the method.
        seed: root seed.
        first, stop: trial numbers.
    """

    table: str
    table_sha256: str
    problem: Problem
    losses: NDArray[np.float64]
    goals: tuple[Goal, ...]
    method: NamedMethod
    seed: int
    first: int
    stop: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it apart in a run."""
        return self.table, self.method.name, self.first

    @property
    def work(self) -> int:
        """A rough measure of how long it takes, for the progress bar."""
        return (self.stop - self.first) * len(self.losses)

    def initial(self, trial: int) -> list[int]:
        """The initial design of a trial."""
        return initial_rows(self.seed, self.table, trial, len(self.losses), self.problem.n_initial)


def plan(
    suite: Suite, instances: Mapping[str, Instance], methods: Iterable[NamedMethod], seed: int
) -> list[Block]:
    """All blocks of trials, in order of table, method and trial."""
    methods = list(methods)
    return [
        Block(
            table=name,
            table_sha256=instance.table.sha256,
            problem=instance.problem,
            losses=instance.losses,
            goals=instance.goals if instance.stop_when_settled else (),
            method=method,
            seed=seed,
            first=first,
            stop=min(first + _BLOCK, suite.trials),
        )
        for name, instance in instances.items()
        for method in methods
        for first in range(0, suite.trials, _BLOCK)
    ]


def run_blocks(
    blocks: Sequence[Block], jobs: int, backend: Backend
) -> Iterator[tuple[Block, list[Trajectory], float]]:
    """Run blocks and yield each with its trajectories and seconds as it ends, in any order.

    Raises:
        RunError: a worker died for another reason than a user's method.
    """
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r} is not one of {', '.join(BACKENDS)}.")
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}.")
    # The largest first, so that no worker is left with one at the end.
    ordered = sorted(blocks, key=lambda block: -block.work)
    isolated = [b for b in ordered if _needs_isolation(b.method)]
    pooled = [b for b in ordered if not _needs_isolation(b.method)]
    try:
        yield from _run_pooled(pooled, jobs, backend)
        yield from _run_isolated(isolated, jobs)
    except (InputError, RunError):
        raise
    except Exception as error:
        raise RunError(
            f"the run stopped ({one_line(error)}). What was finished is kept. Is memory or disk short? "
            "Run the same command again to go on, with fewer --jobs."
        ) from error


def run_block(block: Block, trials: range | None = None) -> tuple[list[Trajectory], float]:
    """Run a block, or some of its trials, in this process, with one BLAS thread."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    rows = list(block.losses)
    factory = block.method.load()
    problem = _shared_problem(block)
    # The same bits for any number of BLAS threads. The limit holds for libraries that are loaded by now,
    # hence the imports above it; worker processes are started with it for any others.
    with threadpool_limits(limits=1):
        trajectories = [
            run_trial(
                problem,
                rows.__getitem__,
                factory,
                method_generator(block.seed, block.table, block.method.name, trial),
                block.initial(trial),
                block.goals,
            )
            for trial in (trials or range(block.first, block.stop))
        ]
    return trajectories, time.perf_counter() - start


def _needs_isolation(method: NamedMethod) -> bool:
    return not method.built_in and method.factory is None


_problems: dict[tuple[str, int, int, int], Problem] = {}


def _shared_problem(block: Block) -> Problem:
    """One Problem object a process for equal problems, so that methods can cache by it."""
    problem = block.problem
    key = (block.table_sha256, problem.n_objectives, problem.budget, problem.n_initial)
    return _problems.setdefault(key, problem)


def _run_pooled(
    blocks: Sequence[Block], jobs: int, backend: Backend
) -> Iterator[tuple[Block, list[Trajectory], float]]:
    if not blocks:
        return
    if jobs == 1 and backend == "loky":
        for block in blocks:
            yield block, *run_block(block)
        return
    import joblib

    numbered = dict(enumerate(blocks))
    return_as = "list" if backend == "ray" else "generator_unordered"
    threads: dict[str, Any] = {"inner_max_num_threads": 1} if backend == "loky" else {}
    with cluster(backend, jobs), joblib.parallel_config(backend=backend, n_jobs=jobs, **threads):
        pool = joblib.Parallel(return_as=return_as, batch_size=1)
        tasks = (joblib.delayed(_numbered)(number, block) for number, block in numbered.items())
        for number, trajectories, seconds in pool(tasks):
            yield numbered[number], trajectories, seconds


def _numbered(number: int, block: Block) -> tuple[int, list[Trajectory], float]:
    return number, *run_block(block)


@contextmanager
def cluster(backend: Backend, jobs: int, processes: bool = True) -> Iterator[None]:
    """Make an optional backend known to joblib, with a local cluster where there is none.

    Args:
        backend: loky needs nothing.
        jobs: workers of a local cluster.
        processes: whether Dask's local workers are processes, or threads for work that starts its own.
    """
    extra = {"dask": "distributed", "ray": "ray"}.get(backend)
    if extra and importlib.util.find_spec(extra) is None:
        raise InputError(f"backend {backend!r} is not installed: pip install 'hpobench-nmt[{backend}]'")
    if backend == "dask":
        import dask
        import distributed

        try:
            distributed.get_client()
            found = True
        except ValueError:
            found = False
        if found:
            yield
            return
        address = dask.config.get("scheduler-address", None)
        local = {
            "n_workers": jobs,
            "threads_per_worker": 1,
            "dashboard_address": None,
            "processes": processes,
        }
        connect: Any = distributed.Client
        with connect(address, **({} if address else local)):
            yield
        return
    if backend == "ray":
        import ray.util.joblib

        register: Any = ray.util.joblib.register_ray
        register()
    yield


def _run_isolated(blocks: Sequence[Block], jobs: int) -> Iterator[tuple[Block, list[Trajectory], float]]:
    """Each job is a thread that owns one worker process and replaces it when it dies."""
    if not blocks:
        return
    workers = _Workers()
    with ThreadPoolExecutor(jobs) as threads:
        futures = {threads.submit(_run_alone, block, workers): block for block in blocks}
        try:
            for future in as_completed(futures):
                yield futures[future], *future.result()
        finally:
            for future in futures:
                future.cancel()
            workers.stop()


def _run_alone(block: Block, workers: _Workers) -> tuple[list[Trajectory], float]:
    start = time.perf_counter()
    try:
        return workers.run(block)
    except _WorkerDied:
        pass
    # Some trial of the block ends its process: find out which, one at a time.
    trajectories: list[Trajectory] = []
    crashes = 0
    for trial in range(block.first, block.stop):
        reason = f"not run: the method ended its process in {_MAX_CRASHES} trials in a row"
        if crashes < _MAX_CRASHES:
            try:
                trajectories += workers.run(block, range(trial, trial + 1))[0]
                crashes = 0
                continue
            except _WorkerDied as error:
                reason = f"the method ended its process ({error})"
                crashes += 1
        rows = np.array(block.initial(trial), dtype=np.int64)
        trajectories.append(Trajectory(rows, block.losses[rows], reason))
    return trajectories, time.perf_counter() - start


_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}


class _WorkerDied(Exception):
    """How the worker process ended."""


class _Workers:
    """One worker process for each thread that asks."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[Any] = []

    def run(self, block: Block, trials: range | None = None) -> tuple[list[Trajectory], float]:
        """run_block in the calling thread's process; raises _WorkerDied if that ends."""
        from joblib.externals.loky import ProcessPoolExecutor
        from joblib.externals.loky.process_executor import BrokenProcessPool

        worker = getattr(self._own, "worker", None)
        if worker is None:
            # Ctrl-C is for this process, which ends its workers itself.
            ignore = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
            worker = self._own.worker = ProcessPoolExecutor(max_workers=1, env=_ONE_THREAD, **ignore)
            self._all.append(worker)
        try:
            result: tuple[list[Trajectory], float] = worker.submit(run_block, block, trials).result()
            return result
        except BrokenProcessPool as error:
            worker.shutdown(wait=False, kill_workers=True)
            self._own.worker = None
            found = re.search(r"\{([A-Z]+)\((-?\d+)\)", str(error))
            how = "without a word" if found is None else f"{found[1]} {found[2]}"
            raise _WorkerDied(how.replace("EXIT ", "exit code ")) from None

    def stop(self) -> None:
        for worker in self._all:
            worker.shutdown(wait=True, kill_workers=True)
