"""Sequential model-based optimisation (Zhang & Duh 2020, Figure 2 and Algorithm 1).

A surrogate gives a posterior over the candidates, and an acquisition function picks the next one from it. A
method of this kind is these two choices. `hpobench_nmt.methods.gaussian_process` and
`hpobench_nmt.methods.graph_based` make them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.compiled import compiled
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.acquisition import Acquisition, Belief
from hpobench_nmt.methods.pending import Pending
from hpobench_nmt.methods.posterior import Posterior, Prior

LossScaling = Callable[[Floats], tuple[Floats, Floats]]
"""From the losses seen, shape (n, m), computes a centre and a spread of each, both of shape (m,)."""


def standard_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation. A row that nothing is known of is expected to be average."""
    return seen.mean(axis=0), seen.std(axis=0)


def range_scaling(seen: Floats) -> tuple[Floats, Floats]:
    """Worst loss and range: the best becomes -1 and the worst 0.

    A row that nothing is known of is expected to be as bad as the worst.
    """
    worst = seen.max(axis=0)
    return worst, worst - seen.min(axis=0)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A Gaussian prior over a problem's rows, and how losses enter it.

    Attributes:
        prior: covariance over the rows.
        noise_sd: standard deviation of the observation noise, in the units of what is modelled.
        scaling: model (losses - centre) / spread, computed again at every step. Left out: model the losses
            as they are, around a prior mean of 0.
        row_sums: prior covariance times ones, shape (N,), for acquisitions that need its posterior.
    """

    prior: Prior
    noise_sd: float = 0.0
    scaling: LossScaling | None = None
    row_sums: Floats | None = None


class ModelBased:
    """A method made of a surrogate and an acquisition.

    Args:
        problem: the candidates.
        rng: only used while no row has given a loss.
        surrogate: the model of the losses.
        acquisition: the value of each candidate.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        surrogate: Surrogate,
        acquisition: Acquisition,
    ) -> None:
        self._rng = rng
        self._acquisition = acquisition
        self._scaling = surrogate.scaling
        # A target of constant 1 beside the losses lets them be scaled anew at every step.
        n_targets = problem.n_objectives + (surrogate.scaling is not None)
        self._posterior = Posterior(surrogate.prior, n_targets, surrogate.noise_sd, surrogate.row_sums)
        self._targets = np.ones(n_targets)
        self._losses = np.empty((max(problem.lookups, 1), problem.n_objectives))
        self._count = 0
        self._front = np.empty((0, problem.n_objectives))
        self._best = np.full(problem.n_objectives, np.inf)
        self._worst = np.full(problem.n_objectives, -np.inf)
        self._next: int | None = None
        self._drawn: int | None = None
        self._pending = Pending(self._posterior)

    def ask(self) -> int:
        """The unseen row of largest acquisition value."""
        if self._next is None:
            posterior = self._posterior
            if self._count == 0:
                self._next = int(self._rng.choice(posterior.rows[posterior.unseen]))
            else:
                self._next = int(posterior.rows[self._best_of(self._belief())])
        return self._next

    def _best_of(self, belief: Belief) -> int:
        """The place of the unseen candidate of largest acquisition value."""
        scores = np.ascontiguousarray(self._acquisition(belief), dtype=np.float64)
        if scores.shape != belief.unseen.shape:
            raise ValueError(
                f"the acquisition gave values of shape {scores.shape}, not {belief.unseen.shape}."
            )
        best = _first_best(scores, belief.unseen)
        if np.isnan(scores[best]) and np.isnan(scores[belief.unseen]).all():
            raise ValueError("the acquisition gave NaN for every candidate.")
        return best

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The row of largest acquisition value that is not running.

        The variance takes what is running into account, the mean does not (pending.py).
        """
        if not running:
            return self.ask()
        posterior = self._posterior
        var, row_sums, free = self._pending.given(running)
        if not free.any():
            return None
        if self._count == 0:
            if self._drawn is None or self._drawn in running:
                self._drawn = int(self._rng.choice(posterior.rows[free]))
            return self._drawn
        belief = self._belief()._replace(var=var, unseen=free, row_sums=row_sums)
        return int(posterior.rows[self._best_of(belief)])

    def tell(self, index: int, losses: Floats) -> None:
        """Condition on the losses of a row; a row without losses only leaves the candidates."""
        self._next = self._drawn = None
        losses = np.ascontiguousarray(losses, dtype=np.float64)
        if losses.shape != self._best.shape:  # compiled code would write beyond its arrays
            raise ValueError(f"told losses of shape {losses.shape}, not {self._best.shape}.")
        if self._count == len(self._losses):
            self._losses = np.concatenate([self._losses, np.empty_like(self._losses)])
        place = _note(
            losses, self._front, self._best, self._worst, self._losses[self._count :], self._targets
        )
        if place == _MISSING:
            self._pending.discarded(index)
            self._posterior.discard(index)
            return
        self._count += 1
        if place == _ON_THE_FRONT:
            self._front = _extended(self._front, losses)
        self._pending.observed(index)
        self._posterior.observe(index, self._targets)

    def _belief(self) -> Belief:
        posterior, mean = self._posterior, self._posterior.mean
        front, best, worst = self._front, self._best, self._worst
        if self._scaling:
            centre, spread = self._scaling(self._losses[: self._count])
            mean, front, best, worst = _scaled(mean, front, best, worst, centre, spread)
        return Belief(mean, posterior.var, posterior.unseen, front, best, worst, posterior.row_sums)


@compiled()
def _first_best(scores: Floats, unseen: NDArray[np.bool_]) -> int:
    """The first unseen candidate of largest score; a NaN is the largest, as in numpy's argmax."""
    best = -1
    for i in range(scores.shape[0]):
        if unseen[i]:
            if np.isnan(scores[i]):
                return i
            if best < 0 or scores[i] > scores[best]:
                best = i
    return best


