"""Graph-based methods (Zhang & Duh 2020, section 5.2): label propagation over the neighbourhood graph.

With EI and EHVI the graph is one more Gaussian prior. With expected influence (EIF) the labels are the
losses seen, scaled so that the best is 1 and the worst 0, and spread harmonically. The paper labels the best
1, and another row 1 if a random walk from the best is likelier than not to get there, else 0; how the walk
moves and ends it does not say, so that this is another choice.

Where an axis has two values far apart, no edge may cross it and the graph falls into parts. A part in which
no row has been seen is labelled 0, like the worst row seen.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hpobench_nmt.core.problem import Method, MethodFactory, Problem
from hpobench_nmt.methods.acquisition import (
    by_expected_hypervolume,
    by_expected_improvement,
    by_expected_influence,
)
from hpobench_nmt.methods.graph import (
    BETA,
    NEIGHBOURS,
    SIGMA_SQUARED,
    graph_covariance,
    graph_laplacian,
    neighbours_for,
)
from hpobench_nmt.methods.kernels import DensePrior, Kernel, matern52, rbf
from hpobench_nmt.methods.model_based import ModelBased, range_scale


@lru_cache(maxsize=8)
def graph_prior(problem: Problem, kernel: Kernel, n_neighbours: int) -> DensePrior:
    """The graph's prior over the problem's rows, shared by its trials."""
    return DensePrior(graph_covariance(graph_laplacian(problem.features, kernel, n_neighbours)))


def graph_search(kernel: Kernel) -> MethodFactory:
    """The graph's Gaussian prior with EI for one loss, EHVI for two."""

    def make(problem: Problem, rng: np.random.Generator) -> Method:
        return ModelBased(
            problem,
            rng,
            prior=graph_prior(problem, kernel, neighbours_for(len(problem.features))),
            acquisition=by_expected_improvement if problem.n_objectives == 1 else by_expected_hypervolume,
        )

    return make


def influence_search(kernel: Kernel) -> MethodFactory:
    """Harmonic labels with expected influence, for one loss."""

    def make(problem: Problem, rng: np.random.Generator) -> Method:
        return ModelBased(
            problem,
            rng,
            prior=graph_prior(problem, kernel, NEIGHBOURS),
            acquisition=by_expected_influence,
            scale=range_scale,
            # Lap has rows that sum to 0, so K's rows sum to sigma^2 / (2 beta).
            row_sums=np.full(len(problem.features), SIGMA_SQUARED / (2.0 * BETA)),
        )

    return make


GB_M = graph_search(matern52)
GB_R = graph_search(rbf)
GB_EIF_M = influence_search(matern52)
GB_EIF_R = influence_search(rbf)
