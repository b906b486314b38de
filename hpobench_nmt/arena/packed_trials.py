"""Trials in compact form, from which the rest can be computed: rows, and on a clock checkpoints and workers.

column      type          content
rows        list<int32>   row numbers of the installed table, in the order of finishing
steps       list<int16>   on a clock: number of checkpoints that the training passed before its last one
workers     list<int8>    on a clock: the worker
starts      list<double>  on a clock: when each training began; null if each began when its worker was free
failure     string        why the trial failed; null if it did not

Losses, costs and times are not stored, because they are in the table: a training ends when its cost is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.records.observations import candidates_of, checked_trials
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Timeline, Trials

COLUMNS = ("rows", "steps", "workers", "starts", "failure")

_Numbers = NDArray[np.integer[Any]]
Packed = dict[str, Any]
"""A list for each column, with one entry per trial."""


def packed(trials: Trials, instance: Instance) -> Packed:
    """The trials of a method on a table, in which paused trainings must have been resumed, not restarted."""
    bounds, numbers, timing = trials.starts, trials.numbers, trials.timing
    own = trials.looked_up if numbers is None else numbers[trials.looked_up]
    found: Packed = {name: [None] * len(trials) for name in COLUMNS}
    found["rows"] = np.split(own.astype(np.int32), bounds[1:-1])
    found["failure"] = [trials.failures.get(i) for i in range(len(trials))]
    if timing is None:
        return found
    trainings = instance.trainings
    places = trainings.place_of(trials.looked_up.astype(np.int64), timing.resources)
    levels = pd.Series(places - trainings.starts[trials.looked_up])
    of_row = [np.repeat(np.arange(len(trials)), trials.lengths), trials.looked_up]
    passed = levels - levels.groupby(of_row).shift(fill_value=-1) - 1
    found["steps"] = np.split(passed.to_numpy(np.int16), bounds[1:-1])
    found["workers"] = np.split(timing.workers.astype(np.int8), bounds[1:-1])
    for i in range(len(trials)):
        part = slice(bounds[i], bounds[i + 1])
        derived, _, _ = _times(instance, trials.looked_up[part], places[part], timing.workers[part], None)
        if not np.array_equal(derived, timing.starts[part]):
            found["starts"][i] = timing.starts[part]
    return found


def unpacked(columns: Packed, instance: Instance, wrong: Callable[[str], InputError]) -> Trials:
    """The trials in the columns, which have an array or None per trial; InputError if they are invalid."""
    rows = [np.asarray(each, dtype=np.int64) for each in columns["rows"]]
    bounds = np.cumsum([0, *map(len, rows)])
    failures = {i: text for i, text in enumerate(columns["failure"]) if text}
    every = np.concatenate([np.empty(0, np.int64), *rows])
    if instance.problem.counts_lookups:
        return checked_trials(instance, every, bounds, failures, wrong)
    trainings, starts = instance.trainings, columns["starts"]
    for own, steps, by, begun in zip(rows, columns["steps"], columns["workers"], starts, strict=True):
        times = (steps, by, own if begun is None else begun)
        if any(each is None or len(each) != len(own) for each in times):
            raise wrong("its times are missing")
    candidates = candidates_of(instance, every)
    if (candidates < 0).any() or (candidates >= len(trainings)).any():
        raise wrong("it has rows that are not in the table")
    passed, workers = (np.concatenate(columns[name]).astype(np.int64) for name in ("steps", "workers"))
    of_row = [np.repeat(np.arange(len(rows)), np.diff(bounds)), candidates]
    # The checkpoint, from 0, that each training reached.
    levels = pd.Series(passed + 1).groupby(of_row).cumsum().to_numpy() - 1
    places = trainings.starts[candidates] + levels
    if (passed < 0).any() or (places >= trainings.starts[candidates + 1]).any():
        raise wrong("it has checkpoints that are not in the table")
    if (workers < 0).any() or (workers >= instance.problem.workers).any():
        raise wrong("it has more workers than the suite")
    parts = []
    for i, begun in enumerate(starts):
        part = slice(bounds[i], bounds[i + 1])
        parts.append(_times(instance, candidates[part], places[part], workers[part], begun))
    begins, costs, ends = np.concatenate(parts, axis=1)
    timing = Timeline(trainings.resources[places], costs, begins, ends, workers.astype(np.int32))
    return checked_trials(instance, every, bounds, failures, wrong, trainings.best[places], timing)


def _times(
    instance: Instance, candidates: _Numbers, places: Rows, workers: _Numbers, starts: Sequence[float] | None
) -> Floats:
    """When the n trainings of a trial began, what they cost, and when they ended, shape (3, n).

    Without `starts`, each training begins when the previous one on the same worker ends.
    """
    whole = instance.trainings.costs
    before: dict[int, int] = {}
    free = [0.0] * instance.problem.workers
    found = np.empty((3, len(places)))
    for i, (row, place, worker) in enumerate(
        zip(candidates.tolist(), places.tolist(), workers.tolist(), strict=True)
    ):
        spent = before.get(row)
        cost = float(whole[place]) if spent is None else float(whole[place] - whole[spent])
        start = free[worker] if starts is None else float(starts[i])
        before[row], free[worker] = place, start + cost
        found[:, i] = start, cost, free[worker]
    return found
