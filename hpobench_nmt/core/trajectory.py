"""What a trial leaves behind, and what it may wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Goal:
    """Something a score waits for: it is settled when enough targets were seen or its budget is spent.

    Attributes:
        targets: True for each row that counts, shape (N,).
        needed: how many of them settle it.
        budget: look-ups after which nothing can change any more; None: never.
    """

    targets: NDArray[np.bool_]
    needed: int
    budget: int | None = None


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
