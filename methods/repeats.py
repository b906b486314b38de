"""Which row should be trained again, when losses are noisy, and any method that does so.

What trainings say about rows is in replicates.py. A repeat must be worth more than a new row: its knowledge
gradient must exceed the mean gain of the last half of the rows. The incumbent has the smallest expected loss,
and the challenger is most likely to be better. As long as the two can be told apart, only the incumbent is
repeated, and seldom, so that the noise is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import teller
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Space
from hpobench_nmt.methods.auto import AutoBO
from hpobench_nmt.methods.replicates import Belief, believe, informative

SHARE = 0.15
"""At most this share of the trainings are repeats."""
FIRST = 10
"""The incumbent is trained again after this many rows, and each time their number has doubled."""
LEAST_PROBABILITY, MOST_GAP, DIFFERENCES = 0.1, 2.0, 10.0

Features = Callable[[list[int]], Floats]
"""The features of some rows, shape (n, F)."""


def belief_of(
    space: Space, features: Features, trainings: Mapping[int, Floats], kept: Sequence[int]
) -> tuple[list[int], Belief]:
    """Rows with a loss, and what is known about their expected losses; of many rows, the `informative` ones.

    `trainings` has the losses of each row, in the order of its first training; NaN if a training failed.
    `kept` are the rows that have a loss and satisfy all constraints.
    """
    known = {row: own[~np.isnan(own)] for row, own in trainings.items()}
    every = [row for row, own in known.items() if len(own)]
    rows = [every[place] for place in informative([known[row] for row in every], np.isin(every, kept))]
    return rows, believe(features(rows), [each.n_features for each in space], [known[row] for row in rows])


def expected_best(
    space: Space, features: Features, trainings: Mapping[int, Floats], kept: Sequence[int]
) -> int:
    """The row with the smallest expected loss, of those in `kept`; arguments as in `belief_of`."""
    rows, belief = belief_of(space, features, trainings, kept)
    expected = dict(zip(rows, belief.mean.tolist(), strict=True))
    return min((row for row in kept if row in expected), key=expected.__getitem__)


def looks_deterministic(trainings: Mapping[int, Floats]) -> bool:
    """Whether some rows were trained twice, and the losses of each row are the same to the bit."""
    again = [own for own in trainings.values() if (~np.isnan(own)).sum() > 1]
    return bool(again) and all(np.nanmax(own) == np.nanmin(own) for own in again)


def row_to_repeat(
    space: Space,
    features: Features,
    trainings: Mapping[int, Floats],
    kept: Sequence[int],
    pending: Sequence[int],
    exhausted: bool = False,
) -> int | None:
    """The row to train again, or None if a new row should be trained.

    Args:
        space, features, trainings: as in `belief_of`.
        kept: the rows that have a loss and satisfy all constraints, in the order of `trainings`.
        pending: the rows that are training now.
        exhausted: whether no new row is left. Then rows are repeated as long as this teaches anything.
    """
    count = sum(map(len, trainings.values())) + len(pending)
    repeats = count - len(trainings.keys() | set(pending))
    early = len(kept) <= FIRST or repeats + 1 > SHARE * count
    if not kept or (early and not exhausted) or looks_deterministic(trainings):
        return None
    rows, belief = belief_of(space, features, trainings, kept)
    places = [place for place, row in enumerate(rows) if row in kept]
    best = min(places, key=lambda place: float(belief.mean[place]))
    if repeats < max(1, (len(kept) // FIRST).bit_length()):
        return None if rows[best] in pending else rows[best]
    free = [place for place in places if rows[place] not in pending]
    if not free or not (exhausted or _is_close(belief, places, best, trainings)):
        return None
    gains = belief.knowledge_gradient(places)
    most = max(free, key=lambda place: float(gains[place]))
    if exhausted:
        return rows[most]
    done = [row for row, own in trainings.items() if not np.isnan(own).all()]
    first = set(done[: len(done) // 2])
    before = [float(belief.warped[place]) for place in places if rows[place] in first]
    rate = (min(before, default=math.inf) - float(belief.warped[best])) / (len(done) - len(first))
    return rows[most] if gains[most] > rate else None


def _is_close(belief: Belief, places: Sequence[int], best: int, trainings: Mapping[int, Floats]) -> bool:
    """Whether another of some places may be better than the best one, given the noise."""
    better = belief.better(than=best)
    challenger = max((place for place in places if place != best), key=lambda place: float(better[place]))
    gap = float(belief.mean[challenger] - belief.mean[best])
    finite = (own[~np.isnan(own)] for own in trainings.values())
    largest = max((float(np.ptp(own)) for own in finite if len(own) > 1), default=math.inf)
    return bool(
        better[challenger] > LEAST_PROBABILITY
        and gap < MOST_GAP * belief.noise[best]
        and gap < DIFFERENCES * largest
    )


class Repeating:
    """A method that sees the mean losses of rows, and whose best rows are trained again (`Problem.again`).

    If a mean changes, the method is constructed again by `make`, and receives all means. For one loss.
    """

    def __init__(self, make: Callable[..., Any], problem: Problem, rng: np.random.Generator) -> None:
        self._make, self._problem, self._rng = make, problem, rng
        self._told: dict[int, Floats] = {}  # by row, loss and violations of each training, shape (k, 1 + c)
        self._start()
        if hasattr(self._method, "suggest"):  # then several trainings may run at a time
            self.suggest = self._suggest

    def _start(self) -> None:
        self._method = self._make(self._problem, deepcopy(self._rng))
        self._tell = self._method.tell
        if self._problem.constraints:
            self._tell = teller(self._method, self._tell, lambda row: self._mean(row)[1:])
        for row in self._told:
            self._tell(row, self._mean(row)[:1])

    def _mean(self, row: int) -> Floats:
        """The mean of a row's trainings that did not fail; if all failed, NaN."""
        own = self._told[row]
        done = own[~np.isnan(own[:, 0])]
        return np.asarray((done if len(done) else own).mean(axis=0))

    @property
    def _losses(self) -> dict[int, Floats]:
        return {row: own[:, 0] for row, own in self._told.items()}

    def _again(self, pending: Sequence[int]) -> int | None:
        if not self._problem.again:
            return None
        means = {row: self._mean(row) for row in self._told}
        kept = [row for row, mean in means.items() if not np.isnan(mean[0]) and (mean[1:] <= 0).all()]
        features = self._problem.features.__getitem__
        return row_to_repeat(self._problem.space, features, self._losses, kept, pending)

    def ask(self) -> int:
        """A row to train again, or the method's row."""
        again = self._again(())
        return int(self._method.ask()) if again is None else again

    def _suggest(self, running: Mapping[int, float]) -> Any:
        again = self._again(list(running))
        return self._method.suggest(running) if again is None else again

    def tell(self, index: int, losses: Floats) -> None:
        """Receive the loss of a training."""
        self.tell_constrained(index, losses, np.empty(0))

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Receive the loss and the violations of a training."""
        told, before = np.concatenate([losses, violations]), self._told.get(index)
        self._told[index] = told[None] if before is None else np.vstack([before, told])
        if before is None:
            self._tell(index, losses)
        else:
            self._start()

    def recommend(self, rows: Sequence[int]) -> int:
        """The row with the smallest expected loss, among some rows with a loss."""
        features = self._problem.features.__getitem__
        return expected_best(self._problem.space, features, self._losses, rows)


class RepeatingBO(Repeating):
    """BO_auto that also looks up rows again, where the suite allows it."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(AutoBO, problem, rng)
