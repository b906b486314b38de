"""The scores of Zhang & Duh (2020), section 4, and fbh: plain functions of the rows that trials looked up.

Each score is a `Score` in `SCORES`. On a table it becomes a `Goal`: the rows that count and how many of them
are needed. A runtime (ftb, ftc, fto, fta) is the number of look-ups until enough target rows were found, the
initial ones included; a target met within the initial design counts the whole design. The other scores are
taken after a fixed number of look-ups: the smallest gap to the best value (fb), the number of target rows
found (fbp), or the share of the table's hypervolume (fbh; see evaluation/hypervolume.py).

A trial that stopped too early has no score: NaN. It is never averaged in, see `summarise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale

Ties = Literal["any", "first"]

# A gap that equals the tolerance on paper (14.66 - 14.16 = 0.5) must not miss it by a rounding error.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Score:
    """One way to score a trial.

    Attributes:
        name: as in suites and on the command line.
        description: what it measures on a clock that counts look-ups, in a few words.
        n_objectives: 1; or 2, for two or more objectives.
        goal: makes the goal from losses of shape (N, m), the tolerance, and how ties count.
        needs_score_at: whether it is taken after a fixed number of look-ups.
        needs_tolerance: whether its goal depends on the tolerance.
        lower_is_better: its direction.
        digits: decimals that are shown at least, as many as the paper gives.
    """

    name: str
    description: str
    n_objectives: Literal[1, 2]
    goal: Callable[[Floats, float, Ties], Goal]
    needs_score_at: bool = False
    needs_tolerance: bool = False
    lower_is_better: bool = True
    digits: int = 0

    def meaning(self, timed: bool) -> str:
        """The description; where time is not the number of look-ups, in terms of time."""
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
    return Goal(gaps == 0.0, 1, gaps=gaps)


def _one_of_the_front(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    targets = np.zeros(len(losses), dtype=bool)
    targets[pareto_front(losses)] = True
    return Goal(targets, 1)


def _all_of_the_front(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    front = _one_of_the_front(losses, tolerance, ties)
    return replace(front, needed=int(front.targets.sum()))


def _share_of_the_volume(losses: Floats, tolerance: float, ties: Ties) -> Goal:
    return replace(_all_of_the_front(losses, tolerance, ties), points=table_scale(losses).scaled(losses))


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
        ),
        Score("fto", "look-ups until one row of the Pareto front", 2, _one_of_the_front),
        Score("fta", "look-ups until the whole Pareto front", 2, _all_of_the_front),
        Score(
            "fbp",
            "rows of the Pareto front found within a fixed number of look-ups",
            2,
            _all_of_the_front,
            needs_score_at=True,
            lower_is_better=False,
            digits=1,
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
    """The scores for one objective, or for two and more."""
    return tuple(s.name for s in SCORES.values() if s.n_objectives == min(n_objectives, 2))


def make_goal(
    name: str,
    losses: Floats,
    *,
    tolerance: float = 0.0,
    score_at: int | None = None,
    ties: Ties = "any",
) -> Goal:
    """The goal of a score on a table with these losses.

    Args:
        name: one of SCORES.
        losses: shape (N, m), minimised; NaN is never best and never on a front.
        tolerance: of ftc, in the unit of the loss.
        score_at: number of look-ups after which fb, fbp and fbh are taken.
        ties: whether any row with the best value meets the target of ftb, or only the first (as in the
            paper's figures).

    Raises:
        InputError: no such score, or not for this number of objectives; a missing or wrong setting.
    """
    if name not in SCORES:
        raise unknown("score", name, SCORES)
    score = SCORES[name]
    if score.n_objectives == 1 and losses.shape[1] != 1:
        raise InputError(f"score {name!r} is for one objective, not {losses.shape[1]}.")
    if losses.shape[1] < score.n_objectives:
        raise InputError(f"score {name!r} needs two or more objectives.")
    if np.isnan(losses).any(axis=1).all():
        raise InputError("an objective is missing in every row.")
    if not score.needs_score_at:
        score_at = None
    elif score_at is None or score_at < 1:
        raise InputError(f"score {name!r} needs score_at, a number of look-ups of at least 1.")
    return replace(score.goal(losses, tolerance, ties), score_at=score_at, name=name)


def answer(goal: Goal, rows: NDArray[np.int64], n_initial: int) -> float:
    """The score of one trial; NaN where it stopped too early to have one.

    Args:
        goal: from make_goal.
        rows: the rows that the trial looked up, in order.
        n_initial: size of the initial design, the least that a runtime can be.
    """
    if goal.score_at is None:
        hits = np.flatnonzero(goal.targets[rows])
        return float(max(n_initial, hits[goal.needed - 1] + 1)) if len(hits) >= goal.needed else np.nan
    within = rows[: goal.score_at]
    found = int(goal.targets[within].sum())
    if len(within) < min(goal.score_at, len(goal.targets)) and found < goal.needed:
        return np.nan
    if goal.points is not None:
        total = hypervolume(goal.points[goal.targets])
        return min(hypervolume(goal.points[within]) / total, 1.0)
    if goal.gaps is None:
        return float(found)
    seen = goal.gaps[within]
    return float(np.nanmin(seen)) if not np.isnan(seen).all() else np.nan


@dataclass(frozen=True)
class Summary:
    """A score over trials.

    Attributes:
        mean: over the trials that did not fail; NaN where one of them has no score (see `at_least`).
        std: population standard deviation, likewise.
        trials: number of trials.
        unanswered: trials that stopped before the score was settled (censored).
        failed: trials whose method failed. They count in neither mean nor std.
        at_least: where runtimes are censored, their mean with each unanswered trial at the number of
            rows it looked up, or the time when it ended: a lower bound of the mean. NaN otherwise.
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


def summarise(goal: Goal, trials: Sequence[Trajectory], n_initial: int) -> Summary:
    """Mean and spread of a score over trials, with censored and failed ones counted and kept apart."""
    sound = [t for t in trials if not t.failure]
    answers = np.array([answer(goal, t.candidates, n_initial) for t in sound])
    lengths = np.array([float(len(t.rows)) for t in sound])
    return summary_of(goal, answers, lengths, len(trials) - len(sound))


def summary_of(goal: Goal, answers: Floats, lengths: Floats, failed: int) -> Summary:
    """Mean and spread of a score over trials.

    Args:
        goal: of the score.
        answers: of the trials that did not fail, NaN where a trial stopped too early.
        lengths: when each of them ended, a lower bound of a runtime that it did not reach.
        failed: how many others failed.
    """
    unanswered, trials = int(np.isnan(answers).sum()), len(answers) + failed
    if not len(answers) or unanswered:
        censored = goal.score_at is None and len(answers) > 0
        bound = float(np.where(np.isnan(answers), lengths, answers).mean()) if censored else np.nan
        return Summary(np.nan, np.nan, trials, unanswered, failed, bound)
    return Summary(float(answers.mean()), float(answers.std()), trials, 0, failed)
