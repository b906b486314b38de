"""Restricted means: a runtime capped at a budget has a mean even if some trials never reach the target.

    symbol  meaning
    tau     the budget, on the clock of the trials
    T       the runtime of a trial until it reached the target, including the whole initial design
    R       the restricted mean: the mean of min(T, tau) over trials

A trial that failed, or did not reach the target by tau, counts as tau: it is capped. A trial that was stopped
before tau without reaching the target has no value, and no value is imputed.

If a look-up takes one unit of time, R of random search is known exactly, for any number of workers: it is the
sum over t < tau of P(T > t). On a clock of costs, the mean of min(T, tau) does not have a closed form. In
this case, R is the mean over 100,000 permutations from a fixed seed, with a standard error below 0.3% of the
largest possible value.
"""

from __future__ import annotations

import math

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.random_search import runtime_survival
from hpobench_nmt.evaluation.scores import answer, ended_early

PERMUTATIONS = 100_000
# The most permutations that are simulated at once, to save memory.
_AT_ONCE = 10_000
_MOST_CELLS = 2**28  # the most row numbers in memory, 1 GB


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
) -> tuple[float, float]:
    """Exact R of random search on a clock of look-ups, and the probability that a trial is capped. O(N).

    W workers look up W rows in each unit of time, until `lookups` rows are looked up (None: all). Both are
    NaN if there are too few targets.
    """
    if goal.targets.sum() < goal.needed:
        return np.nan, np.nan
    most = len(goal.targets) if lookups is None else min(lookups, len(goal.targets))
    units = math.ceil(most / workers)
    survival = runtime_survival(goal, n_initial)[np.minimum(np.arange(units + 1) * workers, most)]
    whole = int(min(tau, units))
    beyond = float(survival[whole])
    # If the budget is not a whole number, its last unit counts in part.
    rest = (tau - whole) * beyond if beyond else 0.0
    return float(survival[:whole].sum() + rest), beyond


def simulated_random_search(
    targets: Bools,
    costs: Floats,
    tau: float,
    n_initial: int,
    workers: int = 1,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> tuple[float, float]:
    """Simulated R of random search of whole trainings with costs, and the share of capped permutations.

    The target is one of the rows of `targets`, shape (N,); each row costs `costs`, shape (N,). Both are NaN
    without a target.
    """
    if not targets.any():
        return np.nan, np.nan
    rng, total, capped = np.random.default_rng(seed), 0.0, 0
    at_once = max(min(_AT_ONCE, _MOST_CELLS // len(targets)), 1)
    for first in range(0, permutations, at_once):
        count = min(at_once, permutations - first)
        runtimes = _runtimes(rng, targets, costs, tau, n_initial, workers, count)
        total += float(np.minimum(runtimes, tau).sum())
        capped += int((runtimes > tau).sum())
    return total / permutations, capped / permutations


def _runtimes(
    rng: np.random.Generator,
    targets: Bools,
    costs: Floats,
    tau: float,
    n_initial: int,
    workers: int,
    count: int,
) -> Floats:
    """Runtimes of `count` trials, shape (count,). Runtimes above tau are not exact."""
    n_rows = len(targets)
    order = np.tile(np.arange(n_rows, dtype=np.int32), (count, 1))
    free, found, design = np.zeros((count, workers)), np.full(count, np.inf), np.zeros(count)
    settled: list[Floats] = []
    for place in range(n_rows):
        each = np.arange(len(order))
        # One step of Fisher and Yates's shuffle, so that only needed rows are drawn.
        other = rng.integers(place, n_rows, len(order))
        rows = order[each, other]
        order[each, other] = order[:, place]
        worker = free.argmin(axis=1)
        finish = free[each, worker] + costs[rows]
        free[each, worker] = finish
        found = np.where(targets[rows], np.minimum(found, finish), found)
        if place < n_initial:
            design = np.maximum(design, finish)
        if place + 1 < n_initial:
            continue
        over = free.min(axis=1) >= np.minimum(found, tau)
        if 2 * over.sum() >= len(over):
            settled.append(np.maximum(found, design)[over])
            order, free, found, design = order[~over], free[~over], found[~over], design[~over]
            if not len(order):
                break
    return np.concatenate([*settled, np.maximum(found, design)])
