"""Single trials, look-up by look-up, in the plane of two objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.analysis.run_fronts import Pair, Plane, in_order, plane_of
from hpobench_nmt.analysis.selection import instance_of, methods_on, trials_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.scoring import scored_trial
from hpobench_nmt.core.arrays import Floats, Ints, Rows
from hpobench_nmt.core.pareto import FrontScale, pareto_front
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import hypervolume_shares
from hpobench_nmt.evaluation.hypervolume import table_scale

# Look-ups of a trial that are replayed; the paper's longest budget.
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class ReplayedTrial:
    """The rows that one trial looked up, in order, and how long each stayed on the trial's own front.

    Both arrays have shape (n,). `last` is the number of look-ups after which a row was last on the front. It
    is n for a row that is on the front in the end. For a row that never was, it is less than the number of
    its own look-up.
    """

    trial: int
    rows: Rows
    last: Ints

    def front_after(self, lookups: int) -> Rows:
        """The rows on the trial's front after this many look-ups, in the order of their look-ups."""
        lookups = min(lookups, len(self.rows))
        return self.rows[:lookups][self.last[:lookups] >= lookups]


@dataclass(frozen=True, eq=False)
class Replay(Plane):
    """A typical trial of each method on a table, in the plane of two objectives."""

    trials: Mapping[str, ReplayedTrial]
    hyperparameters: tuple[str, ...]
    configs: Mapping[int, tuple[object, ...]]
    """The hyperparameters' values in each row that a trial looked up; None for an inactive one."""


def replay(
    results: Results,
    table: str,
    methods: Sequence[str] = (),
    trial: int | None = None,
    lookups: int = _MOST_STEPS,
    pair: Pair = (0, 1),
) -> Replay:
    """A trial of each method, or of the named methods, up to this many look-ups.

    By default, it is the typical trial: its mean hypervolume over these look-ups is the median. A method
    whose trials have all failed is left out. `pair` has the places of the two objectives to show. Raises
    InputError for an unknown method or trial.
    """
    instance = instance_of(results, table, 2)
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    scale, found = table_scale(instance.scored), {}
    for method in methods or methods_on(results, table):
        trials = [scored_trial(instance, each) for each in trials_of(results, table, method, trial)]
        number = _typical(trials, scale, lookups) if trial is None else trial
        if number is not None:
            rows, losses = trials[number].candidates[:lookups], trials[number].losses[:lookups]
            found[method] = ReplayedTrial(number, rows.astype(np.int64), _last_on_front(losses))
    if not found:
        raise InputError("every trial failed, so there is no trial to show.")
    names = tuple(h.name for h in instance.table.hyperparameters)
    taken = sorted({int(row) for each in found.values() for row in each.rows})
    configs = {row: tuple(map(instance.table.config(row).get, names)) for row in taken}
    return Replay(**vars(plane_of(instance, pair)), trials=found, hyperparameters=names, configs=configs)


@dataclass(frozen=True, eq=False)
class Fronts(Plane):
    """The Pareto front of one trial as it moves.

    Attributes:
        method, trial: the method and the number of the trial.
        lookups: after how many look-ups each of the fronts was taken; the last may be the trial's end.
        fronts: each front in all objectives, in the order of the first objective of the plane.
    """

    method: str
    trial: int
    lookups: tuple[int, ...]
    fronts: tuple[Rows, ...]


def moving_front(
    results: Results,
    table: str,
    method: str,
    lookups: Sequence[int] = (10, 20, 50, 100),
    trial: int | None = None,
    pair: Pair = (0, 1),
) -> Fronts:
    """Fronts of a trial after these numbers of look-ups, or at its end if that came before; see `replay`."""
    instance = instance_of(results, table, 2)
    if not lookups or min(lookups) < 1:
        raise InputError("the fronts need numbers of look-ups of 1 or more.")
    shown = replay(results, table, [method], trial, max(lookups), pair).trials[method]
    steps = tuple(sorted({min(n, len(shown.rows)) for n in lookups}))
    fronts = tuple(in_order(instance, shown.front_after(n), pair) for n in steps)
    plane = vars(plane_of(instance, pair))
    return Fronts(**plane, method=method, trial=shown.trial, lookups=steps, fronts=fronts)


def _typical(trials: Sequence[Trajectory], scale: FrontScale, lookups: int) -> int | None:
    """The trial whose mean hypervolume over its look-ups is the median; None if every trial failed."""
    sound = np.array([not t.failure and len(t.rows) > 0 for t in trials])
    if not sound.any():
        return None
    shares = hypervolume_shares(trials, scale, np.arange(1.0, lookups + 1))
    mean = np.where(sound, np.nan_to_num(shares).mean(axis=1), np.inf)
    return int(np.argsort(mean, kind="stable")[(sound.sum() - 1) // 2])


def _last_on_front(losses: Floats) -> Ints:
    """After how many look-ups each row was last on the front of the rows so far, (n,). O(n^2 log n)."""
    last = np.arange(len(losses))
    for n in range(1, len(losses) + 1):
        last[pareto_front(losses[:n])] = n
    return last
