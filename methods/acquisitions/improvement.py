"""Expected improvement of one loss (EI) and of two (EHVI), exact, for all candidates at once.

Losses are minimised, so an improvement lies below the best loss, and the front has the smallest losses.
Logarithms are used throughout. They have the same maximiser, and still distinguish candidates when the value
itself underflows (Ament et al. 2023).

    symbol   meaning
    h(u)     u Phi(u) + phi(u): expected improvement of a unit normal whose mean lies u beyond the threshold
    phi      standard normal density;  Phi its distribution function
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.compiled import compiled

_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_LOG_INV_SQRT_2PI = math.log(_INV_SQRT_2PI)
# Below -37.6, phi is a denormal number, and below -38.6 it is 0. Above 8.5, h(u) = u to the last bit.
_FAR_BELOW = -38.0
_FAR_ABOVE = 8.5
# A number with a smaller logarithm is 0 in double precision.
_LOG_UNDERFLOW = -746.0
# Smaller sums of improvements are computed from logarithms.
_LEAST_SUM = 1e-280
_LEAST_VARIANCE = 1e-300
# The number of candidates whose bounds are computed together.
_TILE = 1024
# For `exponentials`: log(2) in two parts, a Taylor polynomial, the smallest argument (smaller ones have its
# result, 1e-304), and the bits of 1.0.
_LOG_2_HIGH, _LOG_2_LOW, _INVERSE_LOG_2 = 0.6931471803691238, 1.9082149292705877e-10, 1.4426950408889634
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
_SMALLEST, _TO_ROUND, _ONE = -700.0, 1.5 * 2.0**52, 1023 << 52


def _exponentials(x: Floats, found: Floats) -> None:
    clipped = np.maximum(x, _SMALLEST)
    powers = clipped * _INVERSE_LOG_2 + _TO_ROUND
    k = powers - _TO_ROUND
    r = (clipped - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    found[:] = 1.0 + (r + r * r * np.polyval(_TAYLOR, r))
    found *= ((powers.view(np.int64) << 52) + _ONE).view(np.float64)


@compiled(_exponentials, error_model="numpy")
def exponentials(x: Floats, found: Floats) -> None:
    """exp of each x <= 0, shape (n,); writes `found`, another array. A third of the C library's time.

        exp(x) = 2^k exp(r),   k = round(x / log 2),   r = x - k log 2,   |r| <= log(2) / 2

    The loops are such that the compiler vectorises them. exp(r) is its Taylor polynomial of degree 13, whose
    remainder is below 1e-17. k log 2 is subtracted in two parts. The first part of log 2 has few digits, so
    its product with k is exact (Cody & Waite 1980). A number is rounded by adding 1.5 * 2^52. The whole
    number is then in the last bits. A shift moves these bits into the exponent. The result is within 2 units
    in the last place, and has the same bits on every machine.
    """
    powers = np.empty(x.shape[0])
    bits = powers.view(np.int64)
    for i in range(x.shape[0]):
        clipped = max(x[i], _SMALLEST)
        powers[i] = clipped * _INVERSE_LOG_2 + _TO_ROUND
        k = powers[i] - _TO_ROUND
        r = (clipped - k * _LOG_2_HIGH) - k * _LOG_2_LOW
        p = 0.0
        for factor in _TAYLOR:
            p = p * r + factor
        found[i] = 1.0 + (r + r * r * p)
    for i in range(x.shape[0]):
        bits[i] = (bits[i] << 52) + _ONE
    for i in range(x.shape[0]):
        found[i] *= powers[i]


@compiled(plain=True, error_model="numpy", inline="always")
def _h(u: float) -> float:
    if u < _FAR_BELOW:
        return 0.0
    if u > _FAR_ABOVE:
        return u
    return u * 0.5 * math.erfc(-u * _SQRT_HALF) + _INV_SQRT_2PI * math.exp(-0.5 * u * u)


@compiled(plain=True, error_model="numpy", inline="always")
def _improvement(threshold: float, mean: float, sd: float) -> float:
    """E[max(threshold - Y, 0)] for Y normal."""
    if sd > 0.0:
        return sd * _h((threshold - mean) / sd)
    return max(threshold - mean, 0.0)


@compiled(error_model="numpy")
def _log_h(u: float) -> float:
    if u > -30.0:
        return math.log(_h(u))
    # Asymptotic series of h for large -u, where h underflows and its two terms cancel.
    w = 1.0 / (u * u)
    series = w * (1.0 - w * (3.0 - w * (15.0 - w * (105.0 - w * 945.0))))
    return -0.5 * u * u + math.log(_INV_SQRT_2PI * series)


@compiled(error_model="numpy")
def _log_distribution(u: float) -> float:
    """log Phi(u), accurate even if Phi underflows or is nearly 1."""
    if u > 0.0:
        return math.log1p(-0.5 * math.erfc(u * _SQRT_HALF))
    if u > -30.0:
        return math.log(0.5 * math.erfc(-u * _SQRT_HALF))
    # Asymptotic series of Phi for large -u.
    w = 1.0 / (u * u)
    series = 1.0 - w * (1.0 - w * (3.0 - w * (15.0 - w * 105.0)))
    return -0.5 * u * u + math.log(-_INV_SQRT_2PI / u * series)


@compiled(error_model="numpy")
def log_probability_below(bounds: Floats, mean: Floats, var: Floats) -> Floats:
    """log of the probability that q independent normals are at most their bounds, shape (M,).

    Shapes: bounds (q,), mean (q, M), and var (M,), which the normals share. If the variance is 0, the means
    decide: the result is 0 or -inf.
    """
    result = np.zeros(mean.shape[1])
    for i in range(mean.shape[1]):
        sd = math.sqrt(var[i])
        for j in range(mean.shape[0]):
            gap = bounds[j] - mean[j, i]
            if sd > 0.0:
                result[i] += _log_distribution(gap / sd)
            elif gap < 0.0:
                result[i] = -np.inf
    return result


@compiled(error_model="numpy")
def log_ei_of_all(mean: Floats, var: Floats, best: float) -> Floats:
    """log EI of every candidate, shape (M,); -inf where no improvement is possible."""
    result = np.empty(mean.shape[0])
    for i in range(mean.shape[0]):
        result[i] = _log_ei(mean[i], var[i], best)
    return result


@compiled(error_model="numpy")
def _log_ei(mean: float, var: float, best: float) -> float:
    """log EI of one candidate; -inf where no improvement is possible."""
    sd, gap = math.sqrt(var), best - mean
    if sd > 0.0:
        return math.log(sd) + _log_h(gap / sd)
    return math.log(gap) if gap > 0.0 else -np.inf


@compiled(plain=True, error_model="numpy")
def log_mean_ei_of_contenders(
    mean: Floats, var: Floats, best: float, log_weights: Floats, offsets: Floats
) -> Floats:
    """log of the weighted mean of k models' EI, plus an offset, for each candidate that could be the best.

    Candidates that cannot win are found by an upper bound of EI, which exceeds EI by at most 11%.

    Shapes: mean and var (k, M), log_weights (k,), offsets (M,), -inf for candidates that are not free. The
    result, of shape (M,), is -inf for candidates that are not free or cannot be the best. O(k M).
    """
    n_members, n_candidates = mean.shape
    weights, bounds, leader = np.empty(n_members), np.zeros(n_candidates), 0
    for b in range(n_members):
        weights[b] = math.exp(log_weights[b])
    for start in range(0, n_candidates, _TILE):
        tile = bounds[start : start + _TILE]
        for b in range(n_members):
            own, spread = mean[b, start : start + _TILE], var[b, start : start + _TILE]
            _add_most_improvement(best, own, spread, weights[b], tile)
    for i in range(n_candidates):
        bounds[i] = -np.inf if bounds[i] == 0.0 else math.log(bounds[i])
        bounds[i] += offsets[i] + 1e-9  # the sum is rounded, so a little is added
        leader = i if bounds[i] > bounds[leader] else leader
    top = _log_mean_ei(mean[:, leader], var[:, leader], best, weights, log_weights) + offsets[leader]
    if top < math.log(_LEAST_SUM):
        bounds[:] = np.inf  # the bounds may have underflowed, so all free candidates are computed
    result = np.full(n_candidates, -np.inf)
    for i in range(n_candidates):
        if bounds[i] >= top and offsets[i] > -np.inf:
            result[i] = _log_mean_ei(mean[:, i], var[:, i], best, weights, log_weights) + offsets[i]
            top = max(top, result[i])
    return result


def _most_improvement_added(
    threshold: float, mean: Floats, var: Floats, weight: float, total: Floats
) -> None:
    gap, densities = threshold - mean, np.empty(len(mean))
    _exponentials(-0.5 * gap * gap / np.maximum(var, _LEAST_VARIANCE), densities)
    s, size = np.sqrt(gap * gap + 4.0 * var), np.abs(gap)
    below = (s - size) / (s + size + _LEAST_VARIANCE)
    total += weight * (np.maximum(gap, 0.0) + _INV_SQRT_2PI * np.sqrt(var) * densities * below)


@compiled(_most_improvement_added, error_model="numpy")
def _add_most_improvement(threshold: float, mean: Floats, var: Floats, weight: float, total: Floats) -> None:
    """Add a weight times an upper bound of EI to the totals of at most _TILE candidates.

    For x >= 0, h(-x) = phi(x) - x Phi(-x) and h(x) = x + h(-x). With Phi(-x) >= 2 phi(x) / (x + s), s^2 = x^2
    + 4 (Birnbaum 1942), h(-x) <= phi(x) (s - x) / (s + x).
    """
    powers, densities = np.empty(total.shape[0]), np.empty(total.shape[0])
    for i in range(total.shape[0]):
        gap = threshold - mean[i]
        powers[i] = -0.5 * gap * gap / max(var[i], _LEAST_VARIANCE)
    exponentials(powers, densities)
    for i in range(total.shape[0]):
        gap = threshold - mean[i]
        s = math.sqrt(gap * gap + 4.0 * var[i])
        below = (s - abs(gap)) / (s + abs(gap) + _LEAST_VARIANCE)
        total[i] += weight * (max(gap, 0.0) + _INV_SQRT_2PI * math.sqrt(var[i]) * densities[i] * below)


@compiled(plain=True, error_model="numpy")
def _log_mean_ei(mean: Floats, var: Floats, best: float, weights: Floats, log_weights: Floats) -> float:
    """log of the weighted mean EI of one candidate."""
    total = 0.0
    for b in range(mean.shape[0]):
        total += weights[b] * _improvement(best, mean[b], math.sqrt(var[b]))
    return math.log(total) if total > _LEAST_SUM else _log_sum(mean, var, best, log_weights)


@compiled(error_model="numpy")
def _log_sum(mean: Floats, var: Floats, best: float, log_weights: Floats) -> float:
    """The same, accurate even if EI underflows."""
    top, total = -np.inf, 0.0
    for b in range(mean.shape[0]):
        top = max(top, _log_ei(mean[b], var[b], best) + log_weights[b])
    if top == -np.inf:
        return top
    for b in range(mean.shape[0]):
        total += math.exp(_log_ei(mean[b], var[b], best) + log_weights[b] - top)
    return top + math.log(total)


@compiled(error_model="numpy")
def log_ei_of_contenders(mean: Floats, var: Floats, best: float, unseen: NDArray[np.bool_]) -> Floats:
    """log EI of each unseen candidate that could be the best (Jones et al. 1998; Zhang & Duh 2020, 5.1.2).

    EI = sd h(u), for u = (best - mean) / sd, grows with sd and with u. So a candidate cannot win if the
    leader so far exceeds it in both. It cannot win either if an upper bound of its EI is less than the
    leader's EI:

        EI <= max(best - mean, 0) + 0.4 sd, because h(u) <= max(u, 0) + 0.4
        EI <= s phi(u) for u < 0, s being the largest sd, because h(u) <= phi(u) there

    These tests do not need special functions, and they leave few candidates. If sd = 0, EI = max(best - mean,
    0).

    All arrays have shape (M,). The result is -inf for candidates that were seen, that cannot be the best, or
    that cannot improve on `best`, the smallest loss seen. O(M).
    """
    largest = 0.0
    for i in range(mean.shape[0]):
        if unseen[i]:
            largest = max(largest, var[i])
    log_largest = 0.5 * math.log(largest)
    result = np.full(mean.shape[0], -np.inf)
    top = -np.inf
    top_u = -np.inf
    top_sd = -np.inf
    top_ei = 0.0
    least_u = -np.inf
    for i in range(mean.shape[0]):
        if not unseen[i]:
            continue
        sd = math.sqrt(var[i])
        gap = best - mean[i]
        # The first bound, and the test u < least_u without a division.
        if max(gap, 0.0) + 0.4 * sd < top_ei or gap < least_u * sd:
            continue
        u = gap / sd if sd > 0.0 else math.copysign(np.inf, gap)
        if sd > 0.0 and u <= top_u and sd <= top_sd:
            continue
        if sd > 0.0:
            result[i] = math.log(sd) + _log_h(u)
        elif gap > 0.0:
            result[i] = math.log(gap)
        if result[i] > top:
            top, top_u, top_sd = result[i], u, sd
            # The bounds have rounding errors, so both limits are a little lower than computed.
            top_ei = math.exp(top) * (1.0 - 1e-9)
            least_u = -math.sqrt(max(2.0 * (log_largest + _LOG_INV_SQRT_2PI - top), 0.0)) - 1e-6
    return result


@compiled(error_model="numpy")
def log_ehvi_of_contenders(
    mean: Floats, sd: Floats, front: Floats, reference: Floats, unseen: NDArray[np.bool_]
) -> Floats:
    """log of the exact EHVI of each unseen candidate that could be the best, for two independent losses.

    The region that no front point dominates is cut into strips between neighbouring front points (Emmerich et
    al. 2011). In each strip the expected area gained is a product of two one-dimensional expected
    improvements, so with front points (a_1, b_1) ... (a_J, b_J), a ascending and b descending, and EI(t) =
    E[max(t - Y, 0)]:

        EHVI = sum_{i=0..J} [EI_1(a_{i+1}) - EI_1(a_i)] EI_2(b_i),   a_0 = -inf, a_{J+1} = r_1, b_0 = r_2

    Candidates that cannot be the best are found by an upper bound of EHVI. The bound follows from h(u) <=
    (max(u, 0) + 0.4) exp(-min(u, 0)^2 / 2). With u_1 and u_2 the distances of the mean from the reference
    point, and d its distance from the region, all in standard deviations:

        EHVI <= sd_1 sd_2 (max(u_1, 0) + 0.4) (max(u_2, 0) + 0.4) min(1, (J + 1) exp(-d^2 / 2))

    Late in a trial, EHVI may underflow for every candidate. Then the leading term of its logarithm, -d^2 / 2,
    is returned instead, because the first unseen row of the table would win otherwise. This is not in the
    paper, and can change scores: on sw-en, BO_R finds 8.3 rows of the front within the paper's budget, and
    9.2 if the first unseen row is chosen instead.

    Shapes: mean and sd (2, M), the front, sorted by the first loss, (J, 2), the reference point r (2,). The
    result, of shape (M,), is -inf for candidates that were seen or that cannot be the best. O(J M).
    """
    right, top = _strips(front, reference)
    n_candidates = mean.shape[1]
    result = np.full(n_candidates, -np.inf)
    # These loops include candidates that were seen, so that the compiler can vectorise them.
    exponent = -0.5 * _squared_distances(mean, sd, right, top)
    area = np.empty(n_candidates)
    for k in range(n_candidates):
        width = max(right[-1] - mean[0, k], 0.0) + 0.4 * sd[0, k]
        area[k] = width * (max(top[0] - mean[1, k], 0.0) + 0.4 * sd[1, k])
    largest_area = 0.0
    log_strips = math.log(len(right))
    favourite = -1
    for k in range(n_candidates):
        if not unseen[k]:
            exponent[k] = -np.inf
            continue
        largest_area = max(largest_area, area[k])
        if (
            favourite < 0
            or exponent[k] > exponent[favourite]
            or (exponent[k] == exponent[favourite] and area[k] > area[favourite])
        ):
            favourite = k
    if favourite < 0:
        return result
    k = favourite
    best = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
    log_best = max(math.log(best), _LOG_UNDERFLOW)
    log_largest_area = math.log(largest_area)
    for k in range(n_candidates):
        # The logarithm of the bound is computed as a sum, with rounding errors, so a little is added.
        rest = min(exponent[k] + log_strips, 0.0) + 1e-9
        # The largest area rules out most candidates, without a logarithm for each.
        if not unseen[k] or log_largest_area + rest < log_best or math.log(area[k]) + rest < log_best:
            continue
        gain = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
        result[k] = math.log(gain)
        if gain > best:
            best = gain
            log_best = max(result[k], _LOG_UNDERFLOW)
    return result if best > 0.0 else exponent


@compiled(error_model="numpy")
def log_ehvi_of_all(mean: Floats, var: Floats, front: Floats, reference: Floats) -> Floats:
    """log of the exact EHVI of every candidate, for two independent losses, shape (M,).

    The variance has shape (2, M), or (M,) if the losses share it. If EHVI underflows, the leading term of its
    logarithm is returned instead, lowered below all values that do not underflow. O(J M).
    """
    right, top = _strips(front, reference)
    sd = np.empty_like(mean)
    sd[:] = np.sqrt(var)
    exponent = -0.5 * _squared_distances(mean, sd, right, top)
    for k in range(mean.shape[1]):
        gain = _gain(mean[0, k], mean[1, k], sd[0, k], sd[1, k], right, top)
        exponent[k] = math.log(gain) if gain > 0.0 else min(exponent[k], _LOG_UNDERFLOW)
    return exponent


@compiled(error_model="numpy")
def _strips(front: Floats, reference: Floats) -> tuple[Floats, Floats]:
    """Right end and top of each strip of the non-dominated region, from left to right, shape (J + 1,)."""
    right = np.minimum(np.append(front[:, 0], reference[0]), reference[0])
    top = np.minimum(np.append(reference[1], front[:, 1]), reference[1])
    return right, top


@compiled(error_model="numpy")
def _squared_distances(mean: Floats, sd: Floats, right: Floats, top: Floats) -> Floats:
    """Squared distance of each mean from the region below the strips, in standard deviations, shape (M,)."""
    n_candidates = mean.shape[1]
    weights = 1.0 / np.maximum(sd, 1e-150)
    nearest = np.full(n_candidates, np.inf)
    for i in range(len(right)):
        for k in range(n_candidates):
            u1 = max(mean[0, k] - right[i], 0.0) * weights[0, k]
            u2 = max(mean[1, k] - top[i], 0.0) * weights[1, k]
            nearest[k] = min(nearest[k], u1 * u1 + u2 * u2)
    return nearest


@compiled(error_model="numpy")
def _gain(m1: float, m2: float, s1: float, s2: float, right: Floats, top: Floats) -> float:
    """EHVI of one candidate over strips that end at `right` and lie below `top`."""
    gain = 0.0
    previous = 0.0
    for i in range(len(right)):
        current = _improvement(right[i], m1, s1)
        if current > previous:
            height = _improvement(top[i], m2, s2)
            if height == 0.0:
                break  # the strips further right are lower, so their heights are 0 as well
            gain += (current - previous) * height
            previous = current
    return gain
