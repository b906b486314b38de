"""ParEGO for two or more losses: EI of one randomly weighted loss at a time (Knowles 2006).

symbol   shape    meaning
F        n x m    losses observed, each scaled so that the best observed is 0 and the worst is 1
w        m        weights, drawn uniformly from the simplex at every step
y        n        max_j w_j F_j + rho sum_j w_j F_j, the augmented Tchebycheff value, rho = 0.05

The model is a Gaussian process of (y - mean of y) / sd of y, computed again for each y (any_targets.py). A
step costs O(n N + n^2), whatever the number of losses. The paper draws weights from a grid on the simplex.
Here they are continuous, so no weights occur twice. Pending rows make the variance smaller, as in pending.py.
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_contenders
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.pending import Given

RHO = 0.05


class ParEGO(AnyTargetsSearch):
    """The method, with the kernel and the noise of `BO_M`."""

    def scores(self, given: Given) -> Floats:
        """log EI for newly drawn weights."""
        losses = self.posterior.observed
        y = standardised(scalarised(losses, random_weights(losses.shape[1], self.rng)))
        return log_ei_of_contenders(self.posterior.mean(y), given.var, float(y.min()), given.free)


def random_weights(n_objectives: int, rng: np.random.Generator) -> Floats:
    """Weights of 0 or more that sum to 1, uniformly distributed, shape (m,)."""
    cuts = np.sort(rng.random(n_objectives - 1))
    return np.diff(cuts, prepend=0.0, append=1.0)


def scalarised(losses: Floats, weights: Floats) -> Floats:
    """The augmented Tchebycheff value of each row of losses, shape (n, m); a constant loss counts as 0."""
    low = losses.min(axis=0)
    spread = losses.max(axis=0) - low
    scaled = (losses - low) / np.where(spread > 0, spread, 1.0) * weights
    return np.asarray(scaled.max(axis=1) + RHO * scaled.sum(axis=1))
