"""When trials reached the target of "times fewer trainings than random search", and when random search would.

The target is `Instance.target`, of what a trial saw. The budget tau is the maximum of a trial: the suite's
`lookups` or `time`, but at most the amount that training all rows takes. (It is not `score_at`, because a
trial continues after it.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import scored_trial
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.restricted import (
    restricted_random_search,
    runtime_within,
    simulated_random_search,
)


def check_target(instance: Instance) -> None:
    """Raise InputError if the figure is not defined on a table: it would be met at once, or it is unknown."""
    if not instance.has_target:
        raise InputError("with several objectives the figure is for look-ups")
    if instance.target.targets[~np.isnan(instance.losses).any(axis=1)].all():
        raise InputError("every row is a target")


def runtimes_to_target(instance: Instance, seed: int, trials: Sequence[Trajectory]) -> Floats:
    """When each of the trials 0, 1, ... of a run reached the target on the rows that it saw, shape (trials,).

    Infinite if it did not by tau; NaN if it failed, or was stopped before tau.
    """
    found = np.full(len(trials), np.nan)
    for number, trial in enumerate(trials):
        if not trial.failure:
            seen = instance.of_trial(seed, number)
            rules = (budget_of(seen), seen.problem.n_initial, seen.problem.lookups)
            found[number] = runtime_within(seen.target, scored_trial(seen, seen.own(trial)), *rules)
    return found


def budgets(instance: Instance, seed: int, trials: int) -> Floats:
    """tau of each trial, shape (trials,)."""
    return np.array([budget_of(instance.of_trial(seed, number)) for number in range(trials)])


def least_to_target(instance: Instance, seed: int, trials: int) -> Floats:
    """The least that a method could take in each trial, given its start, shape (trials,)."""
    return np.array([_least(instance.of_trial(seed, number), seed, number) for number in range(trials)])


def _least(seen: Instance, seed: int, trial: int) -> float:
    from hpobench_nmt.evaluation.given_start import fewest_given_start

    start = np.array(seen.initial(seed, trial), dtype=np.int64)
    costs, places = seen.trainings.whole_costs, np.flatnonzero(_targets(seen))
    until = np.full(len(costs), np.inf)
    until[places] = 1.0
    if seen.problem.clock == "lookups":
        costs = np.ones(len(costs))
    elif seen.target.resources is not None:  # a training can end at its first good checkpoint
        until[places] = seen.trainings.costs[seen.trainings.place_of(places, seen.target.resources[places])]
    return fewest_given_start(costs, until, start, budget_of(seen), seen.problem.workers)


def _targets(seen: Instance) -> Bools:
    """Which rows hold a target, shape (n,)."""
    return (seen.target.whole or seen.target).targets


def random_search_to_target(instance: Instance, seed: int, trials: int) -> Floats:
    """R of random search given the start of each trial, shape (trials,): the mean of min(T, tau).

    Exact on a clock of look-ups. On a clock of costs, it is simulated (evaluation/given_start.py).
    """
    return np.array([_given_start(instance.of_trial(seed, n), seed, n) for n in range(trials)])


def _given_start(seen: Instance, seed: int, trial: int) -> float:
    # Its import compiles functions.
    from hpobench_nmt.evaluation.given_start import random_search_given_start, simulated_given_start

    problem, tau, targets, start = seen.problem, budget_of(seen), _targets(seen), seen.initial(seed, trial)
    costs = seen.trainings.whole_costs
    if problem.clock == "lookups" or (costs == 1.0).all():
        left = len(targets) - len(start), int(targets.sum() - targets[start].sum())
        rules = (len(start), tau, problem.workers, problem.lookups)
        return random_search_given_start(*left, bool(targets[start].any()), *rules)
    until = np.where(targets, costs, np.inf)
    return simulated_given_start(costs, until, np.array(start, dtype=np.int64), tau, problem.workers)


def budget_of(instance: Instance) -> float:
    """The latest time at which a trial ends: the suite's limit, or when all rows have been trained.

    On a clock of costs, a limit of look-ups is not a time.
    """
    problem = instance.problem
    if problem.clock == "lookups":
        return min(problem.time, float(math.ceil(problem.lookups / problem.workers)))
    costs, share = instance.trainings.whole_costs, 1.0 / problem.workers
    # No order of the rows takes longer (Graham 1966). The factor covers rounding, which depends on the order.
    longest = (float(costs.sum()) * share + float(costs.max()) * (1.0 - share)) * (1.0 + 1e-9)
    return min(problem.time, longest)


def random_search_within(instance: Instance, goal: Goal, tau: float) -> tuple[float, float, bool]:
    """The restricted mean of random search, its probability of being capped, and whether both are exact.

    NaN if they are not known: on a clock of costs for a goal of several rows, or if no goal in rows is
    equivalent to a goal in checkpoints.
    """
    problem, costs, goal = instance.problem, instance.trainings.whole_costs, goal.whole or goal
    if goal.rows is not None:
        return np.nan, np.nan, False
    if problem.clock == "lookups" or (costs == 1.0).all():
        how = (problem.n_initial, problem.workers, problem.lookups)
        return *restricted_random_search(goal, tau, *how), True
    if goal.needed > 1:
        return np.nan, np.nan, False
    # Cached by content, so that the same trainings are simulated only once.
    found = _simulated(goal.targets.tobytes(), costs.tobytes(), tau, problem.n_initial, problem.workers)
    return *found, False


@lru_cache(maxsize=256)
def _simulated(targets: bytes, costs: bytes, tau: float, n_initial: int, workers: int) -> tuple[float, float]:
    rows, prices = np.frombuffer(targets, dtype=bool), np.frombuffer(costs, dtype=np.float64)
    return simulated_random_search(rows, prices, tau, n_initial, workers)
