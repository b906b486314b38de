"""Graph-based methods (Zhang & Duh 2020, section 5.2): label propagation over the neighbourhood graph.

With EI and EHVI the graph is one more Gaussian prior. With expected influence (EIF) the labels are the
losses seen, scaled so that the best is 1 and the worst 0, and spread harmonically.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hpobench_nmt.methods.acquisition import (
    Acquisition,
    by_expected_hypervolume,
    by_expected_improvement,
    by_expected_influence,
)
from hpobench_nmt.methods.graph import (
    BETA,
    SIGMA_SQUARED,
    default_neighbours,
    graph_covariance,
    graph_laplacian,
)
from hpobench_nmt.methods.kernels import DensePrior, Kernel, matern52, rbf
from hpobench_nmt.methods.model_based import ModelBased
from hpobench_nmt.problem import Method, MethodFactory, Problem


@lru_cache(maxsize=8)
def graph_prior(problem: Problem, kernel: Kernel) -> DensePrior:
    """The graph's prior over the problem's rows, shared by its trials."""
    laplacian = graph_laplacian(problem.features, kernel, default_neighbours(len(problem.features)))
    return DensePrior(graph_covariance(laplacian))


def graph_based(kernel: Kernel, single: Acquisition = by_expected_improvement) -> MethodFactory:
    """Graph-based search with the given acquisition for one loss, EHVI for two."""

    def make(problem: Problem, rng: np.random.Generator) -> Method:
        # Lap has rows that sum to 0, so K's rows sum to sigma^2 / (2 beta).
        row_sums = np.full(len(problem.features), SIGMA_SQUARED / (2.0 * BETA))
        return ModelBased(
            problem,
            rng,
            prior=graph_prior(problem, kernel),
            acquisition=single if problem.n_objectives == 1 else by_expected_hypervolume,
            row_sums=row_sums if single is by_expected_influence else None,
        )

    return make


GB_M = graph_based(matern52)
GB_R = graph_based(rbf)
GB_EIF_M = graph_based(matern52, by_expected_influence)
GB_EIF_R = graph_based(rbf, by_expected_influence)
