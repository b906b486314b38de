"""The six scores of Zhang & Duh (2020), section 4, as plain functions of what trials looked up.

A score is the answer to a `Question` about a trial: when were enough of the target rows found (ftb, ftc,
fto, fta), or how far had it come after a fixed number of look-ups (fb, fbp)? A runtime counts rows looked
up, the initial ones included, and a target met within the initial design counts the whole design.

What a trial did not answer is NaN. It is never averaged in: see `summarise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.trajectory import Goal, Trajectory

Floats = NDArray[np.float64]
Ties = Literal["any", "first"]

SINGLE = ("ftb", "ftc", "fb")
MULTI = ("fto", "fta", "fbp")
LOWER_IS_BETTER = {"ftb": True, "ftc": True, "fb": True, "fto": True, "fta": True, "fbp": False}
DESCRIPTIONS = {
    "ftb": "runtime to the best value in the table",
    "ftc": "runtime to a value within the tolerance of the best",
    "fb": "gap to the best value after the budget",
    "fto": "runtime to one row of the Pareto front",
    "fta": "runtime to the whole Pareto front",
    "fbp": "rows of the Pareto front found within the budget",
}

# A gap that equals the tolerance on paper (14.66 - 14.16 = 0.5) must not miss it by a rounding error.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Question:
    """One score on one table.

    Attributes:
        score: its name.
        targets: True for each row that counts, shape (N,).
        needed: how many of them are enough.
        budget: number of look-ups, for fb and fbp.
        gaps: each row's distance from the best value, shape (N,), for fb.
    """

    score: str
    targets: NDArray[np.bool_]
    needed: int
    budget: int | None = None
    gaps: Floats | None = None

    @property
    def goal(self) -> Goal:
        """What a trial has to reach for the answer to be final."""
        return Goal(self.targets, self.needed, self.budget)


def question(
    score: str,
    losses: Floats,
    *,
    tolerance: float = 0.0,
    budget: int | None = None,
    ties: Ties = "any",
) -> Question:
    """What a score asks of a trial over rows with these losses.

    Args:
        score: one of SINGLE for one loss, of MULTI for more.
        losses: shape (N, m), minimised; NaN is never best and never on a front.
        tolerance: for ftc, in the unit of the loss.
        budget: look-ups for fb and fbp.
        ties: whether any row with the best value meets the target of ftb, or only the first (as in the
            paper's figures).
    """
    if score in SINGLE and losses.shape[1] != 1:
        raise InputError(f"score {score!r} is for one objective, not {losses.shape[1]}.")
    if score in MULTI and losses.shape[1] < 2:
        raise InputError(f"score {score!r} needs two or more objectives.")
    if np.isnan(losses).any(axis=1).all():
        raise InputError("an objective is missing in every row.")
    if score in ("fb", "fbp") and (budget is None or budget < 1):
        raise InputError(f"score {score!r} needs a budget of at least 1.")
    if score in MULTI:
        targets = np.zeros(len(losses), dtype=bool)
        targets[pareto_front(losses)] = True
        needed = 1 if score == "fto" else int(targets.sum())
        return Question(score, targets, needed, budget if score == "fbp" else None)
    loss = losses[:, 0]
    gaps = loss - np.nanmin(loss)
    if score == "ftc":
        if not tolerance >= 0:
            raise InputError(f"the tolerance of ftc must be 0 or more, not {tolerance!r}.")
        slack = _ROUNDING * max(abs(float(np.nanmin(loss))), tolerance)
        return Question(score, gaps <= tolerance + slack, 1)
    best = gaps == 0.0
    if score == "fb":
        return Question(score, best, 1, budget, gaps)
    if score != "ftb":
        raise InputError(f"unknown score {score!r}. Known: {', '.join(SINGLE + MULTI)}.")
    if ties == "first":
        first = np.zeros_like(best)
        first[np.argmax(best)] = True
        best = first
    return Question(score, best, 1)


def answer(asked: Question, rows: NDArray[np.int64], n_initial: int) -> float:
    """The score of one trial; NaN where it stopped too early to say.

    Args:
        asked: the question.
        rows: what the trial looked up, in order.
        n_initial: size of the initial design, the least that a runtime can be.
    """
    if asked.budget is None:
        hits = np.flatnonzero(asked.targets[rows])
        return float(max(n_initial, hits[asked.needed - 1] + 1)) if len(hits) >= asked.needed else np.nan
    within = rows[: asked.budget]
    found = int(asked.targets[within].sum())
    if len(within) < min(asked.budget, len(asked.targets)) and found < asked.needed:
        return np.nan
    if asked.gaps is None:
        return float(found)
    seen = asked.gaps[within]
    return float(np.nanmin(seen)) if not np.isnan(seen).all() else np.nan


@dataclass(frozen=True)
class Summary:
    """A score over trials.

    Attributes:
        mean: over the trials that did not fail; NaN where one of them has no answer (see `at_least`).
        std: population standard deviation, likewise.
        trials: number of trials asked.
        unanswered: trials that stopped before the score was settled (censored).
        failed: trials whose method failed. They count in neither mean nor std.
        at_least: where runtimes are censored, their mean with each unanswered trial at the number of
            rows it looked up: a lower bound of the mean. NaN otherwise.
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


def summarise(asked: Question, trials: Sequence[Trajectory], n_initial: int) -> Summary:
    """Mean and spread over trials, with censored and failed ones counted and kept apart."""
    sound = [t for t in trials if not t.failure]
    answers = np.array([answer(asked, t.rows, n_initial) for t in sound])
    unanswered = int(np.isnan(answers).sum())
    failed = len(trials) - len(sound)
    if not sound or unanswered:
        lengths = np.array([float(len(t.rows)) for t in sound])
        censored = asked.budget is None and len(sound) > 0
        bound = float(np.where(np.isnan(answers), lengths, answers).mean()) if censored else np.nan
        return Summary(np.nan, np.nan, len(trials), unanswered, failed, bound)
    return Summary(float(answers.mean()), float(answers.std()), len(trials), 0, failed)
