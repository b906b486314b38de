"""Model-based optimisation under constraints: EI times the probability of feasibility (Gardner et al. 2014).

symbol   shape   meaning
y        m       losses of a row
c        q       its violations: the row is feasible where all are at most 0
mean     M       posterior means of each y_i and c_j over M candidates; they share one covariance
var      M       its posterior variance
PF       M       prod_j P(c_j <= 0), the probability that a candidate is feasible

A candidate's value is log EI + log PF, for two losses log EHVI + log PF. The best value and the front that it
is to improve on are those of the feasible rows seen. While there are none, the value is log PF alone.

Losses are modelled as the surrogate says. Violations have units of their own, so they are standardised at
every step: their bound is then at (0 - centre) / spread. Infeasible rows are data like all others. A row that
lacks a loss or a violation only leaves the candidates. What is running makes the variance smaller, as in
pending.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Method, Problem
from hpobench_nmt.methods.acquisition import (
    REFERENCE_MARGIN,
    Acquisition,
    by_expected_hypervolume,
    by_expected_improvement,
)
from hpobench_nmt.methods.improvement import log_ehvi_of_all, log_ei_of_all, log_probability_below
from hpobench_nmt.methods.model_based import ModelBased, Surrogate, standard_scaling
from hpobench_nmt.methods.pending import Pending
from hpobench_nmt.methods.posterior import Posterior


def model_based(
    problem: Problem, rng: np.random.Generator, surrogate: Surrogate, acquisition: Acquisition
) -> Method:
    """The method of a surrogate and an acquisition, under constraints if the problem has any.

    Acquisitions other than EI and EHVI have no constrained form here. Their methods do not know of
    constraints: see hpobench_nmt.core.constraints.
    """
    if problem.constraints and acquisition in (by_expected_improvement, by_expected_hypervolume):
        return ConstrainedModelBased(problem, rng, surrogate)
    return ModelBased(problem, rng, surrogate, acquisition)


class ConstrainedModelBased:
    """EI or EHVI, by the number of losses, times the probability of feasibility.

    Args:
        problem: the candidates, with at least one constraint.
        rng: only used while no row has given losses.
        surrogate: the model of the losses; its prior is that of the violations too.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator, surrogate: Surrogate) -> None:
        self._rng = rng
        self._scaling = surrogate.scaling
        self._m = problem.n_objectives
        self._n_targets = problem.n_objectives + len(problem.constraints)
        # A target of constant 1 beside the others lets them be scaled anew at every step.
        self._posterior = Posterior(surrogate.prior, self._n_targets + 1, surrogate.noise_sd)
        self._seen = np.empty((max(problem.lookups, 1), self._n_targets))
        self._count = 0
        self._next: int | None = None
        self._drawn: int | None = None
        self._pending = Pending(self._posterior)

    def ask(self) -> int:
        """The unseen row of largest value."""
        if self._next is None:
            posterior = self._posterior
            if self._count == 0:
                self._next = int(self._rng.choice(posterior.rows[posterior.unseen]))
            else:
                self._next = self._best_of(posterior.unseen, posterior.var)
        return self._next

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The row of largest value that is not running."""
        if not running:
            return self.ask()
        var, _, free = self._pending.given(running)
        if not free.any():
            return None
        if self._count == 0:
            if self._drawn is None or self._drawn in running:
                self._drawn = int(self._rng.choice(self._posterior.rows[free]))
            return self._drawn
        return self._best_of(free, var)

    def tell(self, index: int, losses: Floats) -> None:
        """A method under constraints is told violations too; without them a row only leaves."""
        self._next = self._drawn = None
        self._pending.discarded(index)
        self._posterior.discard(index)

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Condition on a row, feasible or not."""
        targets = np.concatenate([losses, violations, [1.0]])
        if np.isnan(targets).any():
            self.tell(index, losses)
            return
        self._next = self._drawn = None
        if self._count == len(self._seen):
            self._seen = np.concatenate([self._seen, np.empty_like(self._seen)])
        self._seen[self._count] = targets[:-1]
        self._count += 1
        self._pending.observed(index)
        self._posterior.observe(index, targets)

    def _best_of(self, free: NDArray[np.bool_], var: Floats) -> int:
        """The row of largest value among the candidates that are free, given their variances."""
        values = np.where(free, self._values(var), -np.inf)
        best = int(values.argmax())
        if not free[best]:  # nothing is to be expected anywhere
            best = int(free.argmax())
        return int(self._posterior.rows[best])

    def _values(self, var: Floats) -> Floats:
        m, seen, posterior = self._m, self._seen[: self._count], self._posterior
        centre, spread = np.zeros(self._n_targets), np.ones(self._n_targets)
        if self._scaling is not None:
            centre[:m], spread[:m] = self._scaling(seen[:, :m])
        centre[m:], spread[m:] = standard_scaling(seen[:, m:])
        equal = (seen == seen[0]).all(axis=0)
        scaled = equal & (np.arange(self._n_targets) >= (m if self._scaling is None else 0))
        centre[scaled], spread[scaled] = seen[0, scaled], 1.0
        known = (seen - centre) / spread
        mean = (posterior.mean[:-1] - centre[:, None] * posterior.mean[-1]) / spread[:, None]
        bounds = -centre[m:] / spread[m:]
        feasible: Floats = log_probability_below(bounds, mean[m:], var)
        kept = known[is_feasible(seen[:, m:]), :m]
        if not len(kept):
            return feasible
        if m == 1:
            improvement: Floats = log_ei_of_all(mean[0], var, float(kept.min()))
            return improvement + feasible
        front = kept[pareto_front(kept)]
        front = np.ascontiguousarray(front[np.argsort(front[:, 0], kind="stable")])
        low, high = known[:, :m].min(axis=0), known[:, :m].max(axis=0)
        reference = high + REFERENCE_MARGIN * (high - low)
        gain: Floats = log_ehvi_of_all(np.ascontiguousarray(mean[:m]), var, front, reference)
        return gain + feasible