_MISSING, _BEHIND_THE_FRONT, _ON_THE_FRONT = range(3)


@compiled()
def _note(losses: Floats, front: Floats, best: Floats, worst: Floats, seen: Floats, targets: Floats) -> int:
    """Where the losses of a row lie. Unless one is missing, they are noted in the other arrays.

    Args:
        losses: shape (m,).
        front: Pareto front of the rows before, shape (J, m). It stays as it is.
        best, worst: smallest and largest of each loss, shape (m,).
        seen: its first row becomes the losses.
        targets: its first m entries become the losses.

    Returns:
        _ON_THE_FRONT if each point of the front is worse in some loss.
    """
    m = losses.shape[0]
    for t in range(m):
        if np.isnan(losses[t]):
            return _MISSING
    for t in range(m):
        best[t] = min(best[t], losses[t])
        worst[t] = max(worst[t], losses[t])
        seen[0, t] = losses[t]
        targets[t] = losses[t]
    for j in range(front.shape[0]):
        better = False
        for t in range(m):
            better = better or losses[t] < front[j, t]
        if not better:
            return _BEHIND_THE_FRONT
    return _ON_THE_FRONT


@compiled()
def _extended(front: Floats, losses: Floats) -> Floats:
    """The Pareto front, sorted by the first loss, with one more point, which must be on it.

    The front that was given stays as it is.
    """
    size, m = front.shape
    kept = np.zeros(size, dtype=np.bool_)
    place = 0
    for j in range(size):
        for t in range(m):
            kept[j] = kept[j] or losses[t] > front[j, t]
        if kept[j] and front[j, 0] <= losses[0]:
            place += 1
    others = front[kept]
    extended = np.empty((others.shape[0] + 1, m))
    extended[:place] = others[:place]
    extended[place] = losses
    extended[place + 1 :] = others[place:]
    return extended


@compiled(error_model="numpy")
def _scaled(
    mean: Floats, front: Floats, best: Floats, worst: Floats, centre: Floats, spread: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Posterior mean, front, best and worst of (losses - centre) / spread.

    Args:
        mean: posterior mean of the losses, and of a constant 1 after them, shape (m + 1, M).
        front, best, worst: of the losses.
        centre, spread: shape (m,).
    """
    # The mean and deviation of equal losses are only nearly the loss and 0.
    equal = best == worst
    centre, spread = np.where(equal, best, centre), np.where(equal, 1.0, spread)
    m = centre.shape[0]
    scaled = np.empty((m, mean.shape[1]))
    for t in range(m):
        for i in range(mean.shape[1]):
            scaled[t, i] = (mean[t, i] - centre[t] * mean[m, i]) / spread[t]
    return scaled, (front - centre) / spread, (best - centre) / spread, (worst - centre) / spread
