"""What one trial looked up, and the goals that it may wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Goal:
    """Rows to find. Scores are computed from goals, and a trial can end once all its goals are settled.

    A trial settles a goal when it has found enough of the target rows, or, for a score that is taken after
    a fixed number of look-ups, when it has made them.

    Attributes:
        targets: True for each row that counts, shape (N,).
        needed: how many of them are enough.
        score_at: number of look-ups after which the score is taken; None for a runtime.
        gaps: each row's distance from the best value, shape (N,), where the score is the smallest gap found;
            None where rows are counted.
        name: the score's name, or a few words that describe the goal.
    """

    targets: NDArray[np.bool_]
    needed: int
    score_at: int | None = None
    gaps: Floats | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What one trial looked up, in order.

    Attributes:
        rows: row numbers, shape (n,), the initial design first.
        losses: minimised, shape (n, m): a metric to maximise is negated; NaN where missing.
        failure: why the method was stopped, empty where it was not.
    """

    rows: Rows
    losses: Floats
    failure: str = ""
