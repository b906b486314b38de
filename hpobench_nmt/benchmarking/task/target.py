"""When trials reached the target of "times fewer trainings than random search", and when random search would.

The target is `Instance.target`, of what a trial saw. The budget tau is the maximum of a trial: the suite's
`lookups` or `time`, but at most the amount that training all rows takes. (It is not `score_at`, because a
trial continues after it.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import scored_trial
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.restricted import restricted_random_search, runtime_within


def check_target(instance: Instance) -> None:
    """Raise InputError if the figure is not defined on a table: it would be met at once, or it is unknown."""
    if not instance.has_target:
        raise InputError("with several objectives the figure is for look-ups")
    if instance.target.targets[~np.isnan(instance.losses).any(axis=1)].all():
        raise InputError("every row is a target")


def runtimes_to_target(
    instance: Instance, seed: int, of_methods: Sequence[Sequence[Trajectory]]
) -> list[Floats]:
    """When trials 0, 1, ... of each method reached the target on the rows that they saw: (trials,) each.

    Infinite if a trial did not by tau; NaN if it failed, or was stopped before tau.
    """
    found = [np.full(len(trials), np.nan) for trials in of_methods]
    # Trial by trial, because all methods share a trial's sample.
    for number in range(max(map(len, of_methods), default=0)):
        seen = instance.of_trial(seed, number)
        rules = (budget_of(seen), seen.problem.n_initial, seen.problem.lookups)
        for values, trials in zip(found, of_methods, strict=True):
            if number < len(trials) and not trials[number].failure:
                own = scored_trial(seen, seen.own(trials[number]))
                values[number] = runtime_within(seen.target, own, *rules)
    return found


class Aims(NamedTuple):
    """What trials aim at, given their starts; arrays of shape (trials,).

    Attributes:
        rows: the rows that a trial sees.
        targets: how many of them are targets.
        budget: tau.
        random_search: R of random search, the mean of min(T, tau): exact on a clock of look-ups, else
            simulated (evaluation/given_start.py).
        least: the least that a method could take.
    """

    rows: Floats
    targets: Floats
    budget: Floats
    random_search: Floats
    least: Floats


def aims_of(instance: Instance, seed: int, trials: int) -> Aims:
    """The aims of trials 0, 1, ... of a run."""
    return Aims(*np.array([_aim_of(instance.of_trial(seed, n), seed, n) for n in range(trials)]).T)


def _aim_of(seen: Instance, seed: int, trial: int) -> tuple[float, ...]:
    # Its import compiles functions.
    from hpobench_nmt.evaluation import given_start

    problem, tau, goal, trainings = seen.problem, budget_of(seen), seen.target, seen.trainings
    targets = (goal.whole or goal).targets
    start = np.array(seen.initial(seed, trial), dtype=np.int64)
    places, costs = np.flatnonzero(targets), trainings.whole_costs
    until = np.full(len(costs), np.inf)  # until the target, for a method that knows it
    if problem.clock == "lookups" or (costs == 1.0).all():
        costs = np.ones(len(costs))
        until[places] = 1.0
        left = len(targets) - len(start), int(targets.sum() - targets[start].sum())
        rules = (len(start), tau, problem.workers, problem.lookups)
        mean = given_start.random_search_given_start(*left, bool(targets[start].any()), *rules)
    else:
        resources = np.ones(len(costs)) if goal.resources is None else goal.resources
        until[places] = trainings.costs[trainings.place_of(places, resources[places])]
        whole = np.where(targets, costs, np.inf)
        mean = given_start.simulated_given_start(costs, whole, start, tau, problem.workers)
    least = given_start.fewest_given_start(costs, until, start, tau, problem.workers)
    return len(targets), len(places), tau, mean, least


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


def random_search_within(instance: Instance, goal: Goal, tau: float) -> float:
    """The restricted mean of random search: exact on a clock of look-ups, else simulated.

    NaN if it is not known: on a clock of costs for a goal of several rows, or if no goal in rows is
    equivalent to a goal in checkpoints.
    """
    problem, costs, goal = instance.problem, instance.trainings.whole_costs, goal.whole or goal
    if goal.rows is not None:
        return np.nan
    if problem.clock == "lookups" or (costs == 1.0).all():
        return restricted_random_search(goal, tau, problem.n_initial, problem.workers, problem.lookups)
    if goal.needed > 1 or not goal.targets.any():
        return np.nan
    # Cached by content, so that the same trainings are simulated only once.
    return _simulated(goal.targets.tobytes(), costs.tobytes(), problem.n_initial, tau, problem.workers)


@lru_cache(maxsize=256)
def _simulated(targets: bytes, costs: bytes, n_initial: int, tau: float, workers: int) -> float:
    from hpobench_nmt.evaluation.given_start import simulated_random_search

    prices = np.frombuffer(costs, dtype=np.float64)
    until = np.where(np.frombuffer(targets, dtype=bool), prices, np.inf)
    return simulated_random_search(prices, until, n_initial, tau, workers)
