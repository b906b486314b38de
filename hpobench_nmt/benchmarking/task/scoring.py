"""The scores of an instance's trials, whatever its clock, and their exact values under random search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from hpobench_nmt.benchmarking.task.goals import worst_loss
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.trajectory import Goal, Timeline, Trajectory
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import Summary, answer, summary_of


def trial_scores(instance: Instance, seed: int, trials: Sequence[Trajectory]) -> Floats:
    """The scores of trials 0, 1, ... of a run, each on the rows that it saw, shape (scores, trials).

    A score is NaN if the trial stopped too early to have it.
    """
    found = np.full((len(instance.goals), len(trials)), np.nan)
    for number, trial in enumerate(trials):
        seen = instance.of_trial(seed, number)
        own = seen.own(trial)
        found[:, number] = [score_of(seen, goal, own) for goal in seen.goals]
    return found


def score_of(instance: Instance, goal: Goal, trial: Trajectory) -> float:
    """The score of one trial; NaN if it stopped too early to have a score."""
    told = scored_trial(instance, trial) if goal.gaps is None else gap_trial(instance, trial)
    return answer(goal, told, instance.problem.n_initial, instance.problem.lookups)


def scored_trial(instance: Instance, trial: Trajectory, missed: float = np.nan) -> Trajectory:
    """The trial with the loss `missed` in rows that miss a constraint; the same trial without constraints."""
    if instance.violations is None:
        return trial
    misses = ~is_feasible(instance.violations)[trial.candidates, None]
    return replace(trial, losses=np.where(misses & ~np.isnan(trial.losses), missed, trial.losses))


def gap_trial(instance: Instance, trial: Trajectory) -> Trajectory:
    """The trial for gaps: a row that misses a constraint has the loss of the worst feasible row."""
    if instance.violations is None:
        return trial
    return scored_trial(instance, trial, worst_loss(instance.scored_trainings))


def by_checkpoints(instance: Instance, trial: Trajectory) -> Trajectory:
    """The trial for a front over checkpoints: it has an entry for each checkpoint that a training reached.

    The entry's losses are those of the checkpoint, NaN if the row misses a constraint. If rows count, not
    checkpoints, only the constraints are applied. O(P log P) for P reached checkpoints.
    """
    trainings = instance.scored_trainings
    if not trainings.checkpoints_count:
        return scored_trial(instance, trial)
    rows, time = trial.candidates, trial.timeline
    # The places of a training's checkpoints are consecutive, from the first that was not reached before.
    last = trainings.place_of(rows, time.resources)
    again = trial.resources_before >= 0
    first = trainings.starts[rows].copy()
    first[again] = trainings.place_of(rows[again], trial.resources_before[again]) + 1
    counts = last + 1 - first
    events = np.repeat(np.arange(len(rows)), counts)
    places = np.arange(len(events)) - np.repeat(np.cumsum(counts) - counts, counts) + first[events]
    parts = {each.name: getattr(time, each.name)[events] for each in fields(Timeline)}
    timing = Timeline(**{**parts, "resources": trainings.resources[places]})
    numbers = None if trial.problem_rows is None else rows[events]
    return replace(
        trial, rows=trial.rows[events], losses=trainings.losses[places], timing=timing, problem_rows=numbers
    )


def length_of(trial: Trajectory) -> float:
    """When the last look-up or training of a trial ended: their number, or the time on its clock."""
    return float(trial.timeline.finishes[-1]) if len(trial.rows) else 0.0


def summaries(instance: Instance, seed: int, trials: Sequence[Trajectory]) -> list[Summary]:
    """Mean and spread of each score over trials. Censored and failed trials are counted separately."""
    sound = np.array([not trial.failure for trial in trials], dtype=bool)
    lengths = np.array([length_of(trial) for trial in trials])[sound]
    answers = trial_scores(instance, seed, trials)[:, sound]
    failed = len(trials) - len(lengths)
    return [summary_of(g, a, lengths, failed) for g, a in zip(instance.goals, answers, strict=True)]


def exact_scores(instance: Instance, seed: int, trials: int) -> list[tuple[float, float]]:
    """Mean and standard deviation of each score under random search, without simulation.

    If trials see samples, they are over the samples of this many trials. NaN if unknown: on the cost clock,
    only runtimes with one worker are known.
    """
    several = range(1 if instance.suite.sample is None else trials)
    seen = [instance.of_trial(seed, trial) for trial in several]
    found = np.array([[exact_score(sample, goal) for goal in sample.goals] for sample in seen])
    means = found[:, :, 0].mean(axis=0)
    deviations = np.sqrt((found[:, :, 1] ** 2).mean(axis=0) + found[:, :, 0].var(axis=0))
    return list(zip(means.tolist(), deviations.tolist(), strict=True))


def exact_score(instance: Instance, goal: Goal) -> tuple[float, float]:
    """Mean and standard deviation of a score under random search on an instance's rows; NaN if unknown."""
    problem = instance.problem
    return exact_random_search(goal, problem.n_initial, problem.workers, instance.trainings.whole_costs)
