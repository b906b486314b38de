"""Runtimes of a run to many targets: see `hpobench_nmt.evaluation.runtime_distribution`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import exact_score, scored_trial
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.random_search import random_search_share_met
from hpobench_nmt.evaluation.runtime_distribution import (
    Runtimes,
    defining_value,
    expected_runtimes,
    front_goals,
    gap_goals,
    is_settled,
    runtimes,
    share_met,
)

# Steps of a distribution's curve: enough for a figure, whatever the size of the table.
_POINTS = 300


@dataclass(frozen=True, eq=False)
class TargetRuntimes:
    """Every trial's runtime to every target of its table, `found` by (table, method).

    By table, `seen` has what each trial saw, `ladders` the targets there, from easy to hard, and `on_front`
    whether they are numbers of rows of the front. If trials do not see samples, both have one entry. The
    notes state what is missing, in words.
    """

    seen: Mapping[str, Sequence[Instance]]
    ladders: Mapping[str, Sequence[Sequence[Goal]]]
    found: Mapping[tuple[str, str], Runtimes]
    on_front: Mapping[str, bool]
    notes: tuple[str, ...]

    @property
    def targets(self) -> dict[str, Sequence[Goal]]:
        """The targets of the first trial, by table."""
        return {table: ladders[0] for table, ladders in self.ladders.items()}

    @property
    def instances(self) -> dict[str, Instance]:
        """What the first trial saw, by table."""
        return {table: seen[0] for table, seen in self.seen.items()}

    @property
    def unit(self) -> str:
        """The units of the runtimes of all tables."""
        return ", ".join(sorted({instance.time_unit for instance in self.instances.values()}))

    def size(self, table: str) -> float:
        """The time that it takes to look up, or train, all rows that a trial sees, in the mean."""
        costs = [float(each.trainings.whole_costs.sum()) for each in self.seen[table]]
        return float(np.mean(costs)) / self.seen[table][0].problem.workers


def target_runtimes(results: Results) -> TargetRuntimes:
    """Runtimes to a ladder of targets: ranks for one objective, numbers of front rows for several.

    Only targets that the run's scores had to settle are used (see evaluation.runtime_distribution).
    """
    seen: dict[str, list[Instance]] = {}
    ladders: dict[str, list[list[Goal]]] = {}
    notes = []
    whole = results.suite.sample is None
    for table, instance in results.instances.items():
        trials = max((len(each) for (name, _), each in results.trials.items() if name == table), default=1)
        seen[table] = [instance.of_trial(results.seed, i) for i in range(1 if whole else trials)]
        loss = instance.scored[:, 0]
        single = instance.losses.shape[1] == 1
        found = [_targets_of(each) for each in seen[table]]
        common = min(map(len, found))  # of fronts, which differ in length
        goals = [each.stopping_goals for each in seen[table]]
        settled = [i for i in range(common) if all(map(is_settled, (own[i] for own in found), goals))]
        if len(settled) < common:
            asked = ", ".join(results.suite.scores)
            notes.append(
                f"{table}: {counted(common - len(settled), 'harder target')} left out, because trials "
                f"end once their scores ({asked}) are settled."
            )
        best = int((loss == np.nanmin(loss)).sum())
        if whole and single and best > 1 and results.suite.ties == "first":
            notes.append(
                f"{table}: any of the {best} rows that share the best value meets the hardest target here, "
                f"but the scores of this suite count only the first of them."
            )
        ladders[table] = [[ladder[i] for i in settled] for ladder in found]
    reached = {
        (table, method): _reached(trials, seen[table], ladders[table])
        for (table, method), trials in results.trials.items()
        if ladders[table][0]
    }
    on_front = {table: instance.losses.shape[1] > 1 for table, instance in results.instances.items()}
    return TargetRuntimes(seen, ladders, reached, on_front, tuple(notes))


def _targets_of(seen: Instance) -> list[Goal]:
    """The targets of a trial. On samples, ties are not merged, so that all trials have as many."""
    if seen.losses.shape[1] > 1:
        return front_goals(seen.scored_trainings)
    return gap_goals(seen.scored_trainings, merged=seen.rows is None)


def _reached(
    trials: Sequence[Trajectory], seen: Sequence[Instance], ladders: Sequence[Sequence[Goal]]
) -> Runtimes:
    """When each trial met the targets of what it saw."""
    parts = []
    for i in range(len(trials)):
        own, ladder = seen[i % len(seen)], ladders[i % len(seen)]
        parts.append(runtimes([scored_trial(own, own.own(trials[i]))], ladder, own.problem.n_initial))
    return Runtimes(np.vstack([p.times for p in parts]), np.concatenate([p.lengths for p in parts]))


@dataclass(frozen=True, eq=False)
class RuntimeDistribution:
    """Share of (trial, target) pairs met, against look-ups or time; tables weigh the same.

    Attributes:
        tables: the tables that it includes.
        unit: the unit of budgets: "look-ups" or the clock's, or a share of what all rows take (`per_row`).
        frame: method, budget, share, exact (False if it is a lower bound, because trials had ended).
        n_targets: the number of targets over all tables.
        notes: what is missing, in words.
    """

    tables: tuple[str, ...]
    unit: str
    frame: pd.DataFrame
    n_targets: int
    notes: tuple[str, ...]
    per_row: bool = False


def runtime_distribution(
    found: TargetRuntimes, tables: Sequence[str] = (), per_row: bool = False, also: Sequence[float] = ()
) -> RuntimeDistribution:
    """The empirical runtime distribution of every method, and of random search, over tables, by default all.

    Tables on which some method is missing are left out and named. `per_row` divides look-ups by the number of
    rows, so that large and small tables can be compared. `also` has budgets for further points, in addition
    to the budgets that are evenly spaced on a log scale.
    """
    check_known("table", tables, found.targets)
    wanted = list(tables or found.targets)
    methods = list(dict.fromkeys(m for t, m in found.found if t in wanted))
    chosen = [t for t in wanted if methods and all((t, m) in found.found for m in methods)]
    notes = list(found.notes)
    if len(chosen) < len(wanted):
        left_out = ", ".join(t for t in wanted if t not in chosen)
        notes.append(f"Left out, because not all methods were run there: {left_out}.")
    if not chosen:
        raise InputError("no table has a settled target and results of all methods.")
    sizes = {t: found.size(t) if per_row else 1.0 for t in chosen}
    timed = any(not found.instances[t].problem.counts_lookups for t in chosen)
    largest = max(found.size(t) for t in chosen)
    if timed:
        known = np.concatenate([found.found[t, m].times.ravel() / sizes[t] for t in chosen for m in methods])
        known = known[np.isfinite(known) & (known > 0)]
        if not len(known):
            raise InputError("no trial has met a target.")
        budgets = np.geomspace(known.min(), known.max(), _POINTS)
    elif per_row:
        budgets = np.geomspace(1 / largest, 1.0, _POINTS)
    else:
        budgets = np.unique(np.rint(np.geomspace(1, largest, _POINTS)))
    budgets = np.union1d(budgets, [b for b in also if budgets[0] <= b <= budgets[-1]])
    slack = 1 + 1e-12 if timed else 1.0  # products of shares are not exact
    frames = []
    for method in methods:
        shares = [share_met(found.found[t, method].times, budgets * sizes[t] * slack + 1e-9) for t in chosen]
        until = min(found.found[t, method].exact_until / sizes[t] for t in chosen)
        frames.append(_distribution_frame(method, budgets, shares, budgets <= until))
    if all(found.instances[t].problem.clock == "lookups" for t in chosen):
        shares = [_random_search(found, t, budgets * sizes[t]) for t in chosen]
        frames.append(_distribution_frame(EXACT, budgets, shares, np.ones(len(budgets), dtype=bool)))
    unit = found.unit
    if per_row:
        unit = "time / time to train all rows" if timed else "look-ups / rows of the table"
    n_targets = sum(len(found.targets[t]) for t in chosen)
    frame = pd.concat(frames, ignore_index=True)
    return RuntimeDistribution(tuple(chosen), unit, frame, n_targets, tuple(notes), per_row)


def _random_search(found: TargetRuntimes, table: str, times: Floats) -> Floats:
    """The share that random search has met by each time, with all workers on look-ups."""
    problem = found.instances[table].problem
    whole = np.floor(times + 1e-9) * problem.workers if problem.workers > 1 else times
    shares = [random_search_share_met(each, whole, problem.n_initial) for each in found.ladders[table]]
    return np.asarray(np.mean(shares, axis=0))


def expected_runtime_frame(found: TargetRuntimes) -> pd.DataFrame:
    """Expected running times: one row per table, method and target, with random search (EXACT) as a method.

    Columns: table, method, target (in words), value (see runtime_distribution.defining_value), rows (how many
    of the table's rows count), on_front (whether the target is a number of rows of the front), ert, low, high
    (95% interval), successes, trials. The time ert is infinite if no trial met the target. Raises InputError
    if no table has a target that the run's scores had to settle.
    """
    frames = []
    for (table, method), times in found.found.items():
        ert = expected_runtimes(times)
        columns = {"ert": ert.ert, "low": ert.low, "high": ert.high, "successes": ert.successes}
        frames.append(_targets_frame(found, table, method).assign(**columns, trials=len(times.lengths)))
    for table in found.ladders:
        pairs = list(zip(found.seen[table], found.ladders[table], strict=True))
        means = np.mean([[exact_score(seen, t)[0] for t in ladder] for seen, ladder in pairs], axis=0)
        exact = _targets_frame(found, table, EXACT).assign(ert=means, low=np.nan, high=np.nan)
        if not np.isnan(means).all():  # no exact value is known for several workers on the cost clock
            frames.append(exact.assign(successes=0, trials=0))
    if not frames:
        raise InputError("the trials of this run end before any target is settled.")
    return pd.concat(frames, ignore_index=True)


def _targets_frame(found: TargetRuntimes, table: str, method: str) -> pd.DataFrame:
    ladders = found.ladders[table]
    frame = pd.DataFrame({"target": [t.name for t in ladders[0]]})
    frame["value"] = np.mean([[defining_value(t) for t in ladder] for ladder in ladders], axis=0)
    rows = np.mean([[t.targets.sum() for t in ladder] for ladder in ladders], axis=0)
    frame["rows"] = np.rint(rows).astype(np.int64)
    frame.insert(0, "table", table)
    frame.insert(1, "method", method)
    return frame.assign(on_front=found.on_front[table])


def _distribution_frame(method: str, budgets: Floats, shares: Sequence[Floats], exact: Bools) -> pd.DataFrame:
    share = np.mean(shares, axis=0)
    return pd.DataFrame({"method": method, "budget": budgets, "share": share, "exact": exact})
