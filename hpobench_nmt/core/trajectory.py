"""The rows that trials looked up, and the goals that a trial may wait for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Ints, Rows, frozen
from hpobench_nmt.core.pareto import FrontScale
from hpobench_nmt.core.system.text import counted, printable
from hpobench_nmt.core.trainings import RowsThenResources


def _freeze(made: object, *names: str) -> None:
    """Replace arrays of a dataclass by read-only views. The caller can still write to its own arrays."""
    for name in names:
        array = getattr(made, name)
        if array.flags.writeable:
            object.__setattr__(made, name, frozen(array.view()))


@dataclass(frozen=True, eq=False, repr=False)
class Goal:
    """Models to find. Scores are computed from goals, and a trial can end when all its goals are settled.

    There are K models. Usually these are the N rows. If the front is a front of checkpoints, they are all
    checkpoints, and `rows` has the row of each. A trial settles a goal when it has found enough targets, or
    has reached the time at which the score is measured.

    Attributes:
        targets: True for each model that counts, shape (K,).
        needed: number of targets that are enough.
        score_at: look-ups, or time on the trial's clock, after which the score is measured; None for a
            runtime.
        gaps: each row's distance from the best value, shape (N,), if the score is the smallest gap found.
        points: each model's scaled losses, shape (K, m), if the score is the share of the hypervolume found.
        name: the score's name, or a few words that describe the goal.
        resources: the resource to which a model's row must be trained for the model to count, shape (K,);
            None if rows are looked up whole.
        best: the loss from which gaps are measured.
        scale: how losses are scaled to points.
        rows: the row of each model, ascending, shape (K,), if models are checkpoints; None if they are rows.
    """

    targets: Bools
    needed: int
    score_at: float | None = None
    gaps: Floats | None = None
    points: Floats | None = None
    name: str = ""
    resources: Floats | None = None
    best: float = math.nan
    scale: FrontScale | None = None
    rows: Rows | None = None

    @cached_property
    def counts_from(self) -> Floats:
        """The resource from which each model counts, shape (K,); NaN for models that are not targets."""
        return np.where(self.targets, 1.0 if self.resources is None else self.resources, np.nan)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.targets) if self.rows is None else int(self.rows[-1]) + 1

    @cached_property
    def by_row(self) -> Ints:
        """Number of targets of each row, shape (N,)."""
        if self.rows is None:
            return self.targets.astype(np.int64)
        return np.bincount(self.rows[self.targets], minlength=self.n_rows)

    @cached_property
    def whole(self) -> Goal | None:
        """The same goal in rows, for trainings that run to their end and so find all targets of their row.

        None if no number of rows is equivalent, because a row may have several targets: neither one nor all
        targets are needed, or the score is measured at a given time.
        """
        if self.rows is None:
            return self
        held, count = self.by_row > 0, int(self.by_row.sum())
        if self.score_at is not None or self.needed not in (1, count):
            return None
        return Goal(held, 1 if self.needed == 1 else int(held.sum()), name=self.name)

    def met_by(self, trial: Trajectory) -> Ints:
        """How many targets each of the n trainings of a trial has found, shape (n,). O(n log K)."""
        before, now = trial.resources_before, trial.timeline.resources
        if self.rows is None:
            at = self.counts_from[trial.candidates]
            return ((before < at) & (at <= now)).astype(np.int64)
        below, upto = (self._order.places(trial.candidates, at, "right") for at in (before, now))
        return upto - below

    @cached_property
    def _order(self) -> RowsThenResources:
        assert self.rows is not None
        return RowsThenResources(self.rows[self.targets], self.counts_from[self.targets])

    def __repr__(self) -> str:
        """The name, the number of targets, and when the score is taken."""
        taken = "" if self.score_at is None else f", at {self.score_at:.10g}"
        what = counted(int(self.targets.sum()), "row" if self.rows is None else "checkpoint")
        return f"Goal({self.name!r}: {self.needed} of {what}{taken})"


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """When and where the n trainings of a trial ran, in the order of finishing. Arrays have shape (n,).

    Attributes:
        resources: the resource that each training reached.
        costs: the worker's time that each training took.
        starts, finishes: times on the trial's clock.
        workers: worker numbers, from 0.
    """

    resources: Floats
    costs: Floats
    starts: Floats
    finishes: Floats
    workers: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        _freeze(self, "resources", "costs", "starts", "finishes", "workers")

    def part(self, first: int, stop: int) -> Timeline:
        """Trainings first to stop - 1; the arrays are shared."""
        return Timeline(*(getattr(self, each.name)[first:stop] for each in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Timeline]) -> Timeline:
        """One or more timelines, one after the other."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    @classmethod
    def of_lookups(cls, count: int) -> Timeline:
        """The timeline of one worker that looks up whole rows, each in one unit of time."""
        ones, finishes = np.ones(count), np.arange(1.0, count + 1)
        return cls(ones, ones, finishes - 1, finishes, np.zeros(count, dtype=np.int32))


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """One trial: the rows that it looked up or trained, in the order of finishing.

    Attributes:
        rows: row numbers, shape (n,). With one worker, the initial design comes first. A row that was
            resumed occurs more than once. In results, these are the row numbers of the loaded table:
            `table.config(row)` is the configuration.
        losses: losses to minimise, shape (n, m), with metrics to maximise negated; NaN if missing. If rows
            have checkpoints, the losses of the row's best checkpoint so far.
        failure: why the method was stopped; empty if it was not stopped.
        timing: when trainings ran; None if time is the number of look-ups (`timeline` computes it then).
        own_seconds: processor time of this process that the trial took, nearly all of it in the method; NaN
            if it was not measured. It is the only part that differs from run to run.
        problem_rows: the numbers of the same rows in the problem, shape (n,), if these differ because only
            some rows are candidates, such as those with a learning curve; else None (see `candidates`).
        recommended: where rows may be looked up again, the place, from 0, of a look-up of the row that the
            method recommends in the end, -1 if it recommends none; elsewhere None.
    """

    rows: Rows
    losses: Floats
    failure: str = ""
    timing: Timeline | None = None
    own_seconds: float = math.nan
    problem_rows: Rows | None = None
    recommended: int | None = None

    @property
    def candidates(self) -> Rows:
        """The row numbers in the problem, shape (n,), which are the indices of its losses and goals."""
        return self.rows if self.problem_rows is None else self.problem_rows

    @cached_property
    def timeline(self) -> Timeline:
        """When each training ran and on which worker, the resource that it reached, and its cost."""
        return self.timing or Timeline.of_lookups(len(self.rows))

    @cached_property
    def resources_before(self) -> Floats:
        """The resource to which each training's row had been trained before, shape (n,); -1 for a new row."""
        before = np.full(len(self.rows), -1.0)
        if self.timing is None:
            return before
        order = np.argsort(self.rows, kind="stable")  # each row's trainings, in the order of finishing
        again = np.diff(self.rows[order]) == 0
        before[order[1:][again]] = self.timing.resources[order[:-1][again]]
        return before

    def __repr__(self) -> str:
        """How many look-ups, the first of them, and whether it failed."""
        first = ", ".join(map(str, self.rows[:5].tolist())) + (", ..." if len(self.rows) > 5 else "")
        failed = f", failed: {printable(self.failure)[:200]}" if self.failure else ""
        return f"Trajectory({counted(len(self.rows), 'look-up')}: {first}{failed})"

    def _repr_html_(self) -> str:
        """One row per look-up, for notebooks."""
        names = ["step", "row", *(f"loss_{j + 1}" for j in range(self.losses.shape[1]))]
        lines = ["".join(f"<th>{name}</th>" for name in names)]
        for step, (row, losses) in enumerate(zip(self.rows, self.losses, strict=True), start=1):
            lines.append("".join(f"<td>{value:.10g}</td>" for value in (step, row, *losses)))
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<p>{escape(repr(self))}</p><table>{body}</table>"


