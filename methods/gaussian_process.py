"""Bayesian optimisation with Gaussian processes (Zhang & Duh 2020, section 5.1), for one or more losses.

The settings reproduce the paper's Table 3: losses that are not scaled, prior mean 0, amplitude 1, length
scale 1 on features in [0, 1], noise of standard deviation 0.001. In Table 4, they match 22 to 24 of the 36 BO
cells within 3 standard errors (seeds 0 to 2), and the geometric mean over the cells.
`benchmarks/methods/paper_suites.py` counts both.

The `_std` methods standardise the losses, as practitioners do. They do not differ in anything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.problem import Method, Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_name
from hpobench_nmt.methods.acquisitions.acquisition import Acquisition, usual_acquisition
from hpobench_nmt.methods.constrained import model_based
from hpobench_nmt.methods.kernels import NOISE_SD, Kernel, check_length_scale, kernel_prior, matern52, rbf
from hpobench_nmt.methods.model_based import Surrogate, standard_scaling
from hpobench_nmt.methods.naming import method_name


@dataclass(frozen=True)
class BayesianOptimisation:
    """A BO method: call it with (problem, rng) to start a trial.

    Attributes:
        kernel: of two arrays of features, shapes (M, H) and (N, H), gives the covariances, shape (M, N).
        standardise: whether the losses seen are scaled to mean 0 and variance 1 before each step.
        acquisition: which candidate to ask for. Left out: that of `usual_acquisition`.
        name: a valid method name. Left out: made from the other settings, for example "BO_matern52_std".
        length_scale: of the kernel, on features in [0, 1].
        noise_sd: standard deviation of the observation noise, in the units of the model's targets.
    """

    kernel: Kernel
    standardise: bool = False
    acquisition: Acquisition | None = None
    name: str = ""
    length_scale: float = 1.0
    noise_sd: float = NOISE_SD

    def __post_init__(self) -> None:
        """Check the settings and the name, or make one."""
        check_length_scale(self.length_scale)
        if not 0 <= self.noise_sd < np.inf:
            raise InputError(f"noise_sd must be 0 or more, not {self.noise_sd:g}.")
        values = (("length", self.length_scale, 1.0), ("noise", self.noise_sd, NOISE_SD))
        changed = [f"{key}{value:g}" for key, value, usual in values if value != usual]
        std = "std" if self.standardise else ""
        default = method_name("BO", self.kernel, std, self.acquisition, *changed)
        object.__setattr__(self, "name", check_name("method", self.name or default))

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, problem: Problem, rng: np.random.Generator) -> Method:
        """The method at the start of a trial."""
        acquisition = self.acquisition or usual_acquisition(problem.n_objectives)
        return model_based(problem, rng, self.surrogate(problem), acquisition)

    def surrogate(self, problem: Problem) -> Surrogate:
        """The model of the losses. Its prior is shared by all trials on the problem."""
        scaling = standard_scaling if self.standardise else None
        return Surrogate(kernel_prior(problem, self.kernel, self.length_scale), self.noise_sd, scaling)


# The name for users: a call reads as a function that makes a method.
bayesian_optimisation = BayesianOptimisation


BO_M = bayesian_optimisation(matern52)
BO_R = bayesian_optimisation(rbf)
BO_M_std = bayesian_optimisation(matern52, standardise=True)
BO_R_std = bayesian_optimisation(rbf, standardise=True)
