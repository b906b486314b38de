"""How well a surrogate predicts the rows that it has not seen (Zhang & Duh 2020, Figure 6, right).

The look-ups of a trial are replayed into the surrogate. One Cholesky factor gives all its states, because the
factor for the first j rows is the leading j x j part of the factor for all rows:

    symbol   shape    meaning
    S        n        the looked-up rows that have losses, in order
    L        n x n    Cholesky factor of K[S,S] + s^2 I
    z        n        L^-1 y_S
    A        n x n    row j: sum of z_i (L^-1)_i over i <= j, the weights of the seen rows after j look-ups
    mean     n x N    A K[S,:], row j: the posterior mean after j look-ups

A trial takes O(n^2 N) in one matrix product, many times faster than one look-up at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.methods.model_based import LossScaling, Surrogate
from hpobench_nmt.methods.surrogates.posterior import VARIANCE_FLOOR


def squared_errors(
    surrogate: Surrogate, trials: Sequence[Trajectory], truth: Floats, lookups: Rows
) -> Floats:
    """Mean squared error over the unseen rows after some look-ups, in squared units of each loss.

    The look-ups of the trials are replayed into the surrogate, which does not learn from a row with a NaN.
    `truth` has the losses of the whole table, shape (N, m), NaN where a row is left out. `lookups`, shape
    (k,), ascend from 1 or more. Errors have shape (trials, k, m). They are NaN if a trial made fewer
    look-ups, or if no row was left to predict. Before the first loss, the prediction is 0, or unknown (NaN)
    if losses are scaled.
    """
    errors = np.full((len(trials), len(lookups), truth.shape[1]), np.nan)
    # Allocated once, because new memory of this size takes longer than the computation in it.
    covariances = np.empty((max(lookups, default=0), len(truth)))
    off = np.empty((len(lookups), len(truth)))
    for found, trial in zip(errors, trials, strict=True):
        steps = lookups[lookups <= len(trial.rows)]
        if len(steps):
            rows, losses = trial.candidates[: steps[-1]], trial.losses[: steps[-1]]
            _replay(surrogate, rows, losses, truth, steps, covariances, off[: len(steps)], found)
    return errors


def _replay(
    surrogate: Surrogate,
    rows: Rows,
    losses: Floats,
    truth: Floats,
    steps: Rows,
    covariances: Floats,
    off: Floats,
    errors: Floats,
) -> None:
    """Write one trial's errors to the first rows of `errors`; `covariances` and `off` are work space."""
    learned = np.flatnonzero(~np.isnan(losses).any(axis=1))
    seen = rows[learned]
    for line, row in zip(covariances, seen.tolist(), strict=False):
        line[:] = surrogate.prior.row(row)
    known_part = covariances[: len(seen)]
    inverse = np.empty((0, 0))
    if len(seen):
        inverse = _inverse_factor(known_part[:, seen], surrogate.noise_sd**2)
    # The number of learned rows after each number of look-ups; state 0 is the prior.
    state = np.searchsorted(learned, steps, side="left")
    seen_by_then = np.arange(len(rows)) < steps[:, None]
    states, at = np.unique(state, return_inverse=True)
    centres = _centres(surrogate.scaling, losses[learned], states)
    for j in range(truth.shape[1]):
        weights = _weights(inverse, losses[learned, j], states, centres[:, j])
        unknown = np.isnan(truth[:, j])
        np.matmul(weights[at], known_part, out=off)
        off += centres[at, j, None]
        off -= truth[:, j]
        off[:, unknown] = 0.0
        # The sum over all rows, minus that over the rows seen so far.
        total = np.einsum("ij,ij->i", off, off) - (off[:, rows] ** 2 * seen_by_then).sum(axis=1)
        unseen = (~unknown).sum() - np.cumsum(~unknown[rows])[steps - 1]
        error = np.where(unseen > 0, np.maximum(total, 0.0) / np.maximum(unseen, 1), np.nan)
        errors[: len(steps), j] = error


def _inverse_factor(covariance: Floats, noise: float) -> Floats:
    """L^-1, shape (n, n), with lines of 0 for rows that earlier rows determine (see posterior.py)."""
    n, variance = len(covariance), covariance.diagonal()
    prior = covariance + noise * np.eye(n)
    try:
        factor = cholesky(prior, lower=True, check_finite=False)
        if (factor.diagonal() ** 2 > variance * VARIANCE_FLOOR).all():
            return np.asarray(solve_triangular(factor, np.eye(n), lower=True, check_finite=False))
    except LinAlgError:
        pass
    inverse = np.zeros((n, n))
    for i in range(n):
        share = inverse[:i, :i] @ prior[:i, i]
        pivot = prior[i, i] - share @ share
        if pivot > variance[i] * VARIANCE_FLOOR:
            d = np.sqrt(pivot)
            inverse[i, :i] = -(share @ inverse[:i, :i]) / d
            inverse[i, i] = 1.0 / d
    return inverse


def _centres(scaling: LossScaling | None, losses: Floats, states: Rows) -> Floats:
    """The prior mean after each number of losses, (states, m): 0, or the scaling's centre."""
    centres = np.zeros((len(states), losses.shape[1]))
    if scaling is not None:
        for centre, n in zip(centres, states.tolist(), strict=True):
            centre[:] = scaling(losses[:n])[0] if n else np.nan
    return centres


def _weights(inverse: Floats, targets: Floats, states: Rows, centres: Floats) -> Floats:
    """The weights of the seen rows in the predictions after some numbers of rows, shape (states, n).

    Scaling is linear. A predicted loss is its centre, plus the unscaled prediction of the loss, minus the
    centre times the prediction of a constant 1. The spread cancels.
    """
    n = len(targets)
    weights, of_ones = np.zeros((n + 1, n)), np.zeros((n + 1, n))
    np.cumsum((inverse @ targets)[:, None] * inverse, axis=0, out=weights[1:])
    if not centres.any():
        return weights[states]
    np.cumsum(inverse.sum(axis=1)[:, None] * inverse, axis=0, out=of_ones[1:])
    return np.asarray(weights[states] - centres[:, None] * of_ones[states])
