"""Expected improvement per expected cost (Snoek et al. 2012, "Practical Bayesian Optimization", section 3.2).

symbol   meaning
y        losses of the rows that ended, standardised
c        logarithms of the costs of their trainings, minus their mean a
EI       expected improvement of a row over the best loss, from the posterior of y
C        expected cost of a row, exp(a + mean + b^2 var / 2), from the posterior of c; b is the deviation of c

The row with the largest log EI - log C is next. Two Gaussian processes, of y and of c / b, share the kernel
of `BO_EI_M_std`, and so they share the variance. Pending rows make the variance smaller for EI, as in
pending.py. Without costs, all rows cost the same, and the method is `BO_EI_M_std`.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Progress
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_all
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.pending import Given


class ImprovementPerCost(AnyTargetsSearch):
    """The method, for one loss. A step takes O(n N) for n observed rows."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng, n_targets=2)

    def observe(self, progress: Progress) -> None:
        """Learn the loss and the cost of a row whose training has ended."""
        self.learn(progress.row, np.array([progress.best[0], progress.costs[-1]]))

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the loss of a row, with the same cost for all rows."""
        self.learn(index, np.array([losses[0], 1.0]))

    def scores(self, given: Given) -> Floats:
        """log EI minus the logarithm of the expected cost."""
        y = standardised(self.posterior.observed[:, 0])
        return log_ei_of_all(self.posterior.mean(y), given.var, float(y.min())) - self._log_cost()

    def _log_cost(self) -> Floats:
        costs = self.posterior.observed[:, 1]
        if not costs.any():
            return np.zeros(len(self.posterior.var))
        # A training may cost 0, which does not have a logarithm: it counts with the smallest positive cost.
        logs = np.log(np.maximum(costs, costs[costs > 0].min()))
        spread = logs.std()
        mean = logs.mean() + spread * self.posterior.mean(standardised(logs))
        return np.asarray(mean + 0.5 * spread**2 * self.posterior.var)
