"""Restricted means: a runtime capped at a budget has a mean even if some trials never reach the target.

    symbol  meaning
    tau     the budget, on the clock of the trials
    T       the runtime of a trial until it reached the target, including the whole initial design
    R       the restricted mean: the mean of min(T, tau) over trials

A trial that failed, or did not reach the target by tau, counts as tau: it is capped. A trial that was stopped
before tau without reaching the target has no value, and no value is imputed.

If a look-up takes one unit of time, R of random search is known exactly, for any number of workers: it is the
sum over t < tau of P(T > t). On a clock of costs, it is simulated (given_start.py).
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.random_search import mean_until, runtime_survival
from hpobench_nmt.evaluation.scores import answer, ended_early


def runtime_within(
    goal: Goal, trial: Trajectory, tau: float, n_initial: int, lookups: int | None = None
) -> float:
    """The runtime of a trial; infinite if it is capped, NaN if the trial does not have a value.

    The goal must be that of a runtime. `n_initial` and `lookups` are as in `answer`. O(n log n) for n
    trainings.
    """
    if trial.failure:
        return np.inf
    runtime = answer(goal, trial, n_initial, lookups)
    if runtime == runtime:
        return runtime if runtime <= tau else np.inf
    finishes = trial.timeline.finishes
    over = len(finishes) > 0 and finishes[-1] >= tau
    return np.nan if not over and ended_early(trial, goal.n_rows, lookups) else np.inf


def restricted_mean(runtimes: Floats, tau: float) -> tuple[float, float]:
    """R and the share of capped trials, from runtimes of `runtime_within`; NaN if a runtime is NaN."""
    if not len(runtimes) or np.isnan(runtimes).any():
        return np.nan, np.nan
    return float(np.minimum(runtimes, tau).mean()), float(np.isinf(runtimes).mean())


def restricted_random_search(
    goal: Goal, tau: float, n_initial: int, workers: int = 1, lookups: int | None = None
) -> float:
    """Exact R of random search on a clock of look-ups. O(N).

    W workers look up W rows in each unit of time, until `lookups` rows are looked up (None: all). NaN if
    there are too few targets.
    """
    if goal.targets.sum() < goal.needed:
        return np.nan
    return mean_until(runtime_survival(goal, n_initial), tau, workers, lookups)
