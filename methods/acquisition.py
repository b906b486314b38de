"""Acquisition functions: how promising is each candidate? Plain functions of arrays, all candidates at once.

Losses are minimised throughout, so "improvement" is below the best loss, and the front is that of
the smallest losses.

    symbol   meaning
    h(u)     u Phi(u) + phi(u): expected improvement of a unit normal whose mean lies u above the threshold
    phi      standard normal density;  Phi its distribution function
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Belief:
    """What an acquisition function may use. M candidates, m losses; all losses in the same units.

    Attributes:
        mean: posterior mean of each loss, shape (m, M).
        var: posterior variance, shared by the losses, shape (M,).
        unseen: False for candidates that were seen, whose scores will be ignored, shape (M,).
        front: Pareto front of the losses seen, sorted by the first, shape (J, m).
        best, worst: smallest and largest of each loss seen, shape (m,).
        row_sums: sums of the posterior covariance's rows over the unseen candidates, shape (M,), for priors
            that give them.
    """

    mean: Floats
    var: Floats
    unseen: NDArray[np.bool_]
    front: Floats
    best: Floats
    worst: Floats
    row_sums: Floats | None


Acquisition = Callable[[Belief], Floats]
"""The value of asking for each candidate, shape (M,); the largest wins, the first row among equals."""

# The reference point of EHVI lies this share of the range seen beyond the worst losses seen.
_REFERENCE_MARGIN = 0.1


def by_expected_improvement(belief: Belief) -> Floats:
    """EI of one loss, as its logarithm."""
    sd = np.sqrt(belief.var)
    values: Floats = log_ei_of_contenders(belief.mean[0], sd, float(belief.best[0]), belief.unseen)
    return values


def by_expected_influence(belief: Belief) -> Floats:
    """EIF of one loss, whose harmonic labels are scaled from 0, the worst loss seen, to 1, the best."""
    if belief.row_sums is None:
        raise ValueError("expected influence needs a prior that gives its row sums.")
    best, worst = belief.best[0], belief.worst[0]
    if worst > best:
        labels = np.clip((worst - belief.mean[0]) / (worst - best), 0.0, 1.0)
    else:
        labels = np.full(len(belief.var), 0.5)
    values: Floats = expected_influence(labels, belief.var, belief.row_sums, belief.unseen)
    return values


def by_expected_hypervolume(belief: Belief) -> Floats:
    """EHVI of two losses, as its logarithm, up to a little beyond the worst losses seen."""
    if len(belief.worst) != 2:
        raise ValueError(f"EHVI is for two objectives here, not {len(belief.worst)}.")
    reference = belief.worst + _REFERENCE_MARGIN * (belief.worst - belief.best)
    sd = np.empty_like(belief.mean)
    sd[:] = np.sqrt(belief.var)
    values: Floats = log_ehvi_of_contenders(belief.mean, sd, belief.front, reference, belief.unseen)
    return values


_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
# Below -38.5, phi underflows to a denormal; above 8.5, h(u) = u to the last bit.
_FAR_BELOW = -38.0
_FAR_ABOVE = 8.5
# Anything with a smaller logarithm is 0 in double precision.
_LOG_UNDERFLOW = -746.0


@njit(cache=True, error_model="numpy", inline="always")
def _h(u: float) -> float:
    if u < _FAR_BELOW:
        return 0.0
    if u > _FAR_ABOVE:
        return u
    return u * 0.5 * math.erfc(-u * _SQRT_HALF) + _INV_SQRT_2PI * math.exp(-0.5 * u * u)


@njit(cache=True, error_model="numpy")
def _log_h(u: float) -> float:
    if u > -30.0:
        return math.log(_h(u))
    # Asymptotic series of h for large -u: h itself underflows and its two terms cancel.
    w = 1.0 / (u * u)
    series = w * (1.0 - w * (3.0 - w * (15.0 - w * (105.0 - w * 945.0))))
    return -0.5 * u * u + math.log(_INV_SQRT_2PI * series)


@njit(cache=True, error_model="numpy")
def log_expected_improvement(mean: Floats, sd: Floats, best: float) -> Floats:
    """log EI of each candidate below the loss best (Jones et al. 1998; Zhang & Duh 2020, section 5.1.2).

    The logarithm has the same maximiser and tells candidates apart where EI itself underflows
    (Ament et al. 2023). A candidate with sd = 0 has log(max(best - mean, 0)).

    Args:
        mean, sd: posterior mean and standard deviation of the loss, shape (M,).
        best: smallest loss seen.

    Returns:
        shape (M,), -inf where no improvement is possible.
    """
    result = np.empty(mean.shape[0])
    for i in range(mean.shape[0]):
        gap = best - mean[i]
        if sd[i] > 0.0:
            result[i] = math.log(sd[i]) + _log_h(gap / sd[i])
        elif gap > 0.0:
            result[i] = math.log(gap)
        else:
            result[i] = -np.inf
    return result


@njit(cache=True, error_model="numpy")
def log_ei_of_contenders(mean: Floats, sd: Floats, best: float, unseen: NDArray[np.bool_]) -> Floats:
    """As log_expected_improvement, but only for unseen candidates that could be the best; others -inf.

    EI = sd h(u) grows with sd and with u, so a candidate that exceeds the leader in neither cannot win.
    That needs no special function, and few candidates are left.
    """
    result = np.full(mean.shape[0], -np.inf)
    top = -np.inf
    top_u = -np.inf
    top_sd = -np.inf
    for i in range(mean.shape[0]):
        if not unseen[i]:
            continue
        gap = best - mean[i]
        u = gap / sd[i] if sd[i] > 0.0 else math.copysign(np.inf, gap)
        if sd[i] > 0.0 and u <= top_u and sd[i] <= top_sd:
            continue
        if sd[i] > 0.0:
            result[i] = math.log(sd[i]) + _log_h(u)
        elif gap > 0.0:
            result[i] = math.log(gap)
        if result[i] > top:
            top, top_u, top_sd = result[i], u, sd[i]
    return result


@njit(cache=True, error_model="numpy")
def expected_influence(
    labels: Floats, variance: Floats, row_sums: Floats, unseen: NDArray[np.bool_]
) -> Floats:
    """Expected influence of asking for each candidate (Zhang & Duh 2020, section 5.2.2).

    Candidate k turns out good (label 1) with probability f_k and bad (label 0) otherwise. Its value is
    the total label of the unseen rows in the good future, plus their total distance from 1 in the bad
    one, after the labels have spread again. With G the posterior covariance of the harmonic labels,
    the future labels are f + (y - f_k) G[:,k] / G[k,k], so no future has to be propagated:

        S_k = sum_i G[i,k] / G[k,k],   F = sum_i f_i,   n = number unseen
        EIF(k) = f_k (F + (1 - f_k) S_k) + (1 - f_k) (n - F + f_k S_k)

    Args:
        labels: f, harmonic labels with 1 the best, shape (M,).
        variance: G[k,k], shape (M,).
        row_sums: sum over unseen i of G[i,k], shape (M,).
        unseen: which of the M rows are unseen; F, n and the sums run over these, shape (M,).

    Returns:
        shape (M,); -inf for rows that were seen.
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


