"""The interface of an HPO method, whole: the problem that it sees, and the calls that it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.deprecated import warn_deprecated
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.space import Config, Hyperparameter, Space, Value, config_key, row_index

_NO_DEFAULT: Any = object()


def _whole_only() -> Floats:
    resources = np.ones(1)
    resources.setflags(write=False)
    return resources


@dataclass(frozen=True, eq=False)
class Source:
    """Another table, known whole, that a method may learn from.

    Attributes:
        name: the table's.
        features: its n rows on the scales of the problem's features, shape (n, F), read-only; outside of [0,
            1] where its values lie beyond the problem's.
        losses: of the problem's objectives, shape (n, n_objectives), read-only; NaN where missing.
    """

    name: str
    features: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """The candidates and the rules; never the metrics of a row that was not asked for.

    Problems compare by identity, so that a method can cache what depends only on the candidates (a covariance
    matrix, say) with functools.lru_cache and share it between trials.

    A method's rows are the candidates, numbered from 0 to N - 1. Where only some rows of a table are
    candidates, such as those with a learning curve, the table has other numbers, which results have
    (`Trajectory.rows`).

    Attributes:
        features: every candidate as models see it, in [0, 1], shape (N, F), read-only: one column for each
            hyperparameter, but for categories one column each (see core/space.py).
        n_objectives: number of losses that each look-up gives.
        lookups: the most rows that a trial may look up, or start with `suggest`, the initial design included;
            at most N. It is the `--lookups` of a run, or N. Resuming a row does not count (see
            `ParallelMethod`).
        n_initial: number of random rows that a method is told before it is first asked.
        space: the hyperparameters with their names, values, scales and kinds. Left out: one numeric
            hyperparameter for each feature, "x1" and so on.
        configs: every candidate as numbers, shape (N, H), read-only: values in their own unit, a label's
            place among the values, NaN where inactive. `config(row)` is easier to read. Left out: the
            features.
        workers: how many trainings can run at a time.
        resources: all resources that some row has a checkpoint at, ascending, shape (R,), read-only; [1.0]
            where rows can only be looked up whole.
        resume: whether any worker can resume a paused training later. Otherwise it continues only if it is
            asked for again as soon as it has come to a checkpoint; later it restarts.
        clock: what time is counted in: "lookups", or "cost", which the table names.
        time: the most time that a trial may take on that clock; infinite if only `lookups` ends it.
        constraints: what a feasible row must keep, such as "dev_gpu_time<=60"; c of them. A method gets the
            violations in `tell_constrained`, if it has that (core/constraints.py describes what others get).
        sources: other tables that the method may learn from.
        prior: what a user expects of the candidates, logarithms of weights, shape (N,), read-only: the
            larger, the better. None: the user gave none. It never comes from the table.
    """

    features: Floats
    n_objectives: int
    lookups: int
    n_initial: int
    space: Space = None  # type: ignore[assignment]  # never None once the problem is made
    configs: Floats = None  # type: ignore[assignment]  # likewise
    workers: int = 1
    resources: Floats = field(default_factory=_whole_only)
    resume: bool = True
    clock: Literal["lookups", "cost"] = "lookups"
    time: float = math.inf
    constraints: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    prior: Floats | None = None

    def __post_init__(self) -> None:
        """Describe the features themselves where no space is given; refuse a prior that does not fit."""
        if self.prior is not None:
            _check_prior(self.prior, len(self.features))
        if (self.space is None) != (self.configs is None):
            raise InputError("a problem needs both space and configs, or neither.")
        if self.space is None:
            object.__setattr__(self, "space", _space_of(self.features))
            object.__setattr__(self, "configs", self.features)

    def config(self, row: int) -> dict[str, Value]:
        """A candidate's values by name; a hyperparameter that is inactive in it is not there."""
        return self.space.decode(self.configs[row])

    @overload
    def row(self, config: Config) -> int: ...

    @overload
    def row(self, config: Config, default: int | None) -> int | None: ...

    def row(self, config: Config, default: int | None = _NO_DEFAULT) -> int | None:
        """The row of a configuration. The first call takes O(N), others O(H).

        Args:
            config: values by name.
            default: what is returned, if given, where no candidate has these values.

        Raises:
            InputError: an unknown name; without a default, no candidate has this configuration, or it has a
                value that is not on the grid.
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

        They differ from it in one of the hyperparameters that are active in both: a number or an ordered
        label is the next one, up or down, that such a row has; a category may be any other.
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
    """The row of a configuration in an index of `row_index`; else InputError: `before`, it, and `after`."""
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
    """An HPO method: any class that is made as `Method(problem, rng)` and has these two methods.

    All its randomness must come from rng, a numpy.random.Generator. A row that it asks for is looked up and
    told before it is asked again, so that `ask` need not remember its answer.
    """

    def ask(self) -> int:
        """A row that was not told yet."""

    def tell(self, index: int, losses: Floats) -> None:
        """The losses of a row, shape (n_objectives,), to be minimised; NaN where its training failed.

        The rows of the initial design are told first, without having been asked for.
        """


class ConstrainedMethod(Method, Protocol):
    """A method that knows constraints. It says so by having `tell_constrained`."""

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Called in place of `tell` where the problem has constraints.

        Args:
            index: the row.
            losses: as in `tell`, also of a row that violates a constraint.
            violations: by how much the row misses each bound, in the metric's unit, shape (c,): above 0
                where it does, below 0 where there is room; NaN where the metric is missing.
        """


