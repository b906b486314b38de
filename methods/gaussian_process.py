"""Bayesian optimisation with Gaussian processes (Zhang & Duh 2020, section 5.1), for one and two losses.

The settings that reproduce the paper's Tables 3 and 4: the losses as they are, prior mean 0, amplitude 1,
length scale 1 on features in [0, 1], noise of standard deviation 0.001. The `_std` methods differ in one
point, which a practitioner would not leave out: they standardise the losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.problem import Method, MethodFactory, Problem
from hpobench_nmt.methods.acquisition import (
    Acquisition,
    by_expected_hypervolume,
    by_expected_improvement,
)
from hpobench_nmt.methods.kernels import Kernel, KernelPrior, matern52, rbf
from hpobench_nmt.methods.model_based import ModelBased, standard_scale

NOISE_SD = 1e-3
_ACQUISITIONS: Mapping[int, Acquisition] = {1: by_expected_improvement, 2: by_expected_hypervolume}


@lru_cache(maxsize=8)
def kernel_prior(problem: Problem, kernel: Kernel) -> KernelPrior:
    """The kernel's prior over the problem's rows, shared by its trials."""
    return KernelPrior(kernel, problem.features)


def bayesian_optimisation(
    kernel: Kernel, standardise: bool = False, acquisition: Acquisition | None = None
) -> MethodFactory:
    """A BO method.

    Args:
        kernel: of two arrays of features, shapes (M, H) and (N, H), gives the covariances, shape (M, N).
        standardise: whether the losses seen are scaled to mean 0 and variance 1 before each step.
        acquisition: which candidate to ask for; left out: EI for one loss, EHVI for two.
    """

    def make(problem: Problem, rng: np.random.Generator) -> Method:
        return ModelBased(
            problem,
            rng,
            prior=kernel_prior(problem, kernel),
            acquisition=acquisition or _ACQUISITIONS[problem.n_objectives],
            noise_sd=NOISE_SD,
            scale=standard_scale if standardise else None,
        )

    return make


BO_M = bayesian_optimisation(matern52)
BO_R = bayesian_optimisation(rbf)
BO_M_std = bayesian_optimisation(matern52, standardise=True)
BO_R_std = bayesian_optimisation(rbf, standardise=True)
