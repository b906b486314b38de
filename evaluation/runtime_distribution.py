"""Runtimes to many targets: empirical distributions and expected running times, as COCO draws them
(Hansen et al. 2016, 2021).

A table gives a ladder of targets, from easy to hard, and every trial a runtime to each: the look-ups until
it was met, the initial design counting whole, as in the scores. The distribution is the share of (trial,
target) pairs met within t look-ups. The expected running time (ERT) of a target is the look-ups of all
trials, until they met it or ended, over the number of trials that met it.

Trials often end early, and not by chance: a run that stops once its scores are settled stops a trial
because it was good. A runtime to a target that was still open then does not exist, and treating it like
bad luck, or like any censored lifetime, would be wrong. So only targets are used which the scores had to
settle (`is_settled`): where ftb or fta was asked for, that is all of them. What stays open beside that ends
with a budget or a limit that all trials share, or with a failure. Until the first such end the share is
exact; from there on it is a lower bound, and marked so. A failed trial never meets what it had not met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.intervals import RESAMPLES, resample_counts

Floats = NDArray[np.float64]

MAX_TARGETS = 20


@dataclass(frozen=True, eq=False)
class Target:
    """One rung of a table's ladder.

    Attributes:
        label: for people.
        goal: the rows that count, and how many of them are needed.
        value: what defines it: the largest gap that meets it, or the number of front rows.
    """

    label: str
    goal: Goal
    value: float


@dataclass(frozen=True, eq=False)
class Runtimes:
    """Runtimes of trials to targets.

    Attributes:
        times: look-ups until a target was met, infinite where it was not, shape (trials, targets).
        lengths: look-ups of each trial in all, shape (trials,).
    """

    times: Floats
    lengths: Floats

    @property
    def exact_until(self) -> float:
        """The largest number of look-ups up to which it is known which targets were met."""
        open_ended = np.isinf(self.times).any(axis=1)
        return float(self.lengths[open_ended].min()) if open_ended.any() else np.inf


def gap_targets(gaps: Floats, n_targets: int = MAX_TARGETS) -> list[Target]:
    """Targets for one loss: to be among the best half of the rows, ..., to be the best.

    The shares of the table are evenly spaced on a log scale, so that random search meets about equally many
    targets with every doubling of its look-ups, in every table. Rows that tie with a target's last meet it
    too; targets that come out alike are one.

    Args:
        gaps: each row's distance from the best, shape (N,), NaN where there is no value.
        n_targets: at most.
    """
    if n_targets < 1:
        raise InputError(f"there must be at least one target, not {n_targets}.")
    ordered = np.sort(gaps[~np.isnan(gaps)])
    if len(ordered) == 0:
        raise InputError("no row has a value.")
    ranks = np.unique(np.rint(np.geomspace(1, max(1, len(ordered) // 2), n_targets)).astype(np.int64))
    values = np.unique(ordered[ranks - 1])[::-1]
    targets = []
    for value in values.tolist():
        rows = gaps <= value
        label = f"among the best {rows.sum()} rows" if value > 0 else "the best value"
        targets.append(Target(label, Goal(rows, 1), value))
    return targets


def front_targets(losses: Floats) -> list[Target]:
    """Targets for several losses: one row of the Pareto front, two, ..., all. losses: shape (N, m)."""
    front = pareto_front(losses)
    if len(front) == 0:
        raise InputError("no row has all objectives.")
    rows = np.zeros(len(losses), dtype=bool)
    rows[front] = True
    return [Target(f"{n} of {len(front)} front rows", Goal(rows, n), n) for n in range(1, len(front) + 1)]


def is_settled(target: Goal, goals: Iterable[Goal]) -> bool:
    """Whether a trial that goes on until all goals are settled meets the target, whatever it looks up.

    It does if a goal without a budget needs so many rows that enough of them count for the target. Where
    all goals have budgets, trials end at a fixed number of look-ups, and every target will do.
    """
    endless = [goal for goal in goals if goal.budget is None]
    if not endless:
        return True
    return any(goal.needed - int((goal.targets & ~target.targets).sum()) >= target.needed for goal in endless)


def runtimes(trials: Sequence[Trajectory], targets: Sequence[Target], n_initial: int) -> Runtimes:
    """Runtimes of trials to targets; a target met in the initial design takes the whole of it."""
    times = np.full((len(trials), len(targets)), np.inf)
    counts = np.array([target.goal.targets for target in targets])
    needed = np.array([target.goal.needed for target in targets])
    for line, trial in zip(times, trials, strict=True):
        if len(trial.rows) == 0:
            continue
        met = np.cumsum(counts[:, trial.rows], axis=1) >= needed[:, None]
        found = met.any(axis=1)
        line[found] = np.maximum(met[found].argmax(axis=1) + 1, n_initial)
    return Runtimes(times, np.array([float(len(t.rows)) for t in trials]))


def share_met(times: Floats, lookups: Floats) -> Floats:
    """Share of (trial, target) pairs met within each number of look-ups, shape (len(lookups),)."""
    return np.searchsorted(np.sort(times, axis=None), lookups, side="right") / times.size


def random_search_share_met(targets: Sequence[Target], lookups: Floats, n_initial: int) -> Floats:
    """The same for random search, without simulation: rows met among t drawn are hypergeometric.

    A number of look-ups between two whole ones counts as the lower.
    """
    n_rows = len(targets[0].goal.targets)
    drawn = np.floor(np.asarray(lookups, dtype=np.float64) + 1e-9)
    share = np.zeros(len(drawn))
    for target in targets:
        n_targets = int(target.goal.targets.sum())
        share += hypergeom.sf(target.goal.needed - 1, n_rows, n_targets, np.minimum(drawn, n_rows))
    return np.where(drawn >= n_initial, share / len(targets), 0.0)


@dataclass(frozen=True, eq=False)
class ExpectedRuntimes:
    """ERT of each target, all arrays of shape (targets,).

    Attributes:
        ert: look-ups of all trials until they met the target or ended, over successes; infinite where no
            trial met it.
        low, high: percentile bootstrap interval over trials.
        successes: trials that met it.
        lookups: the look-ups of all trials, the numerator.
    """

    ert: Floats
    low: Floats
    high: Floats
    successes: NDArray[np.int64]
    lookups: Floats


def expected_runtimes(
    found: Runtimes, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> ExpectedRuntimes:
    """Expected running times, with intervals. O(resamples trials targets)."""
    met = np.isfinite(found.times)
    spent = np.where(met, found.times, found.lengths[:, None])
    successes, lookups = met.sum(axis=0), spent.sum(axis=0)
    ert = np.where(successes > 0, lookups / np.maximum(successes, 1), np.inf)
    counts = resample_counts(len(spent), resamples, seed)
    met_again = counts @ met.astype(np.float64)
    drawn = np.where(met_again > 0, (counts @ spent) / np.maximum(met_again, 1), np.inf)
    # Whole ranks, for infinite values cannot be interpolated.
    cut = int((1 - confidence) / 2 * resamples)
    ordered = np.sort(drawn, axis=0)
    low, high = ordered[cut], ordered[resamples - 1 - cut]
    if len(spent) < 2:
        low, high = np.full_like(ert, np.nan), np.full_like(ert, np.nan)
    return ExpectedRuntimes(ert, low, high, successes, lookups)
