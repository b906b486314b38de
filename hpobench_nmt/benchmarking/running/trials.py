"""Blocks of trials: the unit in which work is run, saved and resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.benchmarking.contestants.program import one_trial
from hpobench_nmt.core.arrays import Floats, Ints, frozen
from hpobench_nmt.core.problem import MethodFactory, ParallelMethod, Problem
from hpobench_nmt.core.replicates import ReplicateLosses
from hpobench_nmt.core.seeds import check_seed, generator, initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.core.trial_loop import run_trial

if TYPE_CHECKING:  # worker processes do not need these, and importing pandas is slow
    from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
    from hpobench_nmt.benchmarking.task.instance import Instance
    from hpobench_nmt.benchmarking.task.suite import Suite

_TRIALS = 25


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that a trial sees, in its order, and what depends on them: the goals and the budget."""

    rows: Ints
    goals: tuple[Goal, ...]
    lookups: int
    time: float


@dataclass(frozen=True, eq=False)
class TrialTable:
    """The values that all trials on a table share. A worker process receives them once.

    Attributes:
        name, sha256: the table's name and hash.
        problem, trainings, goals: as in hpobench_nmt.core.trial_loop.
        violations: violations of each row, shape (N, c); None without constraints.
        numbers: numbers of the rows in the installed table, if some of its rows are left out; else None.
        replicates: trainings of each row, of which a look-up draws one; None if it returns the losses.
        sample: numbers of its rows among all, if these are the rows that a single trial sees; else None.
    """

    name: str
    sha256: str
    problem: Problem
    trainings: Trainings
    goals: tuple[Goal, ...]
    violations: Floats | None = None
    numbers: Ints | None = None
    replicates: ReplicateLosses | None = None
    sample: Ints | None = None

    @property
    def losses(self) -> Floats:
        """The losses of each row's best checkpoint, shape (N, m)."""
        return self.trainings.final

    def of_sample(self, sample: Sample | None) -> TrialTable:
        """What a trial sees: its sample, or all rows."""
        if sample is None:
            return self
        trainings = self.trainings.of_rows(sample.rows)
        resources = frozen(np.unique(trainings.resources))
        return replace(
            self,
            problem=self.problem.of_rows(sample.rows, resources, sample.lookups, sample.time),
            trainings=trainings,
            goals=sample.goals,
            violations=None if self.violations is None else self.violations[sample.rows],
            replicates=self.replicates and self.replicates.of_rows(sample.rows),
            sample=sample.rows,
        )

    def initial(self, seed: int, trial: int) -> list[int]:
        """The initial design of a trial."""
        return initial_rows(seed, self.name, trial, len(self.trainings), self.problem.n_initial)


@dataclass(frozen=True, eq=False)
class Block:
    """Trials first to stop - 1 of one method on one table, with a root seed.

    `transcripts` is the folder for the lines of a method that is a program; None if they are not kept. If
    trials see samples, a block has the `instance` that they are drawn from, or what each of its trials sees.
    """

    data: TrialTable
    method: NamedMethod
    seed: int
    first: int
    stop: int
    transcripts: Path | None = None
    instance: Instance | None = None
    samples: tuple[Sample, ...] = ()

    def drawn(self) -> Block:
        """The block with its samples, ready to be sent to another process."""
        if self.instance is None:
            return self
        seen = [self.instance.of_trial(self.seed, trial) for trial in range(self.first, self.stop)]
        samples = tuple(
            Sample(each.rows, each.stopping_goals, each.problem.lookups, each.problem.time)
            for each in seen
            if each.rows is not None
        )
        return replace(self, instance=None, samples=samples)

    def seen(self, trial: int) -> TrialTable:
        """What one of its trials sees, of a block with its samples."""
        return self.data.of_sample(self.samples[trial - self.first] if self.samples else None)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.data.name

    @property
    def key(self) -> tuple[str, str, int]:
        """Table, method and first trial, which are unique in a run."""
        return self.table, self.method.name, self.first

    @property
    def work(self) -> int:
        """The maximum number of its look-ups: a rough measure of how long it takes."""
        return (self.stop - self.first) * min(self.data.problem.lookups, len(self.data.trainings))


