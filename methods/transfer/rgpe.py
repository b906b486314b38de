"""Ranking-weighted Gaussian process ensemble, RGPE, for one or two losses (Feurer et al. 2018, "Scalable
Meta-Learning for Bayesian Optimization"). It starts with a portfolio: rows that were good on other tables.

symbol     shape    meaning
n, N       scalars  number of observed rows, and of all rows
y          n        observed losses, standardised
f_i        n        a draw from the posterior of transfer table i at these rows (transfer_models.py)
f_0        n        a draw of each observed loss given all others, by the model of the problem itself
l_i        scalar   pairs j, k that f_i ranks otherwise than y does: (f_i[j] < f_i[k]) xor (y[j] < y[k]);
                    f_0[j] is compared with y[k]
w_i        scalar   share of 256 draws in which l_i is the smallest. In a tie that includes the problem's own
                    model, this model gets the whole draw; in other ties, the models share it equally
mean, var  N        sums over the models of w_i mean_i and of w_i^2 var_i

A table whose median l_i is above the 95th percentile of l_0 has weight 0, so that many poor tables do not
outweigh the problem's own model. With two losses, each loss has its own weights. Without transfer tables this
method is `BO_M_std`.

The draws of a table are extended as rows are observed, so a step takes O(S n (n + D)) for S tables of D rows.
The draws of f_0 are made again at every step, in O(n^3).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.acquisitions.acquisition import Belief, by_expected_hypervolume
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_contenders
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.cholesky import solve
from hpobench_nmt.methods.surrogates.pending import Given
from hpobench_nmt.methods.transfer.transfer_models import TransferModel, portfolio, transfer_models

DRAWS = 256
PORTFOLIO = 5
# Before this many rows are observed, ranks are not informative, and all models have the same weight.
STARTUP = 3
_JITTER = 1e-9


class PortfolioBO(AnyTargetsSearch):
    """`BO_M_std` that starts with the portfolio of other tables. It does not use these tables otherwise."""

    def __init__(self, problem: Problem, rng: np.random.Generator, portfolio_rows: int = PORTFOLIO) -> None:
        if problem.n_objectives > 2:
            raise InputError(f"this method supports 1 or 2 objectives, not {problem.n_objectives}.")
        super().__init__(problem, rng)
        self._start = portfolio(problem, portfolio_rows)

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The next row of the portfolio; after the portfolio, the row with the largest acquisition value."""
        for row in self._start:
            if self.posterior.unseen[row] and row not in running:
                return row
        return super().suggest(running)

    def scores(self, given: Given) -> Floats:
        """log EI of one loss, log EHVI of two losses."""
        y = np.array([standardised(loss) for loss in self.posterior.observed.T])
        mean, var = self.belief(y, given.var)
        if len(y) == 1:
            return log_ei_of_contenders(mean[0], var[0], float(y.min()), given.free)
        front = np.unique(y.T[pareto_front(y.T)], axis=0)
        belief = Belief(mean, var, given.free, front, y.min(axis=1), y.max(axis=1), None)
        return by_expected_hypervolume(belief)

    def belief(self, y: Floats, var: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each loss, (m, N), from losses y, (m, n), and their shared variance, (N,)."""
        return np.array([self.posterior.mean(loss) for loss in y]), np.tile(var, (len(y), 1))


class RGPE(PortfolioBO):
    """The method. See the top of this file."""

    def __init__(self, problem: Problem, rng: np.random.Generator, portfolio_rows: int = PORTFOLIO) -> None:
        super().__init__(problem, rng, portfolio_rows)
        self._models = transfer_models(problem)
        self._draws = [[RankedDraws(m, t, rng) for m in self._models] for t in range(problem.n_objectives)]

    def learn(self, row: int, targets: Floats) -> bool:
        """Condition the problem's own model, and extend the draws of the other models."""
        learned = super().learn(row, targets)
        if learned:
            for loss, draws_of_loss in zip(targets.tolist(), self._draws, strict=True):
                for draws in draws_of_loss:
                    draws.observe(row, loss)
        return learned

    def belief(self, y: Floats, var: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the ensemble."""
        mean, variances = super().belief(y, var)
        for t, loss in enumerate(y):
            own, *others = self.weights(t, loss)
            mean[t] *= own
            variances[t] *= own**2
            for weight, model in zip(others, self._models, strict=True):
                mean[t] += weight * model.mean[t]
                variances[t] += weight**2 * model.var
        return mean, variances

    def weights(self, loss: int, y: Floats) -> Floats:
        """Weights of the problem's own model and of each table's model for a loss, shape (1 + S,)."""
        count = 1 + len(self._models)
        if len(y) < STARTUP or count == 1:
            return np.full(count, 1.0 / count)
        mean, var = self.posterior.left_out(y)
        draws = mean + np.sqrt(var) * self.rng.standard_normal((DRAWS, len(y)))
        wrong = [own_misranked(draws, y), *(d.misranked for d in self._draws[loss])]
        return ensemble_weights(np.array(wrong))


class RankedDraws:
    """Draws from a transfer table's posterior at the observed rows, and the misranked pairs of each draw."""

    def __init__(self, model: TransferModel, loss: int, rng: np.random.Generator) -> None:
        self._model, self._loss, self._rng = model, loss, rng
        self._rows: list[int] = []
        self._factor = np.empty((0, 0))  # Cholesky factor of the rows' covariance by the table
        self._normals = np.empty((DRAWS, 0))
        self._values = np.empty((DRAWS, 0))
        self._losses: list[float] = []
        self.misranked: NDArray[np.int64] = np.zeros(DRAWS, dtype=np.int64)

    def observe(self, row: int, loss: float) -> None:
        """One more row. O(n^2 + n D) for n rows and D rows of the table."""
        n = len(self._rows)
        covariance = self._model.covariance(row, np.array([*self._rows, row], dtype=np.int64))
        share = np.empty(n)
        solve(self._factor, covariance[:n], share)
        # The variance left for a row with the same features as an earlier row is 0, or less by rounding.
        rest = np.sqrt(max(covariance[n] - (share**2).sum(), _JITTER))
        factor = np.zeros((n + 1, n + 1))
        factor[:n, :n], factor[n, :n], factor[n, n] = self._factor, share, rest
        normals = self._rng.standard_normal(DRAWS)
        values = self._model.mean[self._loss, row] + (self._normals * share).sum(axis=1) + rest * normals
        before = np.array(self._losses)
        for f, f_k, y, y_k in (
            (values[:, None], self._values, loss, before),
            (self._values, values[:, None], before, loss),
        ):
            self.misranked = self.misranked + ((f < f_k) ^ (y < y_k)).sum(axis=1)
        self._factor = factor
        self._normals = np.column_stack([self._normals, normals])
        self._values = np.column_stack([self._values, values])
        self._rows.append(row)
        self._losses.append(loss)


def own_misranked(draws: Floats, y: Floats) -> NDArray[np.int64]:
    """The number of pairs that each draw of f_0, (D, n), ranks differently from y, shape (D,)."""
    ordered = np.sort(y)
    above = len(y) - np.searchsorted(ordered, draws, side="right")
    truly = len(y) - np.searchsorted(ordered, y, side="right")
    # A draw below its own loss counts that loss as above it, but a row is not paired with itself.
    return np.asarray((np.abs(above - truly) - (draws < y)).sum(axis=1))


def ensemble_weights(misranked: NDArray[np.int64]) -> Floats:
    """The weights, (1 + S,), from the misranked pairs of each draw, (1 + S, D), the own model first."""
    poor = np.median(misranked, axis=1) > np.percentile(misranked[0], 95)
    poor[0] = False
    counted = np.where(poor[:, None], np.inf, misranked)
    best = counted == counted.min(axis=0)
    best[1:, best[0]] = False
    return np.asarray((best / best.sum(axis=0)).mean(axis=1))
