"""What several trainings of the same configurations say: their expected losses, and the noise of a training.

The noise grows with the loss, so each configuration has a noise of its own. The model is a bank of Gaussian
processes over the n configurations that were trained, as in kernel_bank.py. All arrays have n rows, so dense
linear algebra is fast enough.

    symbol   shape   meaning
    y_ij             the j-th loss of configuration i, one of k_i
    w        n       mean losses after the warp of warping.py, but with CAP, not standardised; s is its scale
    p        n       what the trainings of all other configurations predict of w
    m        n       posterior mean of w
    t_i              noise sd of one training of i, in units of s: log t_i = a + b (p_i - min p)
    K        n x n   covariance of w: an amplitude times a kernel of the bank, plus t_i^2 / k_i in units of w

The noise that the trainings are judged by depends on p, not on m, and the warp between p and w is taken as a
straight line. Otherwise, a lucky training of a bad configuration would make its own noise look small, and
would be believed. The noise that is returned is that at m.

The prior of a is wide, and that of b says that noise usually grows with the loss, but little, because s
shrinks as a search converges. Deviations of replicates from their mean have a Student distribution with
DEGREES degrees of freedom, so that one diverged training does not set the noise. If there are replicates, the
evidence of the Gaussian process has a weight of RESIDUALS only, because misfit looks like noise to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtr, ndtri

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.methods.auto import bank_of_size
from hpobench_nmt.methods.surrogates.kernel_bank import covariances, points_of
from hpobench_nmt.methods.surrogates.warping import scale_of

CAP = math.log1p(30.0)
"""In warping.py, losses far above the median are equally bad. Here, an improvement on such a loss should
still be seen to be real."""
MODELLED = 256
"""About as many configurations enter the model, because its time grows with n^3."""
VECTORS = 11
DEGREES = 8.0
RESIDUALS = 0.2
LEVELS = np.linspace(math.log(1e-5), math.log(3.0), 22)
"""Values of a, for losses in units of s."""
SLOPES = np.linspace(0.0, 1.6, 5)
_LEVEL = math.log(0.05), 2.0
_SLOPE = 0.3, 0.5
AMPLITUDES = np.array([0.3, 1.0, 4.0])
_NODES = ndtri((np.arange(20) + 0.5) / 20)


class Belief(NamedTuple):
    """Expected losses and noise, given all trainings.

    Attributes:
        mean: expected loss of each configuration, shape (n,).
        warped: m.
        covariance: of the warped expected losses, shape (n, n).
        unit: how much the loss changes with its warped value, shape (n,).
        noise: standard deviation of the loss of one training of each configuration, shape (n,).
        spread: the noise at the best configuration lies between noise / spread and noise * spread with a
            probability of about 95%.
    """

    mean: Floats
    warped: Floats
    covariance: Floats
    unit: Floats
    noise: Floats
    spread: float

    def better(self, than: int) -> Floats:
        """Probability that the expected loss of each configuration is below that of one of them, (n,)."""
        gap, sd = self.warped[than] - self.warped, self._sd(than)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = ndtr(gap / sd)
        return np.asarray(np.where(sd > 0, found, np.where(gap == 0, 0.5, gap > 0)))

    def knowledge_gradient(self, among: Sequence[int]) -> Floats:
        """How much a training of each is expected to lower the smallest mean of some, warped, shape (n,).

        Frazier et al. 2009, "The Knowledge-Gradient Policy for Correlated Normal Beliefs", by quadrature.
        """
        noise = (self.noise / self.unit) ** 2
        shifts = self.covariance[:, list(among)] / np.sqrt(self.covariance.diagonal() + noise)[:, None]
        least = (self.warped[list(among)] + shifts[:, None] * _NODES[:, None]).min(axis=2)
        return np.asarray(self.warped[list(among)].min() - least.mean(axis=1))

    def sd_of_gain(self, old: int, new: int) -> float:
        """Standard deviation of the difference of two expected losses."""
        gap = float(self.warped[old] - self.warped[new])
        unit = float(self.mean[old] - self.mean[new]) / gap if gap else float(self.unit[new])
        return float(unit * self._sd(old)[new])

    def _sd(self, to: int) -> Floats:
        variances = self.covariance.diagonal()
        return np.asarray(np.sqrt(np.maximum(variances + variances[to] - 2 * self.covariance[to], 0.0)))


def informative(trainings: Sequence[Floats], first: Bools) -> Ints:
    """About MODELLED configurations, or all of fewer: those with several trainings, the best by their mean
    losses, and others, evenly spread over the search.

    Args:
        trainings: the losses of each configuration, in the order of their first trainings.
        first: those that come before all others among the best, shape (n,).

    Returns:
        Their places, in order.
    """
    n = len(trainings)
    if n <= MODELLED:
        return np.arange(n)
    again = [place for place, each in enumerate(trainings) if len(each) > 1]
    best = np.lexsort(([each.mean() for each in trainings], ~first))[: MODELLED // 2]
    chosen = np.unique(np.concatenate([again, best])).astype(np.int64)
    others = np.setdiff1d(np.arange(n), chosen)
    spread = np.linspace(0, len(others) - 1, max(0, MODELLED - len(chosen))).astype(int)
    return np.sort(np.concatenate([chosen, others[spread]]))


def believe(features: Floats, columns: Sequence[int], trainings: Sequence[Floats]) -> Belief:
    """What to expect of n configurations, given finite losses of their trainings.

    Takes O(n^3) for each kernel, amplitude and noise level.

    Args:
        features: of the configurations, shape (n, F).
        columns: how many features each hyperparameter has.
        trainings: the losses of each configuration, shape (k_i,) each, with one or more losses.
    """
    again = [each for each in trainings if len(each) > 1]
    if again and all(np.ptp(each) == 0 for each in again):  # a deterministic function
        exact, n = np.array([each[0] for each in trainings]), len(trainings)
        return Belief(exact, exact, np.zeros((n, n)), np.ones(n), np.zeros(n), 1.0)
    weight = RESIDUALS if again else 1.0
    largest = max(float(np.abs(each).max()) for each in trainings) or 1.0
    trainings = [each / largest for each in trainings]  # so that no square overflows
    counts = np.array([len(each) for each in trainings], dtype=np.float64)
    means = np.array([each.mean() for each in trainings])
    middle = float(np.median(means))
    scale = scale_of(means - middle)
    w, steps = _warp((means - middle) / scale), counts - 1
    within = np.array([((each - each.mean()) ** 2).sum() for each in trainings]) / scale**2
    kernels = _kernels(features, columns)
    centre = float(w.mean())
    amplitudes = AMPLITUDES * max(float(w.var()), 1e-12)

    members = (amplitudes[:, None, None, None] * kernels).reshape(-1, *kernels.shape[1:])
    p = centre + _predicted_by_others(members, w - centre)
    x, slope = p - p.min(), _unwarp_slope(p)
    np.divide(_unwarp(p) - _unwarp(w), p - w, out=slope, where=np.abs(p - w) > 1e-6)  # of the chord
    log_prior = _noise_given_replicates(x, steps, within)
    for last in (False, True):  # the first pass drops members that do not matter
        likely = log_prior > log_prior.max() - 5
        if not last:  # every fourth level, and the middle slope
            likely[np.arange(len(LEVELS)) % 4 > 0] = False
            likely[:, np.arange(len(SLOPES)) != len(SLOPES) // 2] = False
            likely[int(log_prior.max(axis=1).argmax()), len(SLOPES) // 2] = True
        levels, slopes = LEVELS[np.nonzero(likely)[0]], SLOPES[np.nonzero(likely)[1]]
        noise = np.exp(levels[:, None] + slopes[:, None] * x)
        parts = [_posterior(members, w - centre, each) for each in (noise / slope) ** 2 / counts]
        log_weights = log_prior[likely] + weight * np.array([logsumexp(part.log_p) for part in parts])
        weights = np.exp(log_weights - logsumexp(log_weights))
        if not last:
            log_p = np.array([part.log_p for part in parts]) + log_prior[likely][:, None]
            members = members[(log_p > log_p.max() - 8).any(axis=0)]
    m = centre + sum(each * part.mean for each, part in zip(weights, parts, strict=True))
    covariance = sum(
        each * (part.covariance + np.outer(part.mean + centre - m, part.mean + centre - m))
        for each, part in zip(weights, parts, strict=True)
    )
    level = float(weights @ levels)
    spread = math.sqrt(float(weights @ (levels - level) ** 2))
    return Belief(
        largest * (middle + scale * _unwarp(m)),
        m,
        covariance,
        largest * scale * _unwarp_slope(m),
        largest * scale * np.exp(level + float(weights @ slopes) * (m - p.min())),
        math.exp(1.96 * spread),
    )


def _warp(u: Floats) -> Floats:
    return np.where(u > 0, np.minimum(np.log1p(np.maximum(u, 0.0)), CAP), u)


def _unwarp(w: Floats) -> Floats:
    return np.where(w > 0, np.expm1(np.maximum(w, 0.0)), w)


def _unwarp_slope(w: Floats) -> Floats:
    return np.exp(np.maximum(w, 0.0))


def _kernels(features: Floats, columns: Sequence[int]) -> Floats:
    """K of each member of a small bank at amplitude 1, shape (B, n, n)."""
    bank = bank_of_size(len(columns), vectors=VECTORS)
    # The bank has each kernel with two noise variances.
    inverse_squares = np.ascontiguousarray(bank.inverse_squares[::2])
    return np.asarray(covariances(points_of(features, columns), inverse_squares, bank.additive))


def _noise_given_replicates(x: Floats, steps: Floats, within: Floats) -> Floats:
    """Logarithms of prior times likelihood of LEVELS and SLOPES.

    Args:
        x: warped loss above the best, shape (n,).
        steps: trainings of each configuration beyond its first, shape (n,).
        within: sum of squared deviations from each configuration's mean, shape (n,).
    """
    many = steps > 0
    log_sd = LEVELS[:, None, None] + SLOPES[:, None] * x[many]
    terms = -steps[many] * log_sd - (DEGREES + steps[many]) / 2 * np.log1p(
        within[many] / (DEGREES - 2) * np.exp(-2 * log_sd)
    )
    log_prior = ((LEVELS[:, None] - _LEVEL[0]) / _LEVEL[1]) ** 2 + ((SLOPES - _SLOPE[0]) / _SLOPE[1]) ** 2
    return np.asarray(terms.sum(axis=2) - log_prior / 2)


def _predicted_by_others(members: Floats, y: Floats) -> Floats:
    """The expectation of each of y, shape (n,), given all others, if the noise is what its prior expects.

    Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", equation 5.12.
    """
    noisy = members + math.exp(2 * _LEVEL[0]) * np.eye(len(y))
    inverses = np.linalg.inv(noisy)
    solved = inverses @ y
    log_p = -0.5 * (solved @ y + np.linalg.slogdet(noisy)[1])
    return np.asarray(y - np.exp(log_p - logsumexp(log_p)) @ (solved / np.einsum("bii->bi", inverses)))


class _Given(NamedTuple):
    """Log evidence of each member, (B,), and mean, (n,), and covariance, (n, n), averaged over members."""

    log_p: Floats
    mean: Floats
    covariance: Floats


def _posterior(members: Floats, y: Floats, noise: Floats) -> _Given:
    """The expectation of y, given members' prior covariances, shape (B, n, n), and noise variances, (n,)."""
    noisy = members + np.diag(noise + 1e-8 * members[:, 0, 0].max())
    factors = np.linalg.cholesky(noisy)
    z = np.array([solve_triangular(each, y, lower=True, check_finite=False) for each in factors])
    log_p = -0.5 * (z**2).sum(axis=1) - np.log(np.einsum("bii->bi", factors)).sum(axis=1)
    weights = np.exp(log_p - log_p.max())
    heavy = np.flatnonzero(weights > 0.02)
    weights = weights[heavy] / weights[heavy].sum()
    mean, second = np.zeros(len(y)), np.zeros_like(noisy[0])
    for b, weight in zip(heavy, weights, strict=True):
        whitened = solve_triangular(factors[b], members[b], lower=True, check_finite=False)
        own = whitened.T @ z[b]
        mean += weight * own
        second += weight * (members[b] - whitened.T @ whitened + np.outer(own, own))
    return _Given(log_p, mean, second - np.outer(mean, mean))
