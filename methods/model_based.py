"""Sequential model-based optimisation (Zhang & Duh 2020, Figure 2 and Algorithm 1).

A surrogate defines a posterior over the candidates, and an acquisition function chooses the next candidate
from it. A method of this kind combines one surrogate with one acquisition function.
`hpobench_nmt.methods.gaussian_process` and `hpobench_nmt.methods.graph_based` define such methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.acquisitions.acquisition import Acquisition, Belief
from hpobench_nmt.methods.search import PosteriorSearch
from hpobench_nmt.methods.surrogates.pending import Given
from hpobench_nmt.methods.surrogates.posterior import Posterior, Prior

LossScaling = Callable[[Floats], tuple[Floats, Floats]]
"""From the losses seen, shape (n, m), computes the centre and the spread of each loss, shape (m,) each."""


def standard_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation. The prior then expects an average loss of an unknown row."""
    return seen.mean(axis=0), seen.std(axis=0)


def range_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Worst loss and range: the best becomes -1 and the worst 0, the prior mean of unknown rows."""
    worst = seen.max(axis=0)
    return worst, worst - seen.min(axis=0)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A Gaussian prior over a problem's rows, and the noise and scaling of the losses.

    Attributes:
        prior: covariance over the rows.
        noise_sd: standard deviation of the observation noise, in the units of the model's targets.
        scaling: the model is of (losses - centre) / spread, both computed again at every step. Left out: the
            model is of the losses as they are.
        row_sums: row sums of the prior covariance, shape (N,), for acquisitions that need those of the
            posterior.
    """

    prior: Prior
    noise_sd: float = 0.0
    scaling: LossScaling | None = None
    row_sums: Floats | None = None


class ModelBased(PosteriorSearch):
    """A method with a surrogate and an acquisition; rng is only used until the first losses are observed.

    Subclasses may model n_others further targets.
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
        # The target after the losses is always 1. The posterior mean of (y - c) / s is the mean of y minus c
        # times the mean of this target, divided by s. So targets can be scaled again at every step without a
        # new fit.
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
        """The input of the acquisition."""
        mean, front, best, worst = self.posterior.mean, self._front, self._best, self._worst
        if self._scaling:
            centre, spread = self._scaling(self._losses[: self.count])
            mean, front, best, worst = _scaled(mean, front, best, worst, centre, spread)
        elif len(mean) > len(best):
            mean = mean[: len(best)]
        return Belief(mean, given.var, given.free, front, best, worst, given.row_sums)

    def tell(self, index: int, losses: Floats, feasible: bool = True) -> None:
        """Condition on the losses of a row. Only feasible rows enter the front."""
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
    """Note a row's losses, shape (m,), in all arrays except the front; return whether they lie on the front.

    If a loss is missing, only the targets are updated. The losses lie on the front if every point of the
    front is worse in some loss.
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


def _extended(front: Floats, losses: Floats) -> Floats:
    """The Pareto front with one more point, which must lie on it; a new array, sorted by the first loss."""
    kept = front[(front < losses).any(axis=1)]
    place = int(kept[:, 0].searchsorted(losses[0], side="right"))
    return np.concatenate([kept[:place], losses[None], kept[place:]])


@compiled(error_model="numpy")
def _scaled(
    mean: Floats, front: Floats, best: Floats, worst: Floats, centre: Floats, spread: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Posterior mean, front, best and worst of (losses - centre) / spread.

    The mean of M candidates has rows for the losses, for the constant target 1, and for further targets.
    """
    m, size = centre.shape[0], front.shape[0]
    scaled, at = np.empty((m, mean.shape[1])), np.empty((size, m))
    least, most = np.empty(m), np.empty(m)
    for t in range(m):
        # For equal losses, the computed mean and deviation are only nearly the loss and 0.
        equal = best[t] == worst[t]
        c, s = (best[t], 1.0) if equal else (centre[t], spread[t])
        for i in range(mean.shape[1]):
            scaled[t, i] = (mean[t, i] - c * mean[m, i]) / s
        for j in range(size):
            at[j, t] = (front[j, t] - c) / s
        least[t], most[t] = (best[t] - c) / s, (worst[t] - c) / s
    return scaled, at, least, most
