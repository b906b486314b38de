"""The scores of Zhang & Duh (2020), section 4, and fbh: plain functions of trials on a clock.

Each score is a `Score` in `SCORES`. On a table it becomes a `Goal`: the rows that count, from which
checkpoint on, and how many of them are needed. A look-up is a training of one checkpoint that takes one unit
of time. A runtime (ftb, ftc, fto, fta) is the finish time of the training with which enough target rows were
found. A target met within the initial design takes the whole design. The other scores are taken at a fixed
time: the smallest gap to the best value (fb), the number of target rows found (fbp), or the share of the
table's hypervolume (fbh; see evaluation/hypervolume.py).

A trial that stopped too early has the score NaN, which is never averaged with other scores (see
`summary_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale

Ties = Literal["any", "first"]

MOST_TARGETS = 50
"""The most checkpoints on a front that scores count one by one. A longer front is scored by fbh alone."""

# A rounding error must not exclude a gap that equals the tolerance in decimals (14.66 - 14.16 = 0.5).
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Score:
    """One way to score a trial.

    Attributes:
        name: its name in suites and on the command line.
        description: what it measures on a clock that counts look-ups, in a few words.
        n_objectives: 1 for one objective, 2 for two or more objectives.
        goal: makes the goal from losses of shape (N, m), the tolerance, and the rule for ties.
        needs_score_at: whether it is taken after a fixed number of look-ups.
        needs_tolerance: whether its goal depends on the tolerance.
        lower_is_better: its direction.
        digits: the least number of decimals shown, as in the paper.
        counts_front: whether it counts rows, or checkpoints, of the front one by one.
        of_choice: whether it is the value of the row that a trial chooses in the end. Leaderboards then also
            show that row's true regret, and its value on test.
        default: whether a run without a suite computes it if no scores are named.
    """

    name: str
    description: str
    n_objectives: Literal[1, 2]
    goal: Callable[[Floats, float, Ties], Goal]
    needs_score_at: bool = False
    needs_tolerance: bool = False
    lower_is_better: bool = True
    digits: int = 0
    counts_front: bool = False
    of_choice: bool = False
    default: bool = True

    def meaning(self, timed: bool) -> str:
        """The description; with `timed`, in terms of time instead of look-ups."""
        if not timed:
            return self.description
        return self.description.replace("a fixed number of look-ups", "a fixed time").replace(
            "look-ups", "time"
        )

    @property
    def arrow(self) -> str:
        """The direction that is better: "↓" or "↑"."""
        return "↓" if self.lower_is_better else "↑"


def _gaps(losses: Floats) -> Floats:
    return np.asarray(losses[:, 0] - np.nanmin(losses[:, 0]))


def _the_best(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    best = _gaps(losses) == 0.0
    if ties == "first":
        rows = np.arange(len(best))
        best = rows == np.argmax(best)
    return Goal(best, 1)


def _close_to_the_best(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    if not tolerance >= 0:
        raise InputError(f"the tolerance of ftc must be 0 or more, not {tolerance!r}.")
    slack = _ROUNDING * max(abs(float(np.nanmin(losses[:, 0]))), tolerance)
    return Goal(_gaps(losses) <= tolerance + slack, 1)


def _smallest_gap(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    gaps = _gaps(losses)
    return Goal(gaps == 0.0, 1, gaps=gaps, best=float(np.nanmin(losses[:, 0])))


def _one_of_the_front(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    targets = np.zeros(len(losses), dtype=bool)
    targets[pareto_front(losses)] = True
    return Goal(targets, 1)


def _all_of_the_front(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    front = _one_of_the_front(losses, tolerance, ties)
    return replace(front, needed=int(front.targets.sum()))


def _share_of_the_volume(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    scale = table_scale(losses)
    return replace(_all_of_the_front(losses, tolerance, ties), points=scale.scaled(losses), scale=scale)


SCORES = {
    score.name: score
    for score in (
        Score("ftb", "look-ups until the best value in the table", 1, _the_best),
        Score(
            "ftc",
            "look-ups until a value within the tolerance of the best",
            1,
            _close_to_the_best,
            needs_tolerance=True,
        ),
        Score(
            "fb",
            "gap to the best value after a fixed number of look-ups",
            1,
            _smallest_gap,
            needs_score_at=True,
            digits=2,
            of_choice=True,
        ),
        Score("fto", "look-ups until one row of the Pareto front", 2, _one_of_the_front, counts_front=True),
        Score("fta", "look-ups until the whole Pareto front", 2, _all_of_the_front, counts_front=True),
        Score(
            "fbp",
            "rows of the Pareto front found within a fixed number of look-ups",
            2,
            _all_of_the_front,
            needs_score_at=True,
            lower_is_better=False,
            digits=1,
            counts_front=True,
        ),
        Score(
            "fbh",
            "share of the table's hypervolume after a fixed number of look-ups",
            2,
            _share_of_the_volume,
            needs_score_at=True,
            lower_is_better=False,
            digits=3,
        ),
    )
}
"""Every score, by name."""


def score_names(n_objectives: int) -> tuple[str, ...]:
    """The scores for one objective, or for two or more."""
    return tuple(s.name for s in SCORES.values() if s.n_objectives == min(n_objectives, 2))


def make_goal(
    name: str,
    trainings: Trainings | Floats,
    *,
    tolerance: float = 0.0,
    score_at: float | None = None,
    ties: Ties = "any",
) -> Goal:
    """The goal of a score on the trainings of a table. O(P log P) for P checkpoints.

    With one loss, a row counts from the first checkpoint at which its best loss so far meets the target. With
    several losses, every checkpoint is a separate model: the front is over checkpoints, and each counts once
    it is reached. Of several checkpoints of a row with equal losses, the first counts.

    Args:
        name: one of SCORES.
        trainings: of all N rows, or the losses of look-ups, shape (N, m). Losses are minimised; NaN is never
            best and never on a front.
        tolerance: the tolerance of ftc, in the unit of the loss.
        score_at: number of look-ups, or time on the clock, at which scores such as fb are taken.
        ties: whether any row with the best value meets the target of ftb, or only the first, as in the paper.

    Raises:
        InputError: no such score, or not for this number of objectives; a missing or wrong setting.
    """
    check_known("score", [name], SCORES)
    if not isinstance(trainings, Trainings):
        trainings = Trainings.whole(trainings)
    score, losses = SCORES[name], trainings.models
    if score.n_objectives == 1 and losses.shape[1] != 1:
        raise InputError(f"score {name!r} is for one objective, not {losses.shape[1]}.")
    if losses.shape[1] < score.n_objectives:
        raise InputError(f"score {name!r} needs two or more objectives.")
    if np.isnan(losses).any(axis=1).all():
        raise InputError("no row has a value for every objective.")
    if not score.needs_score_at:
        score_at = None
    elif score_at is None or not score_at > 0:
        raise InputError(f"score {name!r} needs score_at, a number of look-ups or a time above 0.")
    goal = score.goal(losses, tolerance, ties)
    if score.n_objectives == 2:
        goal = _over_models(goal, trainings, counts=score.counts_front)
        return replace(goal, score_at=score_at, name=name)
    # The best value over all checkpoints is the best over rows, so the same goal applies to both.
    good = score.goal(trainings.best, tolerance, "any").targets
    return replace(goal, score_at=score_at, name=name, resources=counts_from(goal.targets, good, trainings))


def _over_models(goal: Goal, trainings: Trainings, counts: bool) -> Goal:
    """The goal of a front, over checkpoints if they count; `counts`: whether the score counts targets."""
    if not trainings.checkpoints_count:
        return replace(goal, resources=np.where(goal.targets, trainings.resources, np.inf))
    targets = first_alike(goal.targets, trainings)
    needed = min(goal.needed, int(targets.sum()))
    if counts and targets.sum() > MOST_TARGETS:
        raise InputError(
            f"the front has {targets.sum():,} checkpoints, more than {MOST_TARGETS}, which is too many to "
            f"count: use fbh, the share of the hypervolume, as the only score."
        )
    return replace(goal, targets=targets, needed=needed, resources=trainings.resources, rows=trainings.owners)


def first_alike(front: Bools, trainings: Trainings) -> Bools:
    """The checkpoints of a front, shape (P,), without later ones of a row that have the same losses."""
    places = np.flatnonzero(front)
    keys = np.column_stack([trainings.owners[places], trainings.losses[places]])
    kept = np.zeros_like(front)
    kept[places[np.unique(keys, axis=0, return_index=True)[1]]] = True
    return kept


def counts_from(targets: Bools, good: Bools, trainings: Trainings) -> Floats:
    """The resource of the first good checkpoint of each target row, infinite for other rows, shape (N,)."""
    rows = np.repeat(np.arange(len(targets)), np.diff(trainings.starts))
    good = good & targets[rows]
    first = np.full(len(targets), len(good))
    np.minimum.at(first, rows[good], np.flatnonzero(good))
    return np.asarray(np.append(trainings.resources, np.inf)[first])


def times_met(goal: Goal, trial: Trajectory) -> Floats:
    """The times at which targets are met, ascending, one for each target. O(n log n)."""
    return np.repeat(trial.timeline.finishes, goal.met_by(trial))


def answer(goal: Goal, trial: Trajectory, n_initial: int, lookups: int | None = None) -> float:
    """The score of one trial; NaN if it ended too early to have a score. O(n log n) for n trainings.

    A runtime is the finish time of the training with which the target was met. Any other score is the result
    at `score_at`: the smallest gap (NaN if no loss was found), the number of targets, or the share of the
    hypervolume.

    Args:
        goal: from make_goal.
        trial: the rows that were looked up or trained, and when.
        n_initial: size of the initial design. A runtime is at least the time of the whole design.
        lookups: the most rows that the trial may start, None if unknown. A trial that has started this many,
            or has failed, may end before the score is taken. Then it does not have a score.
    """
    met = times_met(goal, trial)
    if goal.score_at is None:
        runtime = float(met[goal.needed - 1]) if len(met) >= goal.needed else np.nan
        return max(design_finish(trial, n_initial), runtime) if runtime == runtime else np.nan
    finishes = trial.timeline.finishes
    over = len(finishes) > 0 and finishes[-1] >= goal.score_at
    if not over and len(met) < goal.needed and ended_early(trial, goal.n_rows, lookups):
        return np.nan
    seen = trial.losses[: np.searchsorted(finishes, goal.score_at, side="right")]
    if goal.gaps is not None:
        known = seen[~np.isnan(seen[:, 0]), 0]
        return float(known.min() - goal.best) if len(known) else np.nan
    if goal.points is not None and goal.scale is not None:
        total = hypervolume(goal.points[goal.targets])
        points = goal.scale.scaled(seen) if goal.rows is None else _points_reached(goal, trial, len(seen))
        return min(hypervolume(points) / total, 1.0)
    return float(np.searchsorted(met, goal.score_at, side="right"))


def _points_reached(goal: Goal, trial: Trajectory, count: int) -> Floats:
    """The scaled losses of all checkpoints that the first `count` trainings of a trial have reached."""
    assert goal.rows is not None and goal.points is not None and goal.resources is not None
    furthest = np.full(goal.n_rows, -1.0)
    np.maximum.at(furthest, trial.candidates[:count], trial.timeline.resources[:count])
    return goal.points[goal.resources <= furthest[goal.rows]]


def ended_early(trial: Trajectory, n_rows: int, lookups: int | None) -> bool:
    """Whether the trial failed, or stopped before all rows for another reason than the end of its clock."""
    started = len(np.unique(trial.candidates))
    limited = not trial.timing or lookups is None or lookups <= started
    return bool(trial.failure) or (started < n_rows and limited)


def design_finish(trial: Trajectory, n_initial: int) -> float:
    """When the initial design ended: the rows that were started first, each trained to its end."""
    time = trial.timing
    if time is None:
        return float(n_initial)
    # Trainings that start at the same time are in the order of their workers, which is the order of the
    # requests.
    order = np.lexsort((time.workers, time.starts))
    if (time.finishes == time.starts).any():
        # A worker whose training took no time starts another at the same time, but after all other workers.
        same = (np.diff(time.starts[order]) == 0) & (np.diff(time.workers[order]) == 0)
        place = np.arange(len(order))
        turns = np.empty_like(place)
        turns[order] = place - np.maximum.accumulate(np.where(np.append(False, same), 0, place))
        order = np.lexsort((time.workers, turns, time.starts))
    return float(time.finishes[order[:n_initial]].max(initial=0.0))


@dataclass(frozen=True)
class Summary:
    """A score over trials.

    Attributes:
        mean: over the trials that did not fail; NaN if one of them does not have a score (see `at_least`).
        std: population standard deviation of the same trials; NaN in the same cases.
        trials: number of trials.
        unanswered: number of trials that stopped before the score was settled (censored).
        failed: number of trials whose method failed. They count neither in the mean nor in the std.
        at_least: a lower bound of the mean of censored runtimes. An unanswered trial counts with the number
            of rows that it looked up, or the time when it ended. NaN if runtimes are not censored.
    """

    mean: float
    std: float
    trials: int
    unanswered: int = 0
    failed: int = 0
    at_least: float = np.nan

    @property
    def stderr(self) -> float:
        """Standard error of the mean."""
        answered = self.trials - self.failed
        return self.std / answered**0.5 if answered else np.nan


def summary_of(goal: Goal, answers: Floats, lengths: Floats, failed: int) -> Summary:
    """Mean and spread of a score over trials. `failed` trials failed, and are not among the answers.

    An answer is NaN if a trial stopped too early. The lengths are the times when trials ended, which are
    lower bounds of missing runtimes.
    """
    unanswered, trials = int(np.isnan(answers).sum()), len(answers) + failed
    if not len(answers) or unanswered:
        censored = goal.score_at is None and len(answers) > 0
        bound = float(np.where(np.isnan(answers), lengths, answers).mean()) if censored else np.nan
        return Summary(np.nan, np.nan, trials, unanswered, failed, bound)
    return Summary(float(answers.mean()), float(answers.std()), trials, 0, failed)
