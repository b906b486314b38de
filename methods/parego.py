"""ParEGO for two and more losses: EI of one randomly weighted loss at a time (Knowles 2006).

symbol   shape    meaning
F        n x m    losses seen, each scaled so that the best seen is 0 and the worst 1
w        m        weights, drawn uniformly from the simplex at every step
y        n        max_j w_j F_j + rho sum_j w_j F_j, the augmented Tchebycheff value, rho = 0.05
K        N x N    prior covariance of the candidates
L        n x n    Cholesky factor of K[S,S] + s^2 I
V        n x N    L^-1 K[S,:]
mean     N        V' L^-1 (y - mean of y) / sd of y
var      N        diag K - column sums of V^2

V and var do not depend on y. They grow by a row at every step, as in `methods/posterior.py`, and the mean is
made anew from them for each y: a step costs O(n N + n^2), whatever the number of losses. The paper draws
weights from a grid on the simplex; on a continuum none comes twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.compiled import compiled
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.gaussian_process import NOISE_SD, kernel_prior
from hpobench_nmt.methods.improvement import log_ei_of_contenders
from hpobench_nmt.methods.kernels import matern52

Floats = NDArray[np.float64]

RHO = 0.05
# A conditional variance below this share of the prior's is rounding error.
_VARIANCE_FLOOR = 1e-12
_BLOCK_ROWS = 64


class ParEGO:
    """The method, with a Matern-5/2 kernel and the settings of `BO_M`."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._rng = rng
        self._prior = kernel_prior(problem, matern52)
        n_rows = len(problem.features)
        self._unseen = np.ones(n_rows, dtype=bool)
        self._var = self._prior.diagonal.copy()
        self._whitened_rows = np.empty((_BLOCK_ROWS, n_rows))
        self._factor = np.empty((_BLOCK_ROWS, _BLOCK_ROWS))
        self._losses = np.empty((_BLOCK_ROWS, problem.n_objectives))
        self._count = 0
        self._next: int | None = None

    def ask(self) -> int:
        """The unseen row of largest expected improvement for weights that are drawn now."""
        if self._next is None:
            if self._count == 0:
                self._next = int(self._rng.choice(np.flatnonzero(self._unseen)))
            else:
                y = scalarised(self._losses[: self._count], random_weights(self._losses.shape[1], self._rng))
                mean = _mean(self._factor, self._whitened_rows, standardised(y))
                score = log_ei_of_contenders(mean, self._var, float(standardised(y).min()), self._unseen)
                self._next = int(np.where(self._unseen, score, -np.inf).argmax())
                if not self._unseen[self._next]:  # no improvement is to be expected anywhere
                    self._next = int(self._unseen.argmax())
        return self._next

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the losses of a row; a row that lacks one only leaves the candidates."""
        self._next = None
        self._unseen[index] = False
        if np.isnan(losses).any():
            return
        n = self._count
        if n == len(self._losses):
            self._grow()
        row = self._prior.row(index)
        if _append(self._factor, self._whitened_rows, self._var, n, row, index, NOISE_SD * NOISE_SD):
            self._losses[n] = losses
            self._count += 1

    def _grow(self) -> None:
        n, n_rows = self._whitened_rows.shape
        self._whitened_rows = np.concatenate([self._whitened_rows, np.empty((n, n_rows))])
        self._losses = np.concatenate([self._losses, np.empty_like(self._losses)])
        factor = np.empty((2 * n, 2 * n))
        factor[:n, :n] = self._factor
        self._factor = factor


def random_weights(n_objectives: int, rng: np.random.Generator) -> Floats:
    """Weights of 0 or more that sum to 1, uniformly distributed, shape (m,)."""
    cuts = np.sort(rng.random(n_objectives - 1))
    return np.diff(cuts, prepend=0.0, append=1.0)


def scalarised(losses: Floats, weights: Floats) -> Floats:
    """The augmented Tchebycheff value of each row of losses, shape (n, m); the least is the best.

    A loss that is the same in all rows counts as 0.
    """
    low = losses.min(axis=0)
    spread = losses.max(axis=0) - low
    scaled = (losses - low) / np.where(spread > 0, spread, 1.0) * weights
    return np.asarray(scaled.max(axis=1) + RHO * scaled.sum(axis=1))


def standardised(values: Floats) -> Floats:
    """The values less their mean, over their standard deviation; zeros where all are equal."""
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


@compiled()
def _append(
    factor: Floats, whitened_rows: Floats, var: Floats, n: int, row: Floats, index: int, noise: float
) -> bool:
    """Condition on row `index` as the n-th; False where it was determined by those before."""
    pivot = row[index] + noise
    for j in range(n):
        factor[n, j] = whitened_rows[j, index]
        pivot -= factor[n, j] * factor[n, j]
    if pivot <= row[index] * _VARIANCE_FLOOR:
        return False
    d = np.sqrt(pivot)
    factor[n, n] = d
    new = whitened_rows[n]
    new[:] = row
    for j in range(n):
        share, earlier = factor[n, j], whitened_rows[j]
        for i in range(new.shape[0]):
            new[i] -= share * earlier[i]
    for i in range(new.shape[0]):
        new[i] /= d
        var[i] = max(var[i] - new[i] * new[i], 0.0)
    return True


@compiled()
def _mean(factor: Floats, whitened_rows: Floats, targets: Floats) -> Floats:
    """The posterior mean of every row for these targets of the rows seen, shape (N,)."""
    n = targets.shape[0]
    z = np.empty(n)
    mean = np.zeros(whitened_rows.shape[1])
    for k in range(n):
        value = targets[k]
        for j in range(k):
            value -= factor[k, j] * z[j]
        z[k] = value / factor[k, k]
        row = whitened_rows[k]
        for i in range(mean.shape[0]):
            mean[i] += z[k] * row[i]
    return mean
