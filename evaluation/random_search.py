"""Random search does not need a simulation: on a finite table, its scores and curves have exact values.

Rows are drawn uniformly without replacement, also with a random initial design. So the number of k given rows
among the first t is hypergeometric, and all of them are missed with probability C(N - k, t) / C(N, t).
Everything here follows from these two facts.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.pareto import FrontScale
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.curves import QUARTILES, Curve
from hpobench_nmt.evaluation.hypervolume import REFERENCE, check_level, corners

# The expected hypervolume takes time quadratic in the number of rows.
MAX_ROWS = 10_000
# Simulations have a few hundred trials, in which rarer events do not occur.
_NEGLIGIBLE = 1e-3


def exact_random_search(
    goal: Goal, n_initial: int, workers: int = 1, costs: Floats | None = None
) -> tuple[float, float]:
    """Mean and standard deviation of a goal's score under random search of whole trainings.

    A runtime T to `needed` targets has P(T > t) = P(fewer than needed among the first t). For one of k
    targets among N rows, without an initial design, its mean is (N + 1) / (k + 1). T is at least n_initial. W
    workers look up W rows in each unit of time. Whole trainings have costs, shape (N,), or take one unit of
    time each. If the front is over checkpoints, a whole training finds all targets of its row.

    NaN if there are too few targets, or if more than one trial in a thousand sees only rows without a loss;
    fewer such trials are left out. The share of the hypervolume only has a mean, for two losses and up to
    MAX_ROWS rows. If costs differ, only runtimes of one worker have values, and a standard deviation only
    with an initial design of at most one row.
    """
    if costs is not None and not (costs == 1.0).all():
        if workers > 1 or goal.score_at is not None:
            return np.nan, np.nan
        if goal.whole is None:
            return _exact_cost_of_some(goal.by_row, costs, goal.needed, n_initial), np.nan
        return _exact_cost(goal.whole.targets, costs, goal.whole.needed, n_initial)
    if goal.whole is None:
        return np.nan, np.nan
    goal = goal.whole
    n_rows, n_targets = len(goal.targets), int(goal.targets.sum())
    if goal.score_at is None:
        if n_targets < goal.needed:
            return np.nan, np.nan
        # E[T] = sum of P(T > t) over t >= 0; E[T^2] = sum of (2 t + 1) P(T > t).
        survival = runtime_survival(goal, n_initial)[::workers]
        times = np.arange(len(survival))
        return _moments(survival.sum(), ((2 * times + 1) * survival).sum())
    drawn = int(min(goal.score_at * workers, n_rows))
    if goal.points is not None:
        return _expected_share(goal.points, drawn), np.nan
    if goal.gaps is None:
        share = n_targets / n_rows
        left_over = (n_rows - drawn) / max(n_rows - 1, 1)
        return drawn * share, float(np.sqrt(drawn * share * (1.0 - share) * left_over))
    # The best of the rows drawn is the i-th best of the table with probability
    # C(N-1-i, drawn-1) / C(N, drawn): i is absent times, then present.
    gaps = np.sort(goal.gaps)  # NaN last
    none_of_better = none_drawn(n_rows, drawn)[:-1]
    probability = none_of_better - np.append(none_of_better[1:], 0.0)
    possible = (probability > 0) & ~np.isnan(gaps)
    gaps, probability = gaps[possible], probability[possible]
    if np.isnan(goal.gaps).any():
        found = probability.sum()
        if found < 1.0 - _NEGLIGIBLE:
            return np.nan, np.nan
        probability = probability / found
    return _moments((gaps * probability).sum(), (gaps**2 * probability).sum())


def _exact_cost(targets: Bools, costs: Floats, needed: int, n_initial: int) -> tuple[float, float]:
    """Mean and standard deviation of the cost until random search finds `needed` targets; one worker.

    Every row is trained to its end, in a random order. A row that is not a target comes before the j-th of k
    targets with probability j / (k + 1). Two such rows both come before it with probability j (j + 1) / ((k +
    1) (k + 2)). Any j targets are equally likely to come first, independently of the order of the other rows.

    Targets met within the initial design take the cost of the whole design. With an initial design of two
    rows or more, the deviation is NaN. Both are NaN if there are too few targets.
    """
    n, k, j = len(targets), int(targets.sum()), needed
    if k < j:
        return np.nan, np.nan
    own, others = costs[targets], costs[~targets]
    one, both = j / (k + 1), j * (j + 1) / ((k + 1) * (k + 2))
    squares = float((others**2).sum())
    before = one * squares + both * (others.sum() ** 2 - squares) - (one * others.sum()) ** 2
    among = j * (k - j) / (k - 1) * own.var() if k > 1 else 0.0
    mean, std = float(one * others.sum() + j * own.mean()), float(np.sqrt(max(before, 0.0) + among))
    if n_initial < 2:
        return mean, std
    # The i-th row of the design also counts if the targets were met before it.
    earlier = np.arange(1, n_initial)
    hypergeom = _hypergeometric()
    after_other = hypergeom.sf(j - 1, n - 1, k, earlier) if k < n else np.zeros(len(earlier))
    after_target = hypergeom.sf(j - 1, n - 1, k - 1, earlier)
    mean += float((others.sum() * after_other.sum() + own.sum() * after_target.sum()) / n)
    return mean, np.nan


def _exact_cost_of_some(held: Rows, costs: Floats, needed: int, n_initial: int) -> float:
    """Mean cost until random search finds `needed` targets, of which row i holds held[i], shape (N,).

    Of k rows with targets, the number of others before a given row is s with probability 1 / k, for each s,
    and any s of them are equally likely. So the number of subsets by size and sum gives the probability that
    they hold too few targets. A row without a target comes before the m-th of the k rows with probability m /
    (k + 1). O(k^3 needed). NaN with an initial design of two rows or more, or with too few targets.
    """
    own = held > 0
    k = int(own.sum())
    if held.sum() < needed or n_initial > 1:
        return np.nan
    weights = held[own].tolist()
    all_of_them = _subsets(weights, needed)
    choices = _choices(k)
    rows_needed = float((all_of_them.sum(axis=1)[: k + 1] / choices).sum())  # E[m], as the sum of P(m > s)
    among = 0.0
    for i, cost in enumerate(costs[own].tolist()):
        short = _subsets(weights[:i] + weights[i + 1 :], needed).sum(axis=1)
        among += cost * float((short / _choices(k - 1)).sum()) / k
    return float(costs[~own].sum()) * rows_needed / (k + 1) + among


def _subsets(weights: Sequence[int], below: int) -> Floats:
    """The number of subsets of s members whose weights sum to t, for all t < below: shape (n + 1, below)."""
    counts = np.zeros((len(weights) + 1, below))
    counts[0, 0] = 1.0
    for weight in weights:
        if weight < below:
            counts[1:, weight:] += counts[:-1, : below - weight].copy()
    return counts


def _choices(n: int) -> Floats:
    """The number of subsets of n things by size, shape (n + 1,)."""
    return np.array([math.comb(n, s) for s in range(n + 1)], dtype=np.float64)


def runtime_survival(goal: Goal, n_initial: int) -> Floats:
    """P(T > t) for the runtime T to the goal, for t = 0 to N look-ups of one worker, (N + 1,). O(N).

    T is at least n_initial.
    """
    n_rows, n_targets = len(goal.targets), int(goal.targets.sum())
    if goal.needed == 1:
        survival = none_drawn(n_rows, n_targets)
    else:
        survival = _hypergeometric().cdf(goal.needed - 1, n_rows, n_targets, np.arange(n_rows + 1))
    survival[:n_initial] = 1.0
    return np.asarray(survival)


def mean_until(survival: Floats, tau: float, workers: int = 1, lookups: int | None = None) -> float:
    """Sum over t < tau of P(T > t), given P(T > s look-ups) for s = 0 to N, shape (N + 1,). O(N).

    W workers look up W rows in each unit of time, until `lookups` rows are looked up (None: all). If tau is
    not a whole number, its last unit counts in part.
    """
    most = len(survival) - 1 if lookups is None else min(lookups, len(survival) - 1)
    units = math.ceil(most / workers)
    by_time = survival[np.minimum(np.arange(units + 1) * workers, most)]
    whole = int(min(tau, units))
    beyond = float(by_time[whole])
    return float(by_time[:whole].sum()) + ((tau - whole) * beyond if beyond else 0.0)


def none_drawn(n_rows: int, k: int) -> Floats:
    """Probability that none of k rows is among t rows drawn from N, for t = 0 to N, shape (N + 1,).

    It equals the probability that none of t rows is among k rows drawn. A running product: O(N).
    """
    t = np.arange(n_rows)
    return np.append(1.0, np.cumprod(np.maximum(n_rows - k - t, 0) / (n_rows - t)))


def _moments(mean: float, mean_of_squares: float) -> tuple[float, float]:
    return float(mean), float(np.sqrt(max(mean_of_squares - mean * mean, 0.0)))


def random_search_choice(losses: Floats, values: Floats, drawn: int) -> float:
    """Expected value of the row with the smallest loss in a random sample, for losses of shape (N,).

    The values, shape (N,), are another metric, such as the test metric. Rows that tie in the loss are equally
    likely. NaN losses are never chosen. The result is NaN if more than one trial in a thousand draws only NaN
    losses.
    """
    _, group = np.unique(losses, return_inverse=True, equal_nan=False)
    shared = np.bincount(group, values) / np.bincount(group)
    order = np.argsort(losses, kind="stable")  # NaN last
    none_of_better = none_drawn(len(losses), drawn)
    chance = (none_of_better[:-1] - none_of_better[1:])[: int((~np.isnan(losses)).sum())]
    if chance.sum() < 1.0 - _NEGLIGIBLE:
        return np.nan
    possible = chance > 0
    return float(chance[possible] @ shared[group][order][: len(chance)][possible] / chance.sum())


def random_search_regret(gaps: Floats, lookups: int, levels: Sequence[float] = QUARTILES) -> Curve:
    """Mean and quantiles of the smallest gap among the first t = 1, 2, ... rows; a missing gap is NaN.

    The probability that the i best rows are all missed gives the distribution of the rank of the best row
    drawn. The mean starts where at most one trial in a thousand has not found a value yet, and leaves out
    such trials. `trials` is 0. O(N lookups).
    """
    ordered = np.sort(gaps[~np.isnan(gaps)])
    n_rows, n_known = len(gaps), len(ordered)
    steps = min(lookups, n_rows)
    mean, quantiles = np.empty(steps), np.empty((len(levels), steps))
    with_none = np.append(ordered, np.inf)
    # absent[i]: none of the i best has been drawn.
    absent = np.ones(n_known + 1)
    left = n_rows - np.arange(n_known + 1.0)
    wanted = 1.0 - np.asarray(levels) + 1e-12
    for t in range(steps):
        absent *= np.maximum(left - t, 0.0) / (n_rows - t)
        chance = absent[:-1] - absent[1:]
        found = 1.0 - absent[-1]
        mean[t] = (ordered @ chance) / found if found >= 1.0 - _NEGLIGIBLE else np.nan
        # The first rank i with P(best is among the i + 1 best) >= level.
        first = n_known - np.searchsorted(absent[:0:-1], wanted, side="right")
        quantiles[:, t] = with_none[first]
    return Curve(np.arange(1, steps + 1), mean, quantiles, np.zeros(steps, dtype=np.int64))


def random_search_share_met(goals: Sequence[Goal], lookups: Floats, n_initial: int) -> Floats:
    """Expected share of the goals met within each number of look-ups, rounded down (see `share_met`)."""
    n_rows = len(goals[0].targets)
    drawn = np.floor(np.asarray(lookups, dtype=np.float64) + 1e-9)
    share = np.zeros(len(drawn))
    for goal in goals:
        n_targets = int(goal.targets.sum())
        share += _hypergeometric().sf(goal.needed - 1, n_rows, n_targets, np.minimum(drawn, n_rows))
    return np.where(drawn >= n_initial, share / len(goals), 0.0)


def random_search_hypervolume(losses: Floats, scale: FrontScale, lookups: int) -> Floats:
    """Expected share of the table's hypervolume after 1, 2, ... look-ups of random search: exact.

    A point z of the plane is dominated after t look-ups unless the k(z) rows that dominate it are all missed.
    So the expectation is a sum over k: the probability of drawing at least one of k rows, times the area that
    exactly k rows dominate. The losses have shape (N, 2), and the scale comes from `table_scale`. O(N^2)
    time, O(N) memory. Raises InputError for more than MAX_ROWS rows.
    """
    n_rows = len(losses)
    if losses.shape[1] != 2:
        raise InputError(f"the exact curve is known only for two objectives, not for {losses.shape[1]}.")
    if n_rows > MAX_ROWS:
        raise InputError(f"the exact curve is computed up to {MAX_ROWS:,} rows; the table has {n_rows:,}.")
    area = _area_by_count(scale.scaled(losses[~np.isnan(losses).any(axis=1)]))
    counts = np.flatnonzero(area)
    counts = counts[counts > 0]
    missed = np.ones(len(counts))
    steps = min(lookups, n_rows)
    shares = np.empty(steps)
    for t in range(steps):
        missed *= np.maximum(n_rows - counts - t, 0.0) / (n_rows - t)
        shares[t] = area[counts] @ (1.0 - missed) / scale.total
    return shares


def _expected_share(points: Floats, drawn: int) -> float:
    """The expected share of the hypervolume after this many look-ups; NaN if it is not known or too slow."""
    if points.shape[1] != 2 or len(points) > MAX_ROWS:
        return np.nan
    area = _area_by_count(points[~np.isnan(points).any(axis=1)])
    missed = none_drawn(len(points), drawn)[: len(area)]  # by number of rows that dominate a point
    return float(area[1:] @ (1.0 - missed[1:]) / area[1:].sum())


def _area_by_count(points: Floats) -> Floats:
    """Area below the reference point that exactly k points dominate, for k = 0, ..., n."""
    inside = points[(points < REFERENCE).all(axis=1)]
    inside = inside[np.argsort(inside[:, 0], kind="stable")]
    ys = np.unique(inside[:, 1])
    heights = np.diff(np.append(ys, REFERENCE))
    cell = np.searchsorted(ys, inside[:, 1])
    area = np.zeros(len(points) + 1)
    dominating = np.zeros(len(ys), dtype=np.int64)
    rights = np.append(inside[1:, 0], REFERENCE)
    for lowest, left, right in zip(cell, inside[:, 0], rights, strict=True):
        dominating[lowest:] += 1
        if right > left:
            area += np.bincount(dominating, heights * (right - left), minlength=len(area))
    return area


def random_search_attainment(losses: Floats, lookups: int, level: float = 0.5) -> Floats:
    """The surface that random search attains with probability `level` after this many look-ups: exact.

    It bounds the region that at least k rows dominate, for the smallest k whose rows are all missed with a
    probability of at most 1 - level. Its corners have shape (corners, 2); the result is empty if no point is
    dominated by k rows.
    """
    check_level(level)
    n_rows = len(losses)
    t = min(lookups, n_rows)
    needed = int(np.argmax(none_drawn(n_rows, t)[1:] <= 1.0 - level + 1e-12)) + 1
    points = losses[~np.isnan(losses).any(axis=1)]
    points = points[np.argsort(points[:, 0], kind="stable")]
    below: list[float] = []
    heights = np.full(len(points), np.inf)
    for i, y in enumerate(points[:, 1].tolist()):
        insort(below, y)
        if len(below) >= needed:
            heights[i] = below[needed - 1]
    # Of rows that tie in the first loss, only the last has counted all of them.
    last = np.append(points[1:, 0] != points[:-1, 0], True) if len(points) else np.empty(0, bool)
    return corners(points[last, 0], heights[last])


def random_search_squared_error(truth: Floats, lookups: Rows) -> Floats:
    """Expected squared error of predicting every unseen row with the mean of the values seen, shape (k,).

    The mean of i values, drawn without replacement from n values of variance S^2 (with n - 1 in the
    denominator), has an expected squared distance of S^2 (1 + 1 / i) from an unseen value. If rows lack a
    value (NaN in `truth`, one loss of N rows), i is hypergeometric. The result, for each of k numbers of
    look-ups, is conditional on at least one value having been seen and at least one being left.
    """
    known = truth[~np.isnan(truth)]
    n = len(known)
    if n < 2:
        return np.full(len(lookups), np.nan)
    seen = np.arange(1, n)
    chance = _hypergeometric().pmf(seen, len(truth), n, np.minimum(lookups, len(truth))[:, None])
    total = chance.sum(axis=1)
    mean = (chance @ (1.0 + 1.0 / seen)) / np.where(total > 0, total, np.nan)
    return np.asarray(known.var(ddof=1) * mean)


def _hypergeometric() -> Any:
    """SciPy's distribution, imported late because the import takes longer than a small run."""
    from scipy.stats import hypergeom

    return hypergeom
