"""MO-ASHA: asynchronous successive halving for several losses (Schmucker et al. 2021, "Multi-objective
Asynchronous Successive Halving").

symbol    shape    meaning
n, m      scalars  number of rows that have reached a level of training (partial_training.py), and of losses
losses    n x m    losses of each row's best checkpoint so far, by the first loss; infinite if missing
ranks     n        non-dominated rank, from 0: the number of fronts to remove before the row is on a front

ASHA promotes a row that is among the best 1/eta of its level. Here rows are ordered by rank, and within a
front by an epsilon-net (Clarkson 2006, "Nearest-neighbor searching and metric space dimensions", section 5):
first the row with the smallest first loss, and then always the row that is farthest from the rows chosen
already, in losses scaled to their range over the front. So if a front has more rows than can be promoted,
rows that lie far apart are promoted. Ties are broken by the order of arrival. With one loss this is ASHA.

A row's checkpoints before its best checkpoint count for the front of a trial, but not for the row's rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.problem import Problem, Progress
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.early.partial_training import Standing
from hpobench_nmt.methods.early.successive_halving import ASHA, ETA


class MOASHA(ASHA):
    """The method. A request takes O(n m), and an epsilon-net, for each level whose rows have changed."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        super().__init__(problem, rng, eta)
        self._losses: dict[int, Floats] = {}  # of each row's best checkpoint so far
        self._levels = [FrontLevel(self._losses, problem.n_objectives) for _ in self._levels]

    def observe(self, progress: Progress) -> None:
        """Add the row to the levels that it has newly reached."""
        self._losses[progress.row] = progress.best
        super().observe(progress)


class FrontLevel:
    """The rows that have reached a level, ordered by rank. `Level` is the same for one loss."""

    def __init__(self, losses: dict[int, Floats], n_objectives: int) -> None:
        self._losses_of = losses
        self._rows: list[int] = []
        self._losses = np.empty((16, n_objectives))
        self._ranks = np.zeros(16, dtype=np.int64)
        self._waiting = np.ones(16, dtype=np.bool_)
        self._ranked = 0  # number of rows whose rank is known; they come first
        self._first = -1
        self._row: int | None = None  # the row at place `_first`
        self._count = -1  # the `count` that `_row` was found for; -1: must be found again

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, standing: Standing) -> None:
        """Add a row that has reached this level."""
        row, n = standing[2], len(self._rows)
        if n == len(self._ranks):
            self._losses = np.concatenate([self._losses, np.empty_like(self._losses)])
            self._ranks = np.concatenate([self._ranks, np.zeros_like(self._ranks)])
            self._waiting = np.concatenate([self._waiting, np.ones_like(self._waiting)])
        self._rows.append(row)
        self._losses[n] = self._losses_of[row]
        self._count = -1

    def first_waiting(self, count: int) -> int | None:
        """The best row that still waits for promotion, if it is among the `count` best of all rows."""
        if not count:
            return None
        if count != self._count:
            n = len(self._rows)
            ranked, self._ranked, self._count = self._ranked, n, count
            self._first = first_of_net(self._losses, self._ranks, self._waiting, ranked, n, count)
            self._row = None if self._first < 0 else self._rows[self._first]
        return self._row

    def drop_first(self) -> None:
        """The row that `first_waiting` found no longer waits."""
        self._waiting[self._first] = False
        self._count = -1


@compiled(error_model="numpy")
def _dominates(losses: Floats, a: int, b: int) -> bool:
    better = False
    for j in range(losses.shape[1]):
        if losses[a, j] > losses[b, j]:
            return False
        better |= losses[a, j] < losses[b, j]
    return better


@compiled(error_model="numpy")
def _rank(losses: Floats, ranks: NDArray[np.int64], n: int) -> None:
    """Find the rank of row n, and update the ranks of the rows before it.

    A row's rank is one more than the largest rank of the rows that dominate it (Li et al. 2017, "Efficient
    Nondomination Level Update Method"). O(n m) for the row and for each row whose rank it changes.
    """
    m = losses.shape[1]
    missing = False
    for j in range(m):
        missing |= np.isnan(losses[n, j])
    if missing:
        losses[n] = np.inf
    ranks[n] = 0
    for i in range(n):
        if ranks[i] >= ranks[n] and _dominates(losses, i, n):
            ranks[n] = ranks[i] + 1
    moved = [n]
    while len(moved) > 0:
        q = moved.pop()
        for p in range(n):
            if ranks[p] <= ranks[q] and _dominates(losses, q, p):
                ranks[p] = ranks[q] + 1
                moved.append(p)


@compiled(error_model="numpy")
def _first_in_front(losses: Floats, front: NDArray[np.int64], waiting: Bools, most: int) -> int:
    """The first waiting place among the first `most` of a front's epsilon-net; -1 if none of them waits."""
    size, m = len(front), losses.shape[1]
    chosen = 0
    for i in range(1, size):
        if losses[front[i], 0] < losses[front[chosen], 0]:
            chosen = i
    if waiting[front[chosen]]:  # usually true, which saves the rest
        return int(front[chosen])
    spreads = np.empty(m)
    for j in range(m):
        low, high = np.inf, -np.inf
        for i in range(size):
            low, high = min(low, losses[front[i], j]), max(high, losses[front[i], j])
        spread = high - low
        spreads[j] = spread if spread < np.inf else 0.0
    distances = np.full(size, np.inf)
    for _ in range(most):
        if waiting[front[chosen]]:
            return int(front[chosen])
        distances[chosen] = -1.0
        farthest = 0
        for i in range(size):
            if distances[i] >= 0.0:
                squares = 0.0
                for j in range(m):
                    if spreads[j] > 0.0:
                        gap = (losses[front[i], j] - losses[front[chosen], j]) / spreads[j]
                        squares += gap * gap
                distances[i] = min(distances[i], squares)
            if distances[i] > distances[farthest]:
                farthest = i
        chosen = farthest
    return -1


@compiled(error_model="numpy")
def first_of_net(
    losses: Floats, ranks: NDArray[np.int64], waiting: Bools, ranked: int, n: int, count: int
) -> int:
    """The first waiting place among the first `count` of n, ordered by ranks and nets; -1 if none waits.

    The first `ranked` places have ranks; the ranks of the others are computed here.
    """
    for i in range(ranked, n):
        _rank(losses, ranks, i)
    rank = n  # the first front with a waiting row
    for i in range(n):
        if waiting[i] and ranks[i] < rank:
            rank = ranks[i]
    before, size, front = 0, 0, np.empty(n, dtype=np.int64)
    for i in range(n):
        if ranks[i] < rank:
            before += 1
        elif ranks[i] == rank:
            front[size] = i
            size += 1
    if before >= count or size == 0:
        return -1
    return _first_in_front(losses, front[:size], waiting, min(size, count - before))