@njit(cache=True, error_model="numpy")
def log_expected_hypervolume_improvement(
    mean: Floats, sd: Floats, front: Floats, reference: Floats
) -> Floats:
    """log of the exact EHVI of each candidate, for two independent losses (Emmerich et al. 2011).

    The region that no front point dominates is cut into strips between neighbouring front points. In
    each strip the expected area gained is a product of two one-dimensional expected improvements, so
    with front points (a_1, b_1) ... (a_J, b_J), a ascending and b descending, and EI(t) = E[max(t - Y, 0)]:

        EHVI = sum_{i=0..J} [EI_1(a_{i+1}) - EI_1(a_i)] EI_2(b_i),   a_0 = -inf, a_{J+1} = r_1, b_0 = r_2

    Where EHVI underflows for every candidate, as it can late in a trial, its leading term -d^2 / 2 stands
    in for its logarithm, d being the distance of the candidate's mean from that region in standard
    deviations. The choice would otherwise fall on the first row of the table.

    Args:
        mean, sd: posterior of the two losses, shape (2, M).
        front: non-dominated losses seen, sorted by the first, shape (J, 2).
        reference: the point r that bounds the area, shape (2,).

    Returns:
        shape (M,). O(J M).
    """
    right, top = _strips(front, reference)
    result = np.empty(mean.shape[1])
    for k in range(len(result)):
        result[k] = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
    some = result.max() > 0.0
    for k in range(len(result)):
        if some:
            result[k] = math.log(result[k]) if result[k] > 0.0 else -np.inf
        else:
            result[k] = -0.5 * _squared_distance(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
    return result


@njit(cache=True, error_model="numpy")
def log_ehvi_of_contenders(
    mean: Floats, sd: Floats, front: Floats, reference: Floats, unseen: NDArray[np.bool_]
) -> Floats:
    """As log_expected_hypervolume_improvement, but exact only for unseen candidates that could be the best.

    The others get an upper bound, which lies below the best (seen ones -inf). It follows from
    h(u) <= (max(u, 0) + 0.4) exp(-min(u, 0)^2 / 2), with u_1 and u_2 the distances of the mean from the
    reference point in standard deviations, and d that from the region:

        EHVI <= (J + 1) sd_1 sd_2 (max(u_1, 0) + 0.4) (max(u_2, 0) + 0.4) exp(-d^2 / 2)

    It needs no special function, and few candidates come near it.
    """
    right, top = _strips(front, reference)
    n_candidates = mean.shape[1]
    exponent = np.empty(n_candidates)
    bound = np.full(n_candidates, -np.inf)
    favourite = -1
    for k in range(n_candidates):
        if not unseen[k]:
            continue
        m1, m2, s1, s2 = mean[0, k], mean[1, k], sd[0, k], sd[1, k]
        exponent[k] = -0.5 * _squared_distance(m1, m2, s1, s2, right, top)
        scale = (max(right[-1] - m1, 0.0) + 0.4 * s1) * (max(top[0] - m2, 0.0) + 0.4 * s2)
        # The sum of the two differs from the bound by rounding, hence a little more.
        bound[k] = exponent[k] + math.log(scale * len(right)) + 1e-9
        if favourite < 0 or bound[k] > bound[favourite]:
            favourite = k
    if favourite < 0:
        return bound
    k = favourite
    best = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
    log_best = max(math.log(best), _LOG_UNDERFLOW)
    for k in range(n_candidates):
        if unseen[k] and bound[k] >= log_best:
            gain = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
            bound[k] = math.log(gain)
            if gain > best:
                best = gain
                log_best = max(bound[k], _LOG_UNDERFLOW)
    if best == 0.0:
        for k in range(n_candidates):
            bound[k] = exponent[k] if unseen[k] else -np.inf
    return bound


@njit(cache=True, error_model="numpy")
def _strips(front: Floats, reference: Floats) -> tuple[Floats, Floats]:
    """Right end and top of each strip of the region that is not dominated, left to right, shape (J + 1,)."""
    right = np.minimum(np.append(front[:, 0], reference[0]), reference[0])
    top = np.minimum(np.append(reference[1], front[:, 1]), reference[1])
    return right, top


@njit(cache=True, error_model="numpy")
def _squared_distance(m1: float, m2: float, s1: float, s2: float, right: Floats, top: Floats) -> float:
    """Squared distance of a mean from the region below the strips, in standard deviations."""
    w1 = 1.0 / max(s1, 1e-150)
    w2 = 1.0 / max(s2, 1e-150)
    nearest = np.inf
    for i in range(len(right)):
        u1 = max(m1 - right[i], 0.0) * w1
        u2 = max(m2 - top[i], 0.0) * w2
        nearest = min(nearest, u1 * u1 + u2 * u2)
    return nearest


@njit(cache=True, error_model="numpy")
def _gain(m1: float, m2: float, s1: float, s2: float, right: Floats, top: Floats) -> float:
    """EHVI of one candidate over strips that end at `right` and lie below `top`."""
    gain = 0.0
    previous = 0.0
    for i in range(len(right)):
        current = _improvement(right[i], m1, s1)
        if current > previous:
            height = _improvement(top[i], m2, s2)
            if height == 0.0:
                break  # and so it is in the lower strips further right
            gain += (current - previous) * height
            previous = current
    return gain


@njit(cache=True, error_model="numpy", inline="always")
def _improvement(threshold: float, mean: float, sd: float) -> float:
    """E[max(threshold - Y, 0)] for Y normal."""
    if sd > 0.0:
        return sd * _h((threshold - mean) / sd)
    return max(threshold - mean, 0.0)
