"""The whole interface of an HPO method: the problem that it sees, and the functions that it has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows, frozen
from hpobench_nmt.core.space import Config, Hyperparameter, Space, Value, config_key, row_index
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError

_NO_DEFAULT: Any = object()


@dataclass(frozen=True, eq=False)
class Source:
    """Another table, all of whose rows are known, that a method may learn from.

    Attributes:
        name: the name of the table.
        features: its n rows on the scales of the problem's features, shape (n, F), read-only. Features lie
            outside of [0, 1] if a value lies outside the problem's range.
        losses: the losses of the problem's objectives, shape (n, n_objectives), read-only; NaN if missing.
    """

    name: str
    features: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """The candidates and the rules of a trial. A method sees the losses of a row only after looking it up.

    Problems compare by identity. So a method can cache anything that depends only on the candidates, such as
    a covariance matrix, with functools.lru_cache and share it between trials.

    A method's rows are the candidates, numbered from 0 to N - 1. If only some rows of a table are candidates,
    such as those with a learning curve, these numbers differ from the table's row numbers. Results have the
    table's numbers (`Trajectory.rows`).

    Attributes:
        features: the features of every candidate, in [0, 1], shape (N, F), read-only. There is one column for
            each hyperparameter, or one for each category of a categorical hyperparameter (see core/space.py).
        n_objectives: number of losses of each look-up.
        lookups: maximum number of rows that a trial may look up, or start with `suggest`, including the
            initial design; at most N. It is the `--lookups` of a run, or N. Resuming a row does not count
            (see `ParallelMethod`).
        n_initial: number of random rows that a method receives before its first call.
        space: the hyperparameters with their names, values, scales and kinds. By default, one numeric
            hyperparameter for each feature, named "x1" and so on.
        configs: every candidate as numbers, shape (N, H), read-only: values in their own unit, a label's
            position among the values, NaN where inactive. `config(row)` is easier to read. By default, the
            features.
        workers: number of trainings that can run at a time.
        resources: all resources at which some row has a checkpoint, ascending, shape (R,), read-only; [1.0]
            if rows can only be looked up whole.
        resume: whether any worker can resume a paused training later. Otherwise a training continues only if
            it is requested again as soon as it has reached a checkpoint; if requested later, it restarts.
        clock: the unit of time: "lookups", or "cost", which the table defines.
        time: maximum time of a trial on that clock; infinite if only `lookups` ends it.
        constraints: the c constraints that a feasible row must keep, such as "dev_gpu_time<=60". A method
            receives the violations in `tell_constrained`, if it has this function (core/constraints.py
            describes what other methods receive).
        sources: other tables that the method may learn from.
        prior: how good a user expects each candidate to be, as logarithms of weights, shape (N,), read-only;
            larger is better. None if the user did not give a prior. It never comes from the table.
        again: whether a row that was trained may be requested again. It is then trained with another seed,
            which counts as a look-up. `tell` receives the losses of each training. At the end of a trial, the
            method's `recommend`, if it has one, receives all rows that were trained, and returns one of them.
    """

    features: Floats
    n_objectives: int
    lookups: int
    n_initial: int
    space: Space = None  # type: ignore[assignment]  # never None once the problem is made
    configs: Floats = None  # type: ignore[assignment]  # likewise
    workers: int = 1
    resources: Floats = field(default_factory=lambda: frozen(np.ones(1)))
    resume: bool = True
    clock: Literal["lookups", "cost"] = "lookups"
    time: float = math.inf
    constraints: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    prior: Floats | None = None
    again: bool = False

    def __post_init__(self) -> None:
        """Describe the features themselves if no space is given; refuse a prior that does not fit."""
        if self.prior is not None:
            _check_prior(self.prior, len(self.features))
        if (self.space is None) != (self.configs is None):
            raise InputError("a problem needs both space and configs, or neither.")
        if self.space is None:
            object.__setattr__(self, "space", _space_of(self.features))
            object.__setattr__(self, "configs", self.features)

    def of_rows(self, rows: Rows, resources: Floats, lookups: int, time: float) -> Problem:
        """The problem with some of its candidates, in this order, and with another budget.

        `resources` are those of the candidates that are left. Features keep their scale.
        """
        return replace(
            self,
            features=frozen(self.features[rows]),
            configs=frozen(self.configs[rows]),
            resources=resources,
            prior=None if self.prior is None else frozen(self.prior[rows]),
            lookups=lookups,
            time=time,
        )

    def config(self, row: int) -> dict[str, Value]:
        """A candidate's values by name, without inactive hyperparameters."""
        return self.space.decode(self.configs[row])

    @overload
    def row(self, config: Config) -> int: ...

    @overload
    def row(self, config: Config, default: int | None) -> int | None: ...

    def row(self, config: Config, default: int | None = _NO_DEFAULT) -> int | None:
        """The row of a configuration. The first call takes O(N), others O(H).

        Args:
            config: values by name.
            default: the value to return if no candidate has these values.

        Raises:
            InputError: an unknown name; or, without a default, a value that is not on the grid, or a
                configuration that is not a candidate.
        """
        before = f"none of the {len(self.configs):,} candidates has"
        try:
            return find_row(self._rows, self.space, config, before, ".")
        except InputError:
            if default is _NO_DEFAULT or not all(name in self.space.names for name in config):
                raise
            return default

    def neighbours(self, row: int) -> Rows:
        """The rows that are one step away from a row, ascending. O(N H).

        A neighbour differs from the row in one of the hyperparameters that are active in both. A number or an
        ordered label is the next larger or smaller one that such a row has; a category may be any other.
        """
        here = self.configs[row]
        differs = (self.configs != here) & ~np.isnan(self.configs) & ~np.isnan(here)
        once = differs.sum(axis=1) == 1
        found = []
        for j, h in enumerate(self.space):
            rows = np.flatnonzero(once & differs[:, j])
            if h.kind != "categorical":
                steps = self.configs[rows, j] - here[j]
                up, down = steps[steps > 0].min(initial=np.inf), steps[steps < 0].max(initial=-np.inf)
                rows = rows[(steps == up) | (steps == down)]
            found.append(rows)
        return np.sort(np.concatenate(found))

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return row_index(self.configs)

    @property
    def counts_lookups(self) -> bool:
        """Whether time is the number of look-ups of one worker."""
        return self.clock == "lookups" and self.workers == 1

    @property
    def budget(self) -> int:
        """The old name of `lookups`, for methods that were written for the first version."""
        warn_deprecated("Problem.budget", "Problem.lookups", since="1.1", removed_in="2.0")
        return self.lookups


