"""Gaussian posteriors of many kernels over one finite set, weighted by their evidence.

No single length scale suits all tables. A bank holds B Matern-5/2 kernels with fixed length scales and noise
variances. Evidence weights them, and nothing is optimised.

    symbol   shape      meaning
    W        B x F      1 / length^2 of each kernel and feature; the columns of a category share theirs
    s^2      B          noise variance, as a share of the kernel's amplitude^2
    L        B x n x n  Cholesky factors of K_b[S,S] + s_b^2 I for the n rows S observed
    y        n          targets, new at every step; prior mean 0
    z        B x n      L_b^-1 y
    V        n x N      L_b^-1 K_b[S,:], of the best members only

The amplitude^2 has the prior InvGamma(1/2, 1/2) and is integrated out, so that y is Student with one degree
of freedom (Rasmussen & Williams 2006, section 5.4.1, with a prior; Shah et al. 2014, "Student-t
Processes"):

    log p(y | b) = -(n + 1) / 2 log(1 + z'z) - sum log diag L_b + constant

A posterior is treated as normal, with (1 + z'z) / (n + 1) times the variance of amplitude 1, the squared
scale of the Student distribution. All members keep L, which is small. V is kept for those that were among
the best at some step, up to a limit of memory, and catches up when it is needed again. Observing a row
takes O(B n^2), and a step O(n N) for each member that is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.compiled import compiled

_ROWS = 32  # that the arrays hold at first; doubled as needed
_CACHE_BYTES = 512 * 2**20  # of V, of all members together
LEAST_HELD = 16  # members whose V is kept in any case


@dataclass(frozen=True, eq=False)
class Bank:
    """The kernels: inverse squared lengths (B, F), noise variances (B,), logarithms of prior weights (B,)."""

    inverse_squares: Floats
    noise: Floats
    log_prior: Floats

    def __len__(self) -> int:
        return len(self.noise)


class BankPosterior:
    """What B kernels say of N candidates, features of shape (N, F), given n rows."""

    def __init__(self, bank: Bank, features: Floats) -> None:
        self.bank = bank
        self._features = np.ascontiguousarray(features)
        self.seen: list[int] = []
        self._factors = np.zeros((len(bank), _ROWS, _ROWS))
        self._held: dict[int, _Field] = {}  # in the order of their last use

    def observe(self, row: int) -> None:
        """Condition every member on a row."""
        n = len(self.seen)
        if n == self._factors.shape[1]:
            more = np.zeros((len(self.bank), 2 * n, 2 * n))
            more[:, :n, :n] = self._factors
            self._factors = more
        rows = self._features[[*self.seen, row]]
        _append(self._factors, n, rows, self.bank.inverse_squares, self.bank.noise)
        self.seen.append(row)

    def weigh(self, y: Floats) -> Weights:
        """The members' weights given targets y, shape (n,), in the order of `seen`."""
        z = np.empty((len(self.bank), len(y)))
        squares = np.empty(len(self.bank))
        log_weights = _log_weights(self.bank.log_prior, self._factors, y, z, squares)
        return Weights(log_weights, z, (1.0 + squares) / (len(y) + 1.0))

    def field(self, member: int, weights: Weights, running: Sequence[int] = ()) -> tuple[Floats, Floats]:
        """Posterior mean and variance of every candidate by one member, shape (N,) each.

        The variance is that once the running rows are observed too (see pending.py).
        """
        held = self._caught_up(member)
        mean = _weighted_sum(held.whitened, weights.whitened_targets[member])
        var = held.var
        if running:
            var = self._once_observed(held, member, running)
        return mean, var * weights.amplitude[member]

    def _once_observed(self, held: _Field, member: int, running: Sequence[int]) -> Floats:
        bank, n = self.bank, len(self.seen)
        rows = np.array(running, dtype=np.int64)
        more = np.empty((len(rows), len(self._features)))
        var = held.var.copy()
        _observe_pending(
            held.whitened[:n],
            rows,
            self._features,
            bank.inverse_squares[member],
            bank.noise[member],
            more,
            var,
        )
        return var

    def _caught_up(self, member: int) -> _Field:
        """V of a member for all rows observed; the fields used longest ago are dropped beyond the limit."""
        held = self._held.pop(member, None) or _Field(np.empty((0, len(self._features))), 0)
        n = len(self.seen)
        if len(held.whitened) < n:
            more = np.empty((self._factors.shape[1], len(self._features)))
            more[: held.count] = held.whitened[: held.count]
            held.whitened = more
        seen = np.array(self.seen, dtype=np.int64)
        bank, factor = self.bank, self._factors[member]
        _extend(
            held.whitened, held.count, n, seen, self._features, bank.inverse_squares[member], factor, held.var
        )
        held.count = n
        self._held[member] = held
        limit = max(_CACHE_BYTES // (held.whitened.nbytes + 1), LEAST_HELD)
        while len(self._held) > limit:
            self._held.pop(next(iter(self._held)))
        return held


class Weights(NamedTuple):
    """What targets y say of the members.

    Attributes:
        log_weights: logarithms of weights that sum to 1, shape (B,).
        whitened_targets: z of every member, shape (B, n).
        amplitude: the factor of each member's variance, shape (B,).
    """

    log_weights: Floats
    whitened_targets: Floats
    amplitude: Floats

    def best(self, count: int) -> list[tuple[int, float]]:
        """The members of largest weight, the largest first, each with its logarithm."""
        order = np.argsort(-self.log_weights, kind="stable")[:count]
        return [(int(member), float(self.log_weights[member])) for member in order]


class _Field:
    """V of a member, as far as it was computed: `count` of its rows are filled."""

    def __init__(self, whitened: Floats, count: int) -> None:
        self.whitened, self.count = whitened, count
        self.var: Floats = np.ones(whitened.shape[1])


@compiled(error_model="numpy")
def _covariances(features: Floats, row: int, inverse_squares: Floats, found: Floats) -> None:
    """Matern-5/2 covariances of amplitude 1 of one row with all; writes `found`."""
    for i in range(features.shape[0]):
        squared = 0.0
        for h in range(features.shape[1]):
            gap = features[i, h] - features[row, h]
            squared += gap * gap * inverse_squares[h]
        r = math.sqrt(5.0 * squared)
        found[i] = (1.0 + r + r * r / 3.0) * math.exp(-r)


@compiled(error_model="numpy")
def _append(factors: Floats, n: int, rows: Floats, inverse_squares: Floats, noise: Floats) -> None:
    """Row n of every factor, for the last of n + 1 rows of features."""
    covariances = np.empty(n + 1)
    for b in range(factors.shape[0]):
        factor = factors[b]
        pivot = 1.0 + noise[b]
        _covariances(rows, n, inverse_squares[b], covariances)
        for i in range(n):
            value = covariances[i]
            for j in range(i):
                value -= factor[n, j] * factor[i, j]
            value /= factor[i, i]
            factor[n, i] = value
            pivot -= value * value
        factor[n, n] = math.sqrt(max(pivot, 0.5 * noise[b]))


@compiled(error_model="numpy")
def _log_weights(log_prior: Floats, factors: Floats, y: Floats, z: Floats, squares: Floats) -> Floats:
    """Logarithms of prior times evidence, which sum to 1, shape (B,); writes z and z'z."""
    n = y.shape[0]
    result = log_prior.copy()
    for b in range(factors.shape[0]):
        factor = factors[b]
        squares[b], log_diagonal = 0.0, 0.0
        for i in range(n):
            value = y[i]
            for j in range(i):
                value -= factor[i, j] * z[b, j]
            value /= factor[i, i]
            z[b, i] = value
            squares[b] += value * value
            log_diagonal += math.log(factor[i, i])
        result[b] -= 0.5 * (n + 1.0) * math.log1p(squares[b]) + log_diagonal
    top = result.max()
    total = 0.0
    for b in range(result.shape[0]):
        total += math.exp(result[b] - top)
    result -= top + math.log(total)
    return result


@compiled(error_model="numpy")
def _explain(new: Floats, inverse: float, var: Floats) -> None:
    """Scale a row of V to its length, and take what it explains from the variance; both change in place."""
    for i in range(new.shape[0]):
        new[i] *= inverse
        var[i] = max(var[i] - new[i] * new[i], 0.0)


@compiled(error_model="numpy")
def _extend(
    whitened: Floats, count: int, n: int, seen: Rows, features: Floats, inverse_squares: Floats,
    factor: Floats, var: Floats,
) -> None:  # fmt: skip
    """Rows count to n - 1 of V, and the variance that they leave."""
    for k in range(count, n):
        new = whitened[k]
        _covariances(features, seen[k], inverse_squares, new)
        for j in range(k):
            share, earlier = factor[k, j], whitened[j]
            for i in range(new.shape[0]):
                new[i] -= share * earlier[i]
        inverse = 1.0 / factor[k, k]
        _explain(new, inverse, var)


@compiled(error_model="numpy")
def _weighted_sum(whitened: Floats, z: Floats) -> Floats:
    """V'z, shape (N,)."""
    mean = np.zeros(whitened.shape[1])
    for k in range(z.shape[0]):
        row = whitened[k]
        for i in range(mean.shape[0]):
            mean[i] += z[k] * row[i]
    return mean


@compiled(error_model="numpy")
def _observe_pending(
    whitened: Floats, pending: Rows, features: Floats, inverse_squares: Floats, noise: float, more: Floats,
    var: Floats,
) -> None:  # fmt: skip
    """Rows of V for k pending rows, shape (k, N), after those of n observed rows; var changes in place.

    The new row of L is the pending row's own column of V.
    """
    n = whitened.shape[0]
    for k in range(pending.shape[0]):
        p, new = pending[k], more[k]
        pivot = 1.0 + noise
        _covariances(features, p, inverse_squares, new)
        for j in range(n + k):
            earlier = whitened[j] if j < n else more[j - n]
            share = earlier[p]
            pivot -= share * share
            for i in range(new.shape[0]):
                new[i] -= share * earlier[i]
        inverse = 1.0 / math.sqrt(max(pivot, 0.5 * noise))
        _explain(new, inverse, var)
