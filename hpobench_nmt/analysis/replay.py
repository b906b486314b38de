"""Typical trials, look-up by look-up, in the plane of two objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.analysis.run_fronts import Pair, axes_of, raw_points, typical_trial
from hpobench_nmt.analysis.selection import instance_of, methods_on, scored_trials
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.arrays import Floats, Ints, Rows
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError, unknown
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
class Replay:
    """A typical trial of each method on a table.

    `labels`, `maximised` and `points`, shape (N, 2), belong to the two objectives that are shown. `front` has
    the rows of the table's front in all `n_objectives` objectives.
    """

    table: str
    labels: tuple[str, str]
    maximised: tuple[bool, bool]
    points: Floats
    front: Rows
    n_objectives: int
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
    whose trials have all failed is left out. Raises InputError for an unknown method or trial.
    """
    instance = instance_of(results, table, 2)
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    scale, found = table_scale(instance.scored), {}
    known = methods_on(results, table)
    for method in methods or known:
        if method not in known:
            raise unknown("method", method, known, f"(table {table!r})")
        trials = scored_trials(results, table, method)
        if trial is None and all(t.failure or not len(t.rows) for t in trials):
            continue
        number = typical_trial(trials, scale, lookups) if trial is None else trial
        if not 0 <= number < len(trials):
            raise InputError(
                f"trial {number} of {method} on {table} does not exist: there are trials 0 to "
                f"{len(trials) - 1}."
            )
        chosen = trials[number]
        rows = chosen.candidates[:lookups].astype(np.int64)
        found[method] = ReplayedTrial(number, rows, _last_on_front(chosen.losses[:lookups]))
    if not found:
        raise InputError("every trial failed, so there is no trial to show.")
    labels, maximised = axes_of(instance, pair)
    names = tuple(h.name for h in instance.table.hyperparameters)
    taken = sorted({int(row) for each in found.values() for row in each.rows})
    values = {row: instance.table.config(row) for row in taken}
    return Replay(
        table=table,
        labels=labels,
        maximised=maximised,
        points=raw_points(instance, pair),
        front=pareto_front(instance.scored),
        n_objectives=len(instance.objectives),
        trials=found,
        hyperparameters=names,
        configs={row: tuple(of.get(name) for name in names) for row, of in values.items()},
    )


def _last_on_front(losses: Floats) -> Ints:
    """After how many look-ups each row was last on the front of the rows so far, (n,). O(n^2 log n)."""
    last = np.arange(len(losses))
    for n in range(1, len(losses) + 1):
        last[pareto_front(losses[:n])] = n
    return last