def find_row(rows: dict[bytes, int], space: Space, config: Config, before: str, after: str) -> int:
    """The row of a configuration in an index that `row_index` made.

    The message of the InputError consists of `before`, the configuration and `after`.
    """
    row = rows.get(config_key(space.encode(config)))
    if row is None:
        shown = ", ".join(f"{name}={value}" for name, value in config.items())
        raise InputError(f"{before} {shown}{after}")
    return row


def _check_prior(prior: Floats, n_rows: int) -> None:
    if np.shape(prior) != (n_rows,) or not np.isfinite(prior).all():
        raise InputError(
            f"a prior needs a finite log-weight for each of the {n_rows:,} candidates; this one has shape "
            f"{np.shape(prior)}, {int(np.isfinite(prior).sum()):,} of them finite."
        )


def _space_of(features: Floats) -> Space:
    axes = (np.unique(column).tolist() for column in features.T)
    return Space(tuple(Hyperparameter(f"x{j}", tuple(v), integer=False) for j, v in enumerate(axes, 1)))


class Method(Protocol):
    """An HPO method: any class that is constructed as `Method(problem, rng)` and has these two functions.

    All random numbers must come from rng, a numpy.random.Generator. The row that `ask` returns is looked up
    and passed to `tell` before the next `ask`, so `ask` need not remember its answer.
    """

    def ask(self) -> int:
        """Return a row that has not been looked up yet."""

    def tell(self, index: int, losses: Floats) -> None:
        """Receive the losses of a row, shape (n_objectives,), to be minimised; NaN if its training failed.

        The rows of the initial design come first, although `ask` did not return them.
        """


class ConstrainedMethod(Method, Protocol):
    """A method that handles constraints, which it shows by having `tell_constrained`."""

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Called instead of `tell` if the problem has constraints.

        Args:
            index: the row.
            losses: as in `tell`, also for a row that violates a constraint.
            violations: the amount by which the row misses each bound, in the metric's unit, shape (c,):
                above 0 if it misses the bound, below 0 if it keeps it, NaN if the metric is missing.
        """


class Request(NamedTuple):
    """A row to train, and how far.

    Attributes:
        row: the number of the row.
        resource: train up to the first checkpoint at or above this resource; if infinite, to the end.
    """

    row: int
    resource: float = math.inf


class Progress(NamedTuple):
    """The progress of a row's training, and its learning curve so far. The arrays are read-only.

    Attributes:
        row: the number of the row.
        resources: resources of the k checkpoints so far, ascending, shape (k,). The training has reached the
            last of them.
        costs: cost of the training up to each checkpoint, shape (k,).
        losses: losses at each checkpoint, to be minimised, shape (k, n_objectives); NaN if missing. A
            training that has failed is done, and its last losses are NaN.
        best: losses of the best checkpoint so far, by the first loss, shape (n_objectives,).
        done: whether the training has ended, so that it cannot be trained further.
        time: time of the last checkpoint on the trial's clock.
    """

    row: int
    resources: Floats
    costs: Floats
    losses: Floats
    best: Floats
    done: bool
    time: float


class ParallelMethod(Protocol):
    """A method that can run several trainings at a time, or that can stop trainings early.

    It has `suggest`, which is called instead of `ask`. A method with only `ask` runs with one worker, and
    trains each row to its end.

    A trial starts at most `problem.lookups` rows, including the initial design. The method must count them:
    they are the rows that it has received in `observe` or `tell`, and the rows that are running. When the
    maximum is reached, `suggest` must return a started row that is not running and has not ended, or None to
    wait, until all started rows are trained to their end. If it returns a new row, this row is not started:
    the worker stays idle until another training has finished, and the trial ends when nothing is running.
    `hpobench_nmt.testing.keeps_to_its_budget_of_rows` checks this rule.
    """

    def suggest(self, running: Mapping[int, float]) -> int | Request | tuple[int, float] | None:
        """Return the next task of an idle worker.

        Args:
            running: the rows that are training now, including those of the initial design, with the
                requested resource; read-only. It changes during the trial, so copy it to keep it.

        Returns:
            a row, to train it to its end; or a request, which is a row and a larger resource than the row
            has; or None, to wait until a running training has finished.
        """

    def observe(self, progress: Progress) -> None:
        """Receive the progress of a training that has reached the requested resource, or has ended before it.

        If a method lacks `observe`, its `tell` receives the losses of the row's best checkpoint so far.
        """


class MethodFactory(Protocol):
    """A callable that constructs methods: the class itself, or a function with its signature."""

    def __call__(self, problem: Problem, rng: np.random.Generator) -> Method | ParallelMethod:
        """A method at the start of a trial."""


def name_of(factory: object) -> str:
    """A method's name: that of the class or function, else an object's attribute `name`, else its type's."""
    name = getattr(factory, "__name__", None) or getattr(factory, "name", None)
    return name if isinstance(name, str) and name else type(factory).__name__