def plan(
    suite: Suite, instances: Mapping[str, Instance], methods: Iterable[NamedMethod], seed: int
) -> list[Block]:
    """All blocks of trials, in order of table, method and trial."""
    check_seed(seed)
    methods = list(methods)
    blocks = []
    for name, instance in instances.items():
        table = instance.installed.sha256, instance.problem, instance.trainings
        rules = instance.violations, instance.numbers, instance.replicates
        data = TrialTable(name, *table, instance.stopping_goals, *rules)
        for method in methods:
            firsts = range(0, suite.trials, _TRIALS)
            drawn_from = instance if suite.sample else None
            blocks += [
                Block(data, method, seed, n, min(n + _TRIALS, suite.trials), instance=drawn_from)
                for n in firsts
            ]
    return blocks


def run_block(block: Block, debug: bool = False) -> tuple[list[Trajectory], float]:
    """Run a block in this process, with one BLAS thread; returns its trajectories and seconds.

    `debug` is as in hpobench_nmt.core.trial_loop.run_trial.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    start, block = time.perf_counter(), block.drawn()
    factory = block.method.load()
    # Results must have the same bits for any number of BLAS threads. The limit applies only to libraries that
    # are already loaded, hence the import above.
    with threadpool_limits(limits=1):
        trials = range(block.first, block.stop)
        found = [
            trial_of(block.seen(trial), block.method.name, factory, block.seed, trial, debug=debug)
            for trial in trials
        ]
    return found, time.perf_counter() - start


def trial_of(
    seen: TrialTable,
    method: str,
    factory: MethodFactory,
    seed: int,
    trial: int,
    on_call: Callable[[str], None] | None = None,
    transcripts: Path | None = None,
    debug: bool = False,
) -> Trajectory:
    """Run one trial of a method on what it sees of a table, and measure the processor time that it takes.

    The random generator depends on the method's name. `on_call` and `debug` are as in
    hpobench_nmt.core.trial_loop.run_trial, and `transcripts` is as in Block.
    """
    start = time.process_time()
    rng = method_generator(seed, seen.name, method, trial)
    initial = seen.initial(seed, trial)
    violations = None if seen.violations is None else seen.violations.__getitem__
    trainings, again = seen.trainings, None
    if seen.replicates is not None:
        # One draw for each row that may be looked up, the same for every method.
        places = seen.replicates.places(generator(seed, "noise", seen.name, trial))
        known = seen.replicates.costs
        costs = trainings.costs if known is None else known[places]
        trainings = replace(trainings, losses=seen.replicates.losses[places], costs=costs)
        if seen.problem.again:
            noise = seen.replicates

            def again(row: int, number: int) -> Floats:
                return np.asarray(noise.losses[noise.after(places, row, number)])

    transcript = None if transcripts is None else transcripts / f"{trial:06d}.jsonl"
    with one_trial(factory, transcript) as make:
        found = run_trial(
            seen.problem, trainings, make, rng, initial, seen.goals, on_call, violations, debug, again
        )
    if seen.replicates is not None:
        found = replace(found, losses=seen.losses[found.candidates])  # the rows' means
    if seen.sample is not None:
        found = replace(found, rows=seen.sample[found.rows])
    return replace(found, own_seconds=time.process_time() - start)


def failed_trial(seen: TrialTable, seed: int, trial: int, reason: str) -> Trajectory:
    """A trial of a method that did not get beyond its initial design."""

    def never(problem: Problem, rng: np.random.Generator) -> ParallelMethod:
        raise RuntimeError

    return replace(trial_of(seen, "", never, seed, trial), failure=reason, own_seconds=math.nan)


@dataclass(frozen=True)
class Took:
    """The time that some trials of a method took.

    `seconds` includes loading the method. `own_seconds`, the processor time, and `steps`, the number of
    look-ups after the initial design, leave out the first trial, which also loads code.
    """

    seconds: float
    own_seconds: float
    steps: int

    @classmethod
    def of(cls, trials: Iterable[Trajectory], seconds: float, n_initial: int) -> Took:
        """The time of the measured trials without the first of several, which loads and compiles code."""
        measured = [t for t in trials if not math.isnan(t.own_seconds)]
        measured = measured[1:] or measured
        steps = sum(max(len(t.rows) - n_initial, 0) for t in measured)
        return cls(seconds, sum(t.own_seconds for t in measured), steps)


def seconds_a_step(several: Iterable[Took]) -> float:
    """The processor time per step; NaN without a step."""
    parts = list(several)
    steps = sum(part.steps for part in parts)
    return sum(part.own_seconds for part in parts) / steps if steps else math.nan
