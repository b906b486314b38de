"""The quality of the row that a trial would choose: its true regret, and its value on test.

After the suite's `score_at`, a trial chooses the row with the best value that it has seen on dev. That value
is partly lucky, because it is the best of many:

    fbr    the true regret of that row: the mean of all its trainings, minus the best such mean; for
           tables with replicates
    test   the row's value of the corresponding metric on test; for tables that have one

Both are computed for runs with one objective and the score fb. In suites with noise, the trial saw one
training of each row; the trial's seed draws the same training again here. Random search has exact values for
look-ups without noise.

Where rows may be looked up again, there are two more, at the end of a trial, for the row that the method
recommends, or else for the row with the smallest mean of what the trial saw:

    frr       the true regret of that row
    optimism  by how much the mean of what the trial saw of it is better than the mean of all its trainings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import scored_trial
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.random_search import random_search_choice
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.lookup.groups import means

TRUE_REGRET, RECOMMENDED, OPTIMISM = "fbr", "frr", "optimism"
_SPLITS = ("dev", "val", "valid")


@dataclass(frozen=True, eq=False)
class Chosen:
    """One value of the rows that trials choose on a table.

    Attributes:
        name: "fbr", "frr", "optimism", or the metric on test.
        lower_is_better: its direction.
        values: values of the trials of each method, by name; NaN if a trial has none.
        random_search: the mean of random search, NaN if it is not known.
    """

    name: str
    lower_is_better: bool
    values: Mapping[str, Floats]
    random_search: float


def choice_score(results: Results) -> str:
    """The score of a run that is the value of the row that a trial chooses (fb); "" if it has none."""
    return next((score for score in results.suite.scores if SCORES[score].of_choice), "")


def chosen_rows(results: Results, table: str) -> list[Chosen]:
    """The quality of the rows that trials choose on a table; empty for runs without the score fb."""
    instance = results.instances[table]
    at = instance.clock.score_at
    if not choice_score(results) or at is None or results.suite.curves:
        return []
    kinds = [(TRUE_REGRET, True, true_regrets(instance)), *_on_test(instance)]
    wanted = [(name, lower, values) for name, lower, values in kinds if values is not None]
    if not wanted:
        return []
    methods = [m for m in results.methods if (table, m) in results.trials]
    rows = {
        m: [_chosen(results.seed, instance, trial, i, at) for i, trial in enumerate(results.trials[table, m])]
        for m in methods
    }
    exact = instance.replicates is None and instance.problem.clock == "lookups"
    drawn = min(int(at) * instance.problem.workers, len(instance.table)) if exact else 0
    found = []
    for name, lower, values in wanted:
        of_trials = {m: np.array([np.nan if r is None else values[r] for r in rows[m]]) for m in methods}
        expected = random_search_choice(instance.scored[:, 0], values, drawn) if exact else np.nan
        found.append(Chosen(name, lower, of_trials, expected))
    if instance.problem.again:
        both = {m: _recommended(results.seed, instance, results.trials[table, m]) for m in methods}
        for place, name in enumerate((RECOMMENDED, OPTIMISM)):
            found.append(Chosen(name, True, {m: own[:, place] for m, own in both.items()}, np.nan))
    return found


def _recommended(seed: int, instance: Instance, trials: Sequence[Trajectory]) -> Floats:
    """The true regret and the optimism of the row that each trial recommends, shape (trials, 2)."""
    found = np.full((len(trials), 2), np.nan)
    means = np.where(np.isnan(instance.scored[:, 0]), np.nan, instance.losses[:, 0])
    for number, trial in enumerate(trials):
        seen = instance.of_trial(seed, number)
        rows = trial.candidates
        losses = np.where(np.isnan(means[rows]), np.nan, drawn_losses(seed, seen, seen.own(trial), number))
        if trial.failure or np.isnan(losses).all():
            continue
        of_row = {row: losses[rows == row] for row in rows[~np.isnan(losses)].tolist()}
        believed = {row: float(np.nanmean(own)) for row, own in of_row.items()}
        at = -1 if trial.recommended is None else trial.recommended
        row = int(rows[at]) if at >= 0 else min(believed, key=lambda row: believed[row])
        if row in believed:
            best = np.nanmin(means if seen.rows is None else means[seen.rows])
            found[number] = means[row] - best, means[row] - believed[row]
    return found


def drawn_losses(seed: int, instance: Instance, trial: Trajectory, number: int) -> Floats:
    """The first losses that a trial with noise saw, shape (n,), from what it saw and its own rows."""
    noise, rows = instance.replicates, trial.candidates.tolist()
    assert noise is not None
    first = noise.places(generator(seed, "noise", instance.table.name, number))
    visits: dict[int, int] = {}
    places = []
    for row in rows:
        places.append(noise.after(first, row, visits.get(row, 0)))
        visits[row] = visits.get(row, 0) + 1
    return np.asarray(noise.losses[places, 0])


def true_regrets(instance: Instance) -> Floats | None:
    """The mean of each row's trainings minus the best such mean, shape (N,); None without replicates."""
    table, objective = instance.table, instance.objectives[0]
    if table.replicates is None or objective.metric not in table.replicates.metrics:
        return None
    try:
        number, values = table.replicates.by_row(table.configs)
    except InputError:  # results can be read even if the file of replicates cannot
        return None
    if not len(number):
        return None
    if table.replicates.averaged:
        loss = table.losses([objective])[:, 0]
    else:
        number = np.concatenate([np.arange(len(table)), number])
        order = np.argsort(number, kind="stable")
        every = np.vstack([table.values, values])[order]
        loss = replace(table, values=means(every, number[order]), replicates=None).losses([objective])[:, 0]
    loss = np.where(np.isnan(instance.scored[:, 0]), np.nan, loss)
    return np.asarray(loss - np.nanmin(loss)) if not np.isnan(loss).all() else None


def _on_test(instance: Instance) -> list[tuple[str, bool, Floats]]:
    """The metric on test that belongs to the objective, if the table has it."""
    objective, known = instance.objectives[0], {m.name: m for m in instance.table.metrics}
    split, _, rest = objective.metric.partition("_")
    metric = known.get(f"test_{rest}")
    if split not in _SPLITS or metric is None:
        return []
    return [(metric.name, metric.direction == "min", instance.table.column(metric.name))]


def _chosen(seed: int, instance: Instance, trial: Trajectory, number: int, at: float) -> int | None:
    """The row with the best loss that a trial saw by a time; None if it saw none, or failed.

    With noise, also None if the trial stopped before that time, as trials of earlier versions did once they
    had seen the best mean: it might have chosen another row.
    """
    if trial.failure:
        return None
    seen = scored_trial(instance, trial)
    noise, finishes = instance.replicates, seen.timeline.finishes
    early = len(finishes) == 0 or finishes[-1] < at
    most = min(len(instance.table), instance.problem.lookups)
    if noise is not None and early and len(np.unique(seen.candidates)) < most:
        return None
    rows = seen.candidates[: np.searchsorted(finishes, at, side="right")]
    losses = seen.losses[: len(rows), 0]
    if noise is not None:
        of_trial = instance.of_trial(seed, number)
        drawn = drawn_losses(seed, of_trial, of_trial.own(trial), number)
        losses = np.where(np.isnan(losses), np.nan, drawn[: len(rows)])
    return None if np.isnan(losses).all() else int(rows[np.nanargmin(losses)])
