"""Model-based optimisation under constraints: EI times the probability of feasibility (Gardner et al. 2014).

symbol   shape   meaning
y        m       losses of a row
c        q       its violations: the row is feasible where all are at most 0
mean     M       posterior means of each y_i and c_j over M candidates; they share one covariance
var      M       its posterior variance
PF       M       prod_j P(c_j <= 0), the probability that a candidate is feasible

A candidate's value is log EI + log PF, for two losses log EHVI + log PF. EI and EHVI measure the improvement
over the best loss and the front of the feasible rows seen. Until a feasible row is seen, the value is log PF
alone.

The surrogate defines how losses are modelled. Violations have units of their own, so they are standardised at
every step, and their bound becomes (0 - centre) / spread. Infeasible rows are data like all other rows. A row
that lacks a loss or a violation is only removed from the candidates. Running rows make the variance smaller,
as in pending.py.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Method, Problem
from hpobench_nmt.methods.acquisitions.acquisition import (
    Acquisition,
    by_expected_hypervolume,
    by_expected_improvement,
)
from hpobench_nmt.methods.acquisitions.improvement import (
    log_ehvi_of_all,
    log_ei_of_all,
    log_probability_below,
)
from hpobench_nmt.methods.model_based import ModelBased, Surrogate, standard_scaling
from hpobench_nmt.methods.surrogates.pending import Given


def model_based(
    problem: Problem, rng: np.random.Generator, surrogate: Surrogate, acquisition: Acquisition
) -> Method:
    """The method of a surrogate and an acquisition, under constraints if the problem has any.

    Only EI and EHVI have a constrained form. hpobench_nmt.core.constraints describes how methods with other
    acquisitions are treated.
    """
    if problem.constraints and acquisition in (by_expected_improvement, by_expected_hypervolume):
        return ConstrainedModelBased(problem, rng, surrogate, acquisition)
    return ModelBased(problem, rng, surrogate, acquisition)


class ConstrainedModelBased(ModelBased):
    """EI or EHVI, by the number of losses, times the probability of feasibility.

    Violations have the same prior as the losses. rng is only used until the first row with all losses and
    violations.
    """

    def __init__(
        self, problem: Problem, rng: np.random.Generator, surrogate: Surrogate, acquisition: Acquisition
    ) -> None:
        super().__init__(problem, rng, surrogate, acquisition, n_others=len(problem.constraints))
        self._violations: list[Floats] = []

    def tell(self, index: int, losses: Floats, feasible: bool = False) -> None:
        """Remove a row whose violations are unknown from the candidates."""
        self.learn(index, losses * np.nan)

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Condition on a row, feasible or not."""
        if np.isnan(losses).any() or np.isnan(violations).any():
            self.tell(index, losses)
            return
        self._targets[-len(violations) :] = violations
        self._violations.append(violations)
        super().tell(index, losses, feasible=bool((violations <= 0).all()))

    def scores(self, given: Given) -> Floats:
        """log EI or log EHVI, plus the logarithm of the probability of feasibility."""
        belief, m = self.belief(given), len(self._best)
        violations = np.array(self._violations)
        centre, spread = standard_scaling(violations)
        # The computed deviation of equal values is only nearly 0.
        equal = (violations == violations[0]).all(axis=0)
        centre, spread = np.where(equal, violations[0], centre), np.where(equal, 1.0, spread)
        mean = (self.posterior.mean[m + 1 :] - centre[:, None] * self.posterior.mean[m]) / spread[:, None]
        feasible = log_probability_below(-centre / spread, mean, given.var)
        if not len(belief.front):
            return feasible
        if m == 1:
            return feasible + log_ei_of_all(belief.mean[0], given.var, float(belief.front[0, 0]))
        return feasible + log_ehvi_of_all(belief.mean, given.var, belief.front, belief.reference)
