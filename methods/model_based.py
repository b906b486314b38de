"""Sequential model-based optimisation (Zhang & Duh 2020, Figure 2 and Algorithm 1).

A surrogate gives a posterior over the candidates, and an acquisition function picks the next one from it. A
method of this kind is these two choices. `hpobench_nmt.methods.gaussian_process` and
`hpobench_nmt.methods.graph_based` make them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.compiled import compiled
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.acquisition import Acquisition, Belief
from hpobench_nmt.methods.pending import Given
from hpobench_nmt.methods.posterior import Posterior, Prior
from hpobench_nmt.methods.search import PosteriorSearch

LossScaling = Callable[[Floats], tuple[Floats, Floats]]
"""From the losses seen, shape (n, m), computes a centre and a spread of each, both of shape (m,)."""


def standard_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation. A row that nothing is known of is expected to be average."""
    return seen.mean(axis=0), seen.std(axis=0)


def range_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Worst loss and range: the best becomes -1 and the worst 0, as is expected of a row still unknown."""
    worst = seen.max(axis=0)
    return worst, worst - seen.min(axis=0)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A Gaussian prior over a problem's rows, and how losses enter it.

    Attributes:
        prior: covariance over the rows.
        noise_sd: standard deviation of the observation noise, in the units of what is modelled.
        scaling: model (losses - centre) / spread, computed again at every step. Left out: the losses as they
            are.
        row_sums: prior covariance times ones, shape (N,), for acquisitions that need its posterior.
    """

    prior: Prior
    noise_sd: float = 0.0
    scaling: LossScaling | None = None
    row_sums: Floats | None = None


class ModelBased(PosteriorSearch):
    """A method made of a surrogate and an acquisition; rng is only used while no row has given a loss.

    Classes that inherit may model n_others targets beside the losses.
    """

    posterior: Posterior

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        surrogate: Surrogate,
        acquisition: Acquisition,
        n_others: int = 0,
    ) -> None:
        m = problem.n_objectives
        # A target of constant 1 after the losses lets all be scaled again at every step.
        n_targets = m + (n_others + 1 if n_others or surrogate.scaling else 0)
        super().__init__(Posterior(surrogate.prior, n_targets, surrogate.noise_sd, surrogate.row_sums), rng)
        self._acquisition = acquisition
        self._scaling = surrogate.scaling
        self._targets = np.ones(n_targets)
        self._losses = np.empty((max(problem.lookups, 1), m))
        self._front = np.empty((0, m))
        self._best = np.full(m, np.inf)
        self._worst = np.full(m, -np.inf)

    def scores(self, given: Given) -> Floats:
        """The values of the acquisition."""
        scores = np.asarray(self._acquisition(self.belief(given)))
        if scores.shape != given.free.shape:
            raise ValueError(f"the acquisition gave values of shape {scores.shape}, not {given.free.shape}.")
        return scores

    def belief(self, given: Given) -> Belief:
        """What the acquisition is given."""
        mean, front, best, worst = self.posterior.mean, self._front, self._best, self._worst
        if self._scaling:
            centre, spread = self._scaling(self._losses[: self.count])
            mean, front, best, worst = _scaled(mean, front, best, worst, centre, spread)
        elif len(mean) > len(best):
            mean = mean[: len(best)]
        return Belief(mean, given.var, given.free, front, best, worst, given.row_sums)

    def tell(self, index: int, losses: Floats, feasible: bool = True) -> None:
        """Condition on the losses of a row; the front is of those that are feasible."""
        losses = np.ascontiguousarray(losses, dtype=np.float64)
        if losses.shape != self._best.shape:  # compiled code would write beyond its arrays
            raise ValueError(f"received losses of shape {losses.shape}, not {self._best.shape}.")
        if self.count == len(self._losses):
            self._losses = np.concatenate([self._losses, np.empty_like(self._losses)])
        on_the_front = _note(
            losses, self._front, self._best, self._worst, self._losses[self.count], self._targets
        )
        if on_the_front and feasible:
            self._front = _extended(self._front, losses)
        self.learn(index, self._targets)


@compiled()
def _note(losses: Floats, front: Floats, best: Floats, worst: Floats, seen: Floats, targets: Floats) -> bool:
    """Note a row's losses, shape (m,), in the arrays but the front, and return whether they lie on the front.

    If one is missing, they are noted among the targets alone. On the front, each other point is worse in a
    loss.
    """
    m = losses.shape[0]
    complete = True
    for t in range(m):
        targets[t] = losses[t]
        complete = complete and not math.isnan(losses[t])
    if not complete:
        return False
    for t in range(m):
        best[t] = min(best[t], losses[t])
        worst[t] = max(worst[t], losses[t])
        seen[t] = losses[t]
    for j in range(front.shape[0]):
        better = False
        for t in range(m):
            better = better or losses[t] < front[j, t]
        if not better:
            return False
    return True


@compiled()
def _extended(front: Floats, losses: Floats) -> Floats:
    """A new Pareto front, sorted by the first loss, with one more point, which must be on it."""
    size, m = front.shape
    extended, count, placed = np.empty((size + 1, m)), 0, False
    for j in range(size + 1):
        if not placed and (j == size or front[j, 0] > losses[0]):
            for t in range(m):
                extended[count, t] = losses[t]
            count, placed = count + 1, True
        if j == size:
            break
        kept = False
        for t in range(m):
            kept = kept or losses[t] > front[j, t]
        if kept:
            for t in range(m):
                extended[count, t] = front[j, t]
            count += 1
    return extended[:count].copy()


@compiled(error_model="numpy")
def _scaled(
    mean: Floats, front: Floats, best: Floats, worst: Floats, centre: Floats, spread: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Posterior mean, front, best and worst of (losses - centre) / spread.

    The mean of M candidates is of the losses, of a constant 1 after them, and of others.
    """
    m, size = centre.shape[0], front.shape[0]
    scaled, at = np.empty((m, mean.shape[1])), np.empty((size, m))
    least, most = np.empty(m), np.empty(m)
    for t in range(m):
        # The mean and deviation of equal losses are only nearly the loss and 0.
        equal = best[t] == worst[t]
        c, s = (best[t], 1.0) if equal else (centre[t], spread[t])
        for i in range(mean.shape[1]):
            scaled[t, i] = (mean[t, i] - c * mean[m, i]) / s
        for j in range(size):
            at[j, t] = (front[j, t] - c) / s
        least[t], most[t] = (best[t] - c) / s, (worst[t] - c) / s
    return scaled, at, least, most
