"""Thompson sampling: draw the losses of all rows at once from their joint posterior, and choose the best.

symbol   shape    meaning
K        N x N    prior covariance of the candidates
S        n        rows that were observed, y their losses, standardised
s        scalar   standard deviation of the observation noise
g        N        a draw from the prior N(0, K)
e        n        a draw of the noise N(0, s^2 I)
f        N        g + K[:,S] (K[S,S] + s^2 I)^-1 (y - g[S] - e), a draw from the posterior

This is Matheron's rule (Wilson et al. 2020, "Efficiently Sampling Functions from Gaussian Process
Posteriors", equation 12).

Each worker gets its own draw. So workers choose different rows without any assumption about pending rows
(Kandasamy et al. 2018, "Parallelised Bayesian Optimisation via Thompson Sampling").
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.kernels import NOISE_SD, matern52
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.pending import Given

# K and its Cholesky factor take 8 N^2 bytes each, and O(N^3) time.
MAX_ROWS = 5000
# Added to K's diagonal, because rows with equal features make K singular. A hundredth of the noise variance.
_JITTER = 1e-8


class ThompsonSampling(AnyTargetsSearch):
    """The method for one loss, with the kernel and the settings of `BO_EI_M_std`. O(N^2) per step."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        if len(problem.features) > MAX_ROWS:
            raise InputError(
                f"Thompson sampling supports up to {MAX_ROWS:,} rows, not {len(problem.features):,}, "
                f"because it draws from the joint posterior of all rows."
            )
        super().__init__(problem, rng)
        self._root = prior_root(problem)

    def scores(self, given: Given) -> Floats:
        """A draw of the standardised losses, negated."""
        return -self.draw()

    def draw(self) -> Floats:
        """The standardised losses of all rows, drawn from their posterior, shape (N,)."""
        y = standardised(self.posterior.observed[:, 0])
        g = self._root @ self.rng.standard_normal(len(self._root))
        e = NOISE_SD * self.rng.standard_normal(len(y))
        return np.asarray(g + self.posterior.mean(y - g[self.posterior.seen] - e))


@lru_cache(maxsize=4)
def prior_root(problem: Problem) -> Floats:
    """The Cholesky factor of the prior covariance, shape (N, N), shared by the problem's trials."""
    covariance = matern52(problem.features, problem.features)
    return np.asarray(np.linalg.cholesky(covariance + _JITTER * np.eye(len(covariance))))
