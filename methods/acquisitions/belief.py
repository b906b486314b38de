"""What an acquisition function may use."""

from __future__ import annotations

from typing import NamedTuple

from hpobench_nmt.core.arrays import Bools, Floats

REFERENCE_MARGIN = 0.1
"""The reference point of EHVI lies beyond the worst losses seen, by this share of the range seen."""


class Belief(NamedTuple):
    """All that an acquisition function may use, for M candidates and m losses.

    Mean, variance, front, best and worst refer to the losses as the model sees them, scaled or not. Later
    observations overwrite the arrays. Every step makes a new belief, so it is a named tuple, which is cheap
    to make.

    Attributes:
        mean: posterior mean of each loss, shape (m, M).
        var: posterior variance, shape (M,) if the losses share it, else (m, M).
        unseen: False for candidates that were seen, whose scores will be ignored, shape (M,).
        front: Pareto front of the losses seen, sorted by the first, shape (J, m).
        best, worst: smallest and largest value seen of each loss, shape (m,).
        row_sums: row sums of the posterior covariance over the unseen candidates, shape (M,), if the prior
            provides them.
    """

    mean: Floats
    var: Floats
    unseen: Bools
    front: Floats
    best: Floats
    worst: Floats
    row_sums: Floats | None

    @property
    def reference(self) -> Floats:
        """The reference point of EHVI, shape (m,)."""
        return self.worst + REFERENCE_MARGIN * (self.worst - self.best)
