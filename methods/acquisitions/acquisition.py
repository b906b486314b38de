"""Acquisition functions: how promising is each candidate?

An acquisition is a plain function of a `Belief` that gives every candidate a value; the largest wins. The
numerics of expected improvement, of one loss and of two, are in `improvement.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.acquisitions.belief import Belief as Belief  # methods of users import it from here
from hpobench_nmt.methods.acquisitions.improvement import log_ehvi_of_contenders, log_ei_of_contenders
from hpobench_nmt.methods.acquisitions.optimistic_hypervolume import by_optimistic_hypervolume

Acquisition = Callable[[Belief], Floats]
"""The value of asking for each candidate, shape (M,); the largest wins, the first row among equals."""


def by_expected_improvement(belief: Belief) -> Floats:
    """log EI of one loss."""
    return log_ei_of_contenders(belief.mean[0], belief.var, float(belief.best[0]), belief.unseen)


def by_expected_influence(belief: Belief) -> Floats:
    """EIF of one loss. The mean, scaled from 0 at the worst loss seen to 1 at the best, gives the labels."""
    if belief.row_sums is None:
        raise ValueError("expected influence needs a prior that gives its row sums.")
    labels = _labels(belief.mean[0], float(belief.best[0]), float(belief.worst[0]))
    return expected_influence(labels, belief.var, belief.row_sums, belief.unseen)


def by_expected_hypervolume(belief: Belief) -> Floats:
    """log EHVI of two losses. The reference point lies slightly beyond the worst losses seen."""
    if len(belief.worst) != 2:
        raise ValueError(f"EHVI is for two objectives here, not {len(belief.worst)}.")
    sd = np.empty_like(belief.mean)
    sd[:] = np.sqrt(belief.var)
    return log_ehvi_of_contenders(belief.mean, sd, belief.front, belief.reference, belief.unseen)


def usual_acquisition(n_objectives: int) -> Acquisition:
    """EI for one loss, EHVI for two, the hypervolume of an optimistic guess for more."""
    if n_objectives < 1:
        raise ValueError(f"there is no acquisition for {n_objectives} objectives.")
    if n_objectives > 2:
        return by_optimistic_hypervolume
    return by_expected_improvement if n_objectives == 1 else by_expected_hypervolume


@compiled()
def _labels(mean: Floats, best: float, worst: float) -> Floats:
    """Posterior mean from 1 at the best loss seen to 0 at the worst, shape (M,); 1/2 where these are equal.

    The prior's variance is large but finite, so labels are harmonic to about six digits. They are rounded to
    six digits: otherwise, where all rows are certain to be good, or certain to be bad, rounding errors would
    rank rows of equal value.
    """
    if not worst > best:
        return np.full(mean.shape[0], 0.5)
    labels = np.empty(mean.shape[0])
    for i in range(mean.shape[0]):
        label = min(max((worst - mean[i]) / (worst - best), 0.0), 1.0)
        labels[i] = np.rint(label * 1e6) / 1e6
    return labels


@compiled(error_model="numpy")
def expected_influence(labels: Floats, variance: Floats, row_sums: Floats, unseen: Bools) -> Floats:
    """Expected influence of asking for each candidate (Zhang & Duh 2020, section 5.2.2), shape (M,).

    Candidate k turns out good (label 1) with probability f_k, and bad (label 0) otherwise. Its value is an
    expectation over these two futures, after the labels have spread again: the total label of the unseen rows
    in the good future, and their total distance from 1 in the bad future. With G the posterior covariance of
    the harmonic labels, the future labels are f + (y - f_k) G[:,k] / G[k,k], so neither future needs a
    propagation:

        S_k = sum_i G[i,k] / G[k,k],   F = sum_i f_i,   n = number unseen
        EIF(k) = f_k (F + (1 - f_k) S_k) + (1 - f_k) (n - F + f_k S_k)

    The labels f (1 is best), the variance G[k,k] and the row sums of G have shape (M,). F, n and all sums run
    over the unseen rows. Seen rows have the value -inf.
    """
    total = 0.0
    count = 0
    for i in range(labels.shape[0]):
        if unseen[i]:
            total += labels[i]
            count += 1
    result = np.empty(labels.shape[0])
    for k in range(labels.shape[0]):
        if not unseen[k]:
            result[k] = -np.inf
            continue
        f = labels[k]
        spread = row_sums[k] / variance[k] if variance[k] > 0.0 else 1.0
        result[k] = f * (total + (1.0 - f) * spread) + (1.0 - f) * (count - total + f * spread)
    return result
