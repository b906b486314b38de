"""Random search given a trial's start: how long it takes from the rows that all methods of the trial share.

    symbol  meaning
    n_0     number of rows in the initial design, the start of a trial
    m, k    number of rows that are left after the start, and of targets among them
    tau     the budget, on the clock of the trial
    T       the runtime of random search until it reaches a target, including the whole start
    G       E[min(T, tau) | start], the restricted mean

The start is given, so the luck of the start, which all methods of a trial share, cancels in a ratio to G. If
a look-up takes one unit of time, G is exact for any number of workers: the sum over t < tau of P(T > t). If
the start does not have a target, then P(T > t) = C(m - k, s) / C(m, s), where s is the number of look-ups
after the start by time t. On a clock of costs, G does not have a closed form and is simulated.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.evaluation.random_search import mean_until, none_drawn

PERMUTATIONS = 100_000
"""With this many, the standard error is below 0.16% of tau, because min(T, tau) lies between 0 and tau."""


@lru_cache(maxsize=4096)
def random_search_given_start(
    rows_left: int,
    targets_left: int,
    start_hit: bool,
    n_initial: int,
    tau: float,
    workers: int = 1,
    lookups: int | None = None,
) -> float:
    """Exact G on a clock of look-ups. O(m), and cached.

    W workers look up W rows in each unit of time, until `lookups` rows are looked up, those of the start
    included (None: all). G is infinite if tau is infinite and a target may be missed.

    Args:
        rows_left: m.
        targets_left: k.
        start_hit: whether a row of the start is a target.
        n_initial: n_0.
        tau: the budget. If it is not a whole number, its last unit counts in part.
        workers: W.
        lookups: the most rows that a trial looks up.
    """
    missed = np.zeros(rows_left + 1) if start_hit else none_drawn(rows_left, targets_left)
    return mean_until(np.append(np.ones(n_initial), missed), tau, workers, lookups)


def simulated_given_start(
    costs: Floats,
    until_target: Floats,
    start: Rows,
    tau: float,
    workers: int = 1,
    lookups: int | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """Simulated G on a clock of costs: random search of whole trainings. O(permutations * rows within tau).

    The rows that are left follow the start in a random order. Each row is trained to its end by the worker
    that is free first. The target is reached when the first training reaches a good checkpoint, but not
    before the start is over. The same seed gives the same value.

    Args:
        costs: of training each row to its end, shape (N,).
        until_target: cost of training each row until its first good checkpoint, at most the row's cost;
            infinite for rows without a good checkpoint. Shape (N,).
        start: rows of the start, in their order, shape (n_0,).
        tau: the budget.
        workers: W.
        lookups: the most rows that a trial trains, those of the start included (None: all).
        permutations: number of random orders.
        seed: of the random orders.
    """
    free, found, over = _after_start(costs, until_target, start, workers)
    left = np.delete(np.arange(len(costs)), start)
    most = len(left) if lookups is None else min(len(left), max(lookups - len(start), 0))
    rng = np.random.default_rng(seed)
    parts = (costs[left], until_target[left], free, found, over)
    return float(_sum_of_runtimes(rng, *parts, 0, tau, most, permutations)) / permutations


def simulated_random_search(
    costs: Floats,
    until_target: Floats,
    n_initial: int,
    tau: float,
    workers: int = 1,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """The same without a given start: the first `n_initial` rows of the random order are the start."""
    rng, free, n_rows = np.random.default_rng(seed), np.zeros(workers), len(costs)
    parts = (costs, until_target, free, np.inf, 0.0)
    return float(_sum_of_runtimes(rng, *parts, n_initial, tau, n_rows, permutations)) / permutations


def fewest_given_start(
    costs: Floats, until_target: Floats, start: Rows, tau: float, workers: int = 1
) -> float:
    """min(T, tau) of a method that knows how far each row is from the target: no method is faster.

    On a clock of look-ups with one worker, this is n_0, or n_0 + 1 if the start does not have a target. The
    arguments are those of `simulated_given_start`; a look-up costs 1.
    """
    free, found, over = _after_start(costs, until_target, start, workers)
    left = np.delete(until_target, start)
    return float(min(max(min(found, free.min() + left.min(initial=np.inf)), over), tau))


def _after_start(
    costs: Floats, until_target: Floats, start: Rows, workers: int
) -> tuple[Floats, float, float]:
    """When each worker is free after the start, when the start meets the target, and when it is over."""
    free, found, over = np.zeros(workers), np.inf, 0.0
    for row in start:
        worker = free.argmin()
        found = min(found, free[worker] + until_target[row])
        free[worker] += costs[row]
        over = max(over, free[worker])
    return free, found, over


@compiled()
def _sum_of_runtimes(
    rng: np.random.Generator,
    costs: Floats,
    until_target: Floats,
    free_after_start: Floats,
    found_in_start: float,
    start_over: float,
    n_initial: int,
    tau: float,
    most: int,
    permutations: int,
) -> float:
    """Sum of min(T, tau) over random orders of the rows that are left, of which `most` are trained.

    The first `n_initial` of an order belong to the start: T is not before they are trained.
    """
    order = np.arange(len(costs))
    free = free_after_start.copy()
    total = 0.0
    for _ in range(permutations):
        free[:] = free_after_start
        found, over = found_in_start, start_over
        for place in range(most):
            worker = free.argmin()
            # Each later training starts at this time or later.
            if place >= n_initial and free[worker] >= min(found, tau):
                break
            # One step of Fisher and Yates's shuffle. Any order of the previous permutation is a fair start.
            other = place + int(rng.random() * (len(order) - place))
            row = order[other]
            order[other] = order[place]
            order[place] = row
            found = min(found, free[worker] + until_target[row])
            free[worker] += costs[row]
            if place < n_initial:
                over = max(over, free[worker])
        total += min(max(found, over), tau)
    return total