class Request(NamedTuple):
    """A row to train, and how far.

    Attributes:
        row: its number.
        resource: to the first checkpoint at this resource or above; infinite: until the training ends.
    """

    row: int
    resource: float = math.inf


class Progress(NamedTuple):
    """How far a row's training is, and its learning curve up to there. The arrays are read-only.

    Attributes:
        row: its number.
        resources: of the k checkpoints so far, ascending, shape (k,); the last one is where it is.
        costs: of the training up to each checkpoint, shape (k,).
        losses: at each checkpoint, to be minimised, shape (k, n_objectives); NaN where there are none. A
            training that has failed is done, and its last losses are NaN.
        best: losses of the best checkpoint so far, by the first loss, shape (n_objectives,).
        done: whether the training has ended, so that it cannot be trained further.
        time: when that was, on the trial's clock.
    """

    row: int
    resources: Floats
    costs: Floats
    losses: Floats
    best: Floats
    done: bool
    time: float


class ParallelMethod(Protocol):
    """A method that can have several trainings running, or that trains rows part of the way.

    It has `suggest`, which is called in place of `ask`. A method that has only `ask` runs with one worker,
    and trains each row until its training ends.

    A trial starts at most `problem.lookups` rows, the initial design included. The method counts them: rows
    that were observed or told, and those that are running. After that `suggest` must name a started row that
    is not running and has not ended, or None to wait, until all are trained to their end. A new row is not
    started: the worker stays idle until another training has finished, and the trial ends when nothing is
    running. `hpobench_nmt.testing.keeps_to_its_budget_of_rows` checks this.
    """

    def suggest(self, running: Mapping[int, float]) -> int | Request | tuple[int, float] | None:
        """What an idle worker is to do next.

        Args:
            running: the rows in training now, those of the initial design included, with the resource that
                was asked for; read-only. It changes during the trial: copy it to keep it.

        Returns:
            a row, to be trained until its training ends; or a request: a row and a resource, which must be
            more than the row has; or None to wait until something that is running has finished.
        """

    def observe(self, progress: Progress) -> None:
        """A training has come as far as was asked, or has ended before that.

        A method without `observe` is told the losses of the row's best checkpoint so far by `tell`.
        """


class MethodFactory(Protocol):
    """A maker of methods: the class itself, or a function with its signature."""

    def __call__(self, problem: Problem, rng: np.random.Generator) -> Method | ParallelMethod:
        """A method at the start of a trial."""


def name_of(factory: object) -> str:
    """A method's name: the class's or function's own, or the `name` that an object has, or its type's."""
    name = getattr(factory, "__name__", None) or getattr(factory, "name", None)
    return name if isinstance(name, str) and name else type(factory).__name__
