"""Blocks of trials, run in this process, in worker processes, or on a cluster.

A user's method gets a new process for every block, on this machine whatever the backend. If it ends its
process or exceeds the time limit, it loses a trial, not the run. No other block sees what it leaves behind.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hpobench_nmt.benchmarking.contestants.opened_files import files_of, recorded
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.running.trials import Block, failed_trial, run_block
from hpobench_nmt.benchmarking.running.worker import (
    Task,
    TaskBroken,
    TaskDone,
    Worker,
    Workers,
    how_a_method_ended,
)
from hpobench_nmt.benchmarking.task.transfer import transfer_tables_sha256
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.clusters import Backend, Cluster, cluster, cluster_results, known_backend
from hpobench_nmt.core.system.errors import InputError, RunError, check_whole, one_line
from hpobench_nmt.core.system.processes import Ended
from hpobench_nmt.core.trajectory import Trajectory

# After this many trials in a row that end the process or are too slow, the block's other trials are not run.
_MAX_CRASHES = 8
# Fewer look-ups than this take less time than starting worker processes.
_SMALL_WORK = 20_000
# The system does not accept a wait of years.
_LONGEST_WAIT = 3600.0
# How many workers of Ray may end while they run the same block. Dask's limit is the same.
_MOST_RETRIES = 3
_GO_ON = (
    "Finished work is kept. Run the same command again to resume. If memory or disk space is short, use "
    "fewer --jobs."
)

Result = tuple[Block, list[Trajectory], float]
OnOpened = Callable[[Block, frozenset[Path]], None]


def run_blocks(
    blocks: Sequence[Block],
    jobs: int,
    backend: Backend,
    timeout: float | None = None,
    on_opened: OnOpened = lambda block, files: None,
) -> Iterator[Result]:
    """Run blocks and yield each with its trajectories and seconds as it ends, in any order.

    Args:
        blocks: what to run.
        jobs: worker processes.
        backend: where methods of the package run.
        timeout: seconds that a call of a user's method may take. A trial in which a call takes longer fails.
        on_opened: called with the files that a user's method has opened, just before its block is yielded.

    Raises:
        InputError: jobs, backend or timeout are invalid.
        RunError: a worker died for another reason than a user's method.
    """
    backend = check_jobs(jobs, backend, timeout)
    if not hasattr(os, "fork"):  # a method that ends its process ends this one
        if timeout is not None:
            raise InputError("a time limit cannot be kept on this operating system.")
        yield from run_here(blocks, on_opened)
        return
    # The largest blocks first, so that no worker is left with a large one at the end.
    ordered = sorted(blocks, key=lambda block: -block.work)
    alone = [b for b in ordered if _needs_process(b.method, jobs, timeout)]
    others = [b for b in ordered if not _needs_process(b.method, jobs, timeout)]
    # Before anything runs, because a method that cannot be sent is refused here.
    sent = [_Running(block, _source(block.method)) for block in alone]
    small = jobs == 1 or sum(block.work for block in others) < _SMALL_WORK
    try:
        if backend != "local":
            yield from _run_on_cluster(others, jobs, backend)
        elif small:
            yield from run_here(others, on_opened)
        pooled = [_Running(b, b.method.source) for b in others] if backend == "local" and not small else []
        if pooled or sent:
            warm = {(r.block.method.spec, r.block.data.problem.n_objectives) for r in pooled}
            with Workers(sorted(warm)) as workers:
                yield from _Scheduler(workers, pooled, jobs, None).run()
                yield from _Scheduler(workers, sent, jobs, timeout, on_opened).run()
    except (InputError, RunError):
        raise
    except Exception as error:
        raise RunError(f"the run stopped ({one_line(error)}). {_GO_ON}") from error


def check_jobs(jobs: int, backend: str, timeout: float | None) -> Backend:
    """The backend of this name; InputError if it, the number of jobs or the time limit is invalid."""
    found = known_backend(backend)
    check_whole("jobs", jobs, 1)
    if timeout is not None and not (is_number(timeout) and 0 < timeout < float("inf")):
        raise InputError(f"the time limit must be a number of seconds above 0, not {timeout!r}.")
    return found


def _needs_process(method: NamedMethod, jobs: int, timeout: float | None) -> bool:
    """A method given as an object stays in this process unless there is a reason to send it elsewhere."""
    return not method.built_in and (method.factory is None or jobs > 1 or timeout is not None)


def run_here(blocks: Sequence[Block], on_opened: OnOpened, debug: bool = False) -> Iterator[Result]:
    """Run blocks in this process, one after the other, as `run_blocks` does; `debug` is as in `run_block`."""
    for block in blocks:
        if block.method.built_in:
            yield block, *run_block(block, debug)
        else:
            opened: set[str] = set()
            with recorded(opened.add):
                found = run_block(block, debug)
            on_opened(block, files_of(opened))
            yield block, *found


# --- worker processes ------------------------------------------------------------------------------


@dataclass(eq=False)
class _Running:
    """A block that is being run, and its finished trials."""

    block: Block
    source: str | bytes
    done: list[Trajectory] = field(default_factory=list)
    seconds: float = 0.0
    opened: frozenset[Path] = frozenset()
    crashes: int = 0
    started: float = 0.0
    # The trial that was stopped because a call took too long, and the reason.
    stopped: tuple[int, str] | None = None

    @property
    def trial(self) -> int:
        """The first trial that is not done."""
        return self.block.first + len(self.done)

    def note(self, trial: Trajectory) -> None:
        self.done.append(trial)
        self.crashes = 0

    def fail(self, reason: str) -> None:
        """Record that the current trial has failed. Only its initial design is known."""
        block, trial = self.block, self.trial
        self.done.append(failed_trial(block.seen(trial), block.seed, trial, reason))


class _Scheduler:
    """Gives blocks, in their order, to at most `jobs` worker processes at a time.

    With `on_opened` (see run_blocks), the methods are a user's, and each block has a process of its own.
    """

    def __init__(
        self,
        workers: Workers,
        blocks: Sequence[_Running],
        jobs: int,
        timeout: float | None,
        on_opened: OnOpened | None = None,
    ) -> None:
        self._workers = workers
        self._waiting = deque(blocks)
        self._jobs = jobs
        self._timeout = timeout
        self._untrusted = on_opened is not None
        self._on_opened = on_opened or (lambda block, files: None)
        # A trusted worker already has its next block while the results of its last one are saved.
        self._running: dict[Worker, deque[_Running]] = {}
        self._tables: dict[Worker, set[str]] = {}

    def run(self) -> Iterator[Result]:
        while self._waiting or any(self._running.values()):
            self._start()
            for worker, message in self._workers.events(self._patience()):
                if worker in self._running:
                    yield from self._handle(worker, message)
            self._stop_the_slow()
        for worker in self._running:
            worker.kill()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            self._give(self._workers.start())
        if not self._untrusted:
            for ahead in (1, 2):
                for worker, blocks in self._running.items():
                    known = self._waiting and self._waiting[0].block.table in self._tables[worker]
                    if self._waiting and len(blocks) < ahead and (known or not blocks):
                        self._give(worker)

    def _give(self, worker: Worker) -> None:
        running = self._waiting.popleft()
        block = running.block = running.block.drawn()
        if block.table not in self._tables.setdefault(worker, set()):
            worker.send(block.data)
            self._tables[worker].add(block.table)
        running.started = time.perf_counter()
        trials = range(running.trial, block.stop)
        name, source = block.method.name, running.source
        samples = block.samples[running.trial - block.first :]
        kept = block.transcripts
        worker.send(Task(block.table, name, source, block.seed, trials, self._untrusted, kept, samples))
        self._running.setdefault(worker, deque()).append(running)

    def _handle(self, worker: Worker, message: Any) -> Iterator[Result]:
        blocks = self._running[worker]
        match message:
            case Trajectory():
                blocks[0].note(message)
            case TaskDone(seconds):
                running = blocks.popleft()
                running.seconds += seconds
                if self._untrusted:
                    del self._running[worker]
                    worker.kill()
                    running.opened |= worker.opened()
                yield self._done(running)
            case TaskBroken(reason):
                raise RunError(f"{blocks[0].block.method.name}: {reason}. {_GO_ON}")
            case Ended():
                del self._running[worker]
                yield from self._after_the_end(worker, blocks, message)

    def _done(self, running: _Running) -> Result:
        self._on_opened(running.block, running.opened)
        return running.block, running.done, running.seconds

    def _after_the_end(self, worker: Worker, blocks: deque[_Running], ended: Ended) -> Iterator[Result]:
        if not self._untrusted:
            raise RunError(f"a worker process ended ({ended}). {_GO_ON}")
        (running,) = blocks
        running.opened |= worker.opened()
        running.seconds += time.perf_counter() - running.started
        trial, reason = running.stopped or (running.trial, how_a_method_ended(ended))
        if trial == running.trial:
            running.fail(reason)
            running.crashes += 1
        running.stopped = None
        if running.crashes >= _MAX_CRASHES:
            reason = f"not run: {_MAX_CRASHES} trials in a row ended the method's process or took too long"
            while running.trial < running.block.stop:
                running.fail(reason)
        if running.trial < running.block.stop:
            self._waiting.appendleft(running)
        else:
            yield self._done(running)

    def _patience(self) -> float | None:
        """Seconds until a call could exceed the time limit; None without a limit."""
        if self._timeout is None:
            return None
        calls = [worker.call() for worker in self._running]
        longest = max((call[1] for call in calls if call), default=0.0)
        return min(max(0.01, self._timeout - longest), _LONGEST_WAIT)

    def _stop_the_slow(self) -> None:
        for worker, blocks in self._running.items():
            call = worker.call() if self._timeout is not None else None
            if call and call[1] >= (self._timeout or 0.0) and blocks[0].stopped is None:
                reason = f"{call[0]} took longer than the time limit of {self._timeout:g} s"
                blocks[0].stopped = (blocks[0].trial, reason)
                worker.kill()


def _source(method: NamedMethod) -> str | bytes:
    """The place that a worker loads the method from, or the pickled method."""
    if method.factory is None:
        return method.source
    from joblib import wrap_non_picklable_objects

    try:
        # In a list, because a class would be wrapped in another class.
        content = pickle.dumps(wrap_non_picklable_objects([method.factory], keep_wrapper=False))
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"method {method.name!r} cannot be sent to a worker process ({one_line(error)}). Give it as "
            "FILE.py:CLASS, or run it with one job and no time limit."
        ) from error
    return content


# --- on a cluster ----------------------------------------------------------------------------------


def _run_on_cluster(blocks: Sequence[Block], jobs: int, backend: Cluster) -> Iterator[Result]:
    if not blocks:
        return
    numbered = ((number, block.drawn()) for number, block in enumerate(blocks))
    with cluster(backend, jobs):
        results = cluster_results(backend, _numbered, numbered, jobs, max_retries=_MOST_RETRIES)
        for number, trajectories, seconds in results:
            yield blocks[number], trajectories, seconds


_problems: dict[tuple[object, ...], Problem] = {}
_OF_THE_TABLE = ("features", "space", "configs", "resources", "sources", "prior")


def _numbered(number: int, block: Block) -> tuple[int, list[Trajectory], float]:
    """Run a block that was sent here. Equal problems become one object, by which methods can cache."""
    data = block.data
    rules = (getattr(data.problem, each.name) for each in fields(Problem) if each.name not in _OF_THE_TABLE)
    sources = transfer_tables_sha256(data.problem.sources)
    prior = b"" if data.problem.prior is None else data.problem.prior.tobytes()
    arrays = len(data.losses), data.problem.resources.tobytes(), prior, sources
    problem = _problems.setdefault((data.sha256, arrays, *rules), data.problem)
    return number, *run_block(replace(block, data=replace(data, problem=problem)))
