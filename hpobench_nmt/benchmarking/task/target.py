"""The target and the budget of "times fewer trainings than random search" on one table.

With several objectives, the target is a row of the front.

With one objective, the target is a row within a tolerance of the best value. The tolerance is the first that
exists of these: the suite's tolerance for the table; the tolerance in the datasheet; one standard deviation
between trainings with other seeds, if the table has replicates; and `default_tolerance`. The score ftc uses
the same tolerance, but without the standard deviation between seeds.

The budget is the maximum of a trial, which is the suite's `lookups` or `time`, but at most the amount that
training all rows takes. (It is not `score_at`, because a trial continues after it.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import short
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.restricted import restricted_random_search, simulated_random_search
from hpobench_nmt.evaluation.scores import make_goal


@dataclass(frozen=True, eq=False)
class Target:
    """The target on a table, and how long random search takes to reach it.

    Attributes:
        goal: the rows that count, and the checkpoint from which they count.
        tolerance: the tolerance, in the objective's unit; NaN with several objectives.
        from_seeds: whether the tolerance is the deviation between trainings with other seeds.
        budget: tau, on the clock.
        random_search: R of random search.
        random_search_capped: the probability that random search does not reach the target by tau.
        exact: whether these two are exact, not simulated.
    """

    goal: Goal
    tolerance: float
    from_seeds: bool
    budget: float
    random_search: float
    random_search_capped: float
    exact: bool

    @property
    def count(self) -> int:
        """Number of target rows."""
        return int(self.goal.targets.sum())


def target_of(suite: Suite, instance: Instance) -> Target:
    """The target of a suite's trials on a table.

    Raises:
        InputError: every row is a target, or there are several objectives on a clock of costs.
    """
    if len(instance.objectives) > 1:
        if instance.problem.clock != "lookups":
            raise InputError("with several objectives the figure is for look-ups")
        tolerance, from_seeds = math.nan, False
        goal = replace(make_goal("fto", instance.scored_trainings), name="target")
        if goal.targets[~np.isnan(instance.losses).any(axis=1)].all():
            raise InputError("every row is on the front")
    else:
        tolerance, from_seeds = _tolerance(suite, instance)
        goal = replace(make_goal("ftc", instance.scored_trainings, tolerance=tolerance), name="target")
        if goal.targets[~np.isnan(instance.losses[:, 0])].all():
            raise InputError(f"every row is within the tolerance of {short(tolerance)}")
    budget = budget_of(instance)
    return Target(goal, tolerance, from_seeds, budget, *random_search_within(instance, goal, budget))


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


def _tolerance(suite: Suite, instance: Instance) -> tuple[float, bool]:
    table, metric = instance.table, instance.objectives[0].metric
    given = suite.tolerance_for(table.name) is not None or table.metric(metric).tolerance is not None
    replicates = table.replicates
    if not given and replicates is not None and metric in replicates.metrics:
        # Its import is slow.
        from hpobench_nmt.evaluation.noise import seed_noise

        try:
            found = seed_noise(
                table.response(instance.objectives[0]), replicates.to_frame(), replicates.averaged
            )
        except InputError:  # no row was trained twice
            return instance.tolerance, False
        if found.pooled.sd > 0:
            return found.pooled.sd, True
    return instance.tolerance, False
