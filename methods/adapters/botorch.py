"""BoTorch's Gaussian process with logEI or logEHVI (Balandat et al. 2020, Ament et al. 2023).

Translated: nothing is moved. Each loss has a `SingleTaskGP` with BoTorch's default kernel and priors. At
every step it is fitted to the features and standardised losses of all rows observed, starting from the last
fit. `optimize_acqf_discrete` chooses the best of the rows that are left. Rows with a failed training are left
out of the fit. The reference point of logEHVI is BoTorch's own, from the Pareto front so far.

Lost: as long as fewer than two losses are known, or all are equal, nothing can be fitted, and the next row is
random. BoTorch has a kernel for categories; here categories are features, as in our own methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.multi_objective import logei
from botorch.acquisition.multi_objective.logei import qLogExpectedHypervolumeImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf_discrete
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective.box_decompositions import FastNondominatedPartitioning
from botorch.utils.multi_objective.hypervolume import infer_reference_point
from botorch.utils.multi_objective.pareto import is_non_dominated
from gpytorch.mlls import ExactMarginalLogLikelihood

from hpobench_nmt.methods.adapters.common import Adapter, has_failed
from hpobench_nmt.methods.any_targets import standardised

SAMPLES = 128
"""The number of samples of the posterior, for logEHVI."""

TOLERANCE = 1e-6
"""A fit ends when a step improves the likelihood by less than this share."""

# Otherwise, BoTorch compiles a part of logEHVI for this processor if it finds a compiler. Then the last bits
# depend on the machine, and if a run is killed while it compiles, all later runs wait for it without end.
logei._load_attempted = True


class _BoTorch(Adapter):
    """Fits the model and ranks the rows that are left."""

    logger = "botorch"

    def start(self) -> None:
        """Nothing is fitted yet."""
        self.fits: list[Any] = [None] * self.problem.n_objectives

    def propose(self) -> int:
        """The row with the best acquisition value; the first of equal rows."""
        rows_left = self.rows_left()
        known = [row for row, losses in self.told.items() if not has_failed(losses)]
        values = -np.array([self.told[row] for row in known]).reshape(-1, self.problem.n_objectives)
        if len(known) < 2 or (np.ptp(values, axis=0) == 0).all():
            return int(self.rng.choice(rows_left))
        values = standardised(values)
        features = torch.from_numpy(self.problem.features.copy())
        choices = features[rows_left]
        with _own_torch(self.seed()):
            y = torch.from_numpy(values)
            models = [self.fitted(j, features[known], y[:, j : j + 1]) for j in range(y.shape[1])]
            model = models[0] if len(models) == 1 else ModelListGP(*models)
            best, _ = optimize_acqf_discrete(self.acquisition(model, y), 1, choices)
        return int(rows_left[int((choices == best).all(dim=1).to(torch.int8).argmax())])

    def fitted(self, j: int, x: Any, y: Any) -> Any:
        """The model of one loss, for y of shape (n, 1)."""
        model = SingleTaskGP(x, y, outcome_transform=None)
        if self.fits[j] is not None:
            model.load_state_dict(self.fits[j])
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        # With BoTorch's own tolerance of 2e-9, a step takes three times as long.
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"ftol": TOLERANCE}})
        self.fits[j] = model.state_dict()
        return model

    def acquisition(self, model: Any, y: Any) -> Any:
        """The function that ranks the rows, to be maximised, for a model fitted to y, shape (n, m)."""
        raise NotImplementedError


class LogEI(_BoTorch):
    """Logarithm of the expected improvement."""

    def acquisition(self, model: Any, y: Any) -> Any:
        """Over the best value so far."""
        return LogExpectedImprovement(model, best_f=y.max())


class LogEHVI(_BoTorch):
    """Logarithm of the expected hypervolume improvement, by quasi-random samples of the posterior."""

    def acquisition(self, model: Any, y: Any) -> Any:
        """Over the Pareto front so far."""
        reference = infer_reference_point(y[is_non_dominated(y)])
        sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=self.seed())
        return qLogExpectedHypervolumeImprovement(
            model, reference, FastNondominatedPartitioning(reference, y), sampler
        )


@contextmanager
def _own_torch(seed: int) -> Iterator[None]:
    """Within the context, one thread, so that sums run in a fixed order, and a separate seed."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
