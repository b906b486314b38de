"""Several trainings of every row, of which a look-up draws one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.trainings import places_of


@dataclass(frozen=True, eq=False)
class ReplicateLosses:
    """The losses of several trainings of each of N rows.

    Attributes:
        starts: where each row's trainings begin in losses, and their number T at the end, shape (N + 1,).
        losses: losses of all trainings, grouped by row, shape (T, m); NaN if a training failed.
        others: other metrics of all trainings, shape (T, k). They are here only for the hash: their means
            determine costs and constraints.
        costs: the costs of all trainings by their learning curves, shape (T,); None if the rows' costs count.
        borrowed: how many rows have one training, and borrow the noise of other rows.
    """

    starts: Ints
    losses: Floats
    others: Floats = field(default_factory=lambda: np.empty((0, 0)))
    costs: Floats | None = None
    borrowed: int = 0

    def places(self, rng: np.random.Generator) -> Ints:
        """The place of one training of each row, each as likely as the others, shape (N,). O(N)."""
        counts = np.diff(self.starts)
        return self.starts[:-1] + np.floor(rng.random(len(counts)) * counts).astype(np.int64)

    def after(self, first: Ints, row: int, number: int) -> int:
        """The place of the training that a row's look-up draws, `number` look-ups after its first.

        `first` are the places that the first look-ups draw. A row's trainings come in turn, so that a
        training is not drawn again before all others were.
        """
        start, count = self.starts[row], self.starts[row + 1] - self.starts[row]
        return int(start + (first[row] - start + number) % count)

    def of_rows(self, rows: Ints) -> ReplicateLosses:
        """The trainings of some rows, in this order, without their other metrics."""
        starts, places = places_of(self.starts, rows)
        costs = None if self.costs is None else self.costs[places]
        return ReplicateLosses(starts, self.losses[places], costs=costs)

    @property
    def sha256(self) -> str:
        """Hash of the trainings."""
        digest = hashlib.sha256(self.starts.astype("<i8").tobytes())
        for values in (self.losses, self.others, *([] if self.costs is None else [self.costs])):
            digest.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
        return digest.hexdigest()