def same_trial(a: Trajectory, b: Trajectory) -> bool:
    """Whether two trials looked up the same rows at the same times, to the bit."""
    times = np.array_equal(a.timeline.finishes, b.timeline.finishes)
    return a.failure == b.failure and np.array_equal(a.rows, b.rows) and times


@dataclass(frozen=True, eq=False, repr=False)
class Trials(Sequence[Trajectory]):
    """The trials of one method on one table, as a sequence of trajectories that takes little memory.

    It keeps row numbers, in four bytes for each look-up, and on a clock also losses and times. A trajectory
    is constructed when it is accessed. If losses are not kept, they are taken from the table.

    Attributes:
        table_losses: losses of all candidates, shape (N, m), shared by all trials.
        looked_up: candidates of all trials, one trial after the other, shape (total,).
        starts: position in looked_up at which each trial begins, and the total at the end, shape
            (trials + 1,).
        failures: reasons of the trials that failed, by trial number.
        timing: timelines of all trials, one after the other; None if time is the number of look-ups.
        losses: losses of all trials in the same order, shape (total, m); None if they are the table's.
        numbers: row number in the table of each candidate, shape (N,); None if both numbers are the same.
        recommended: as in Trajectory, shape (trials,); None where rows may not be looked up again.
    """

    table_losses: Floats
    looked_up: NDArray[np.int32]
    starts: Ints
    failures: Mapping[int, str]
    timing: Timeline | None = None
    losses: Floats | None = None
    numbers: Rows | None = None
    recommended: Rows | None = None

    def __post_init__(self) -> None:
        """Make the arrays read-only, because results are scored from them."""
        there = [name for name in ("losses", "numbers", "recommended") if getattr(self, name) is not None]
        _freeze(self, "table_losses", "looked_up", "starts", *there)

    @classmethod
    def of(
        cls, table_losses: Floats, trajectories: Iterable[Trajectory], numbers: Rows | None = None
    ) -> Trials:
        """Trials from trajectories; if no trajectory has times, the losses are the table's."""
        found = list(trajectories)
        rows = np.concatenate([np.empty(0, np.int32), *(t.candidates for t in found)]).astype(np.int32)
        starts = np.array([0, *accumulate(len(t.rows) for t in found)], dtype=np.int64)
        failures = {i: t.failure for i, t in enumerate(found) if t.failure}
        if not any(t.timing for t in found):
            at = [t.recommended for t in found if t.recommended is not None]
            places = np.array(at, dtype=np.int64) if len(at) == len(found) > 0 else None
            return cls(table_losses, rows, starts, failures, numbers=numbers, recommended=places)
        losses = np.concatenate([t.losses for t in found])
        timing = Timeline.joined([t.timeline for t in found])
        return cls(table_losses, rows, starts, failures, timing, losses, numbers)

    @classmethod
    def joined(cls, parts: Sequence[Trials]) -> Trials:
        """The trials of one or more parts, in order."""
        every = (trial for part in parts for trial in part)
        return cls.of(parts[0].table_losses, every, parts[0].numbers)

    @property
    def lengths(self) -> Rows:
        """Number of look-ups of each trial, shape (trials,)."""
        return np.diff(self.starts)

    def part(self, first: int, stop: int) -> Trials:
        """Trials first to stop - 1; the arrays are shared."""
        begin, end = self.starts[first], self.starts[stop]
        failures = {i - first: reason for i, reason in self.failures.items() if first <= i < stop}
        starts, rows = self.starts[first : stop + 1] - begin, self.looked_up[begin:end]
        timing = self.timing and self.timing.part(begin, end)
        losses = None if self.losses is None else self.losses[begin:end]
        places = None if self.recommended is None else self.recommended[first:stop]
        return Trials(self.table_losses, rows, starts, failures, timing, losses, self.numbers, places)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Trajectory]: ...

    def __getitem__(self, index: int | slice) -> Trajectory | Sequence[Trajectory]:
        """A trial, or a list of them for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        begin, end = self.starts[number], self.starts[number + 1]
        candidates = self.looked_up[begin:end].astype(np.int64)
        failure = self.failures.get(number, "")
        losses = self.table_losses[candidates] if self.losses is None else self.losses[begin:end]
        timing = self.timing and self.timing.part(begin, end)
        place = None if self.recommended is None else int(self.recommended[number])
        trial = Trajectory(candidates, losses, failure, timing, recommended=place)
        if self.numbers is None:
            return trial
        return replace(trial, rows=self.numbers[candidates], problem_rows=candidates)

    def __repr__(self) -> str:
        """How many trials, look-ups and failures."""
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"Trials({counted(len(self), 'trial')}, {counted(len(self.looked_up), 'look-up')}{failed})"
