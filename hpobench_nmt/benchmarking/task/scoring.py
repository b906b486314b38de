"""The scores of an instance's trials, whatever its clock, and their exact values under random search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from hpobench_nmt.benchmarking.task.goals import worst_loss
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.trajectory import Goal, Timeline, Trajectory
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import Summary, answer, summary_of


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


def summary(instance: Instance, goal: Goal, trials: Sequence[Trajectory]) -> Summary:
    """Mean and spread of a score over trials. Censored and failed trials are counted separately."""
    sound = [trial for trial in trials if not trial.failure]
    answers = np.array([score_of(instance, goal, trial) for trial in sound])
    lengths = np.array([length_of(trial) for trial in sound])
    return summary_of(goal, answers, lengths, len(trials) - len(sound))


def exact_score(instance: Instance, goal: Goal) -> tuple[float, float]:
    """Mean and standard deviation of a score under random search, without simulation.

    NaN if unknown: on the cost clock, only runtimes with one worker are known.
    """
    problem = instance.problem
    return exact_random_search(goal, problem.n_initial, problem.workers, instance.trainings.whole_costs)
