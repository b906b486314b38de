"""Gaussian posteriors of many kernels over one finite set, weighted by their evidence.

No single length scale suits all tables. A bank has B kernels with fixed length scales and noise variances.
The kernels are weighted by their evidence, and nothing is optimised. Each kernel is a mean of two parts: a
Matern-5/2 kernel k of all H hyperparameters, and an additive part, which is the average of H kernels of one
hyperparameter each, with the same length scales (Duvenaud et al. 2011):

    K(x, x') = (1 - a) k(sum_h d_h^2) + a / H sum_h k(d_h^2),   d_h = (x_h - x'_h) / length_h

Rows may be observed at several stages of their training. A row x at stage i and a row x' at stage j have the
covariance T[i,j] (K(x, x') + c). Candidates are rows at the last stage. With one stage, T is 1 and c is 0.

    symbol   shape      meaning
    W        B x H      1 / length^2 of each kernel and hyperparameter; the columns of a category share theirs
    s^2      B          noise variance, as a share of the kernel's amplitude^2
    T, c                covariance of the stages, 1 on its diagonal; variance that all rows have in common
    L        B x n x n  Cholesky factors of K_b[S,S] + s_b^2 I for the n points S observed
    y        n          targets, new at every step; prior mean 0
    z        B x n      L_b^-1 y
    V        n x N      L_b^-1 K_b[S,:], only for kernels that were used

The amplitude^2 has the prior InvGamma(1/2, 1/2) and is integrated out, so that y is Student with one degree
of freedom (Rasmussen & Williams 2006, section 5.4.1, with a prior; Shah et al. 2014, "Student-t
Processes"):

    log p(y | b) = -(n + 1) / 2 log(1 + z'z) - sum log diag L_b + constant

A posterior is treated as normal. Its variance is that of amplitude 1 times (1 + z'z) / (n + 1), the squared
scale of the Student distribution. V is stored for kernels that were used at some step, up to a memory limit,
and is brought up to date when the kernel is used again. L is stored for all kernels, up to the same limit.
After 1,024 rows, only the 16 of 58 kernels with the largest weights are kept. Each time n doubles again, only
a quarter of them are kept. Observing a row takes O(B n^2), and a step takes O(n N) for each kernel that is
used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.surrogates.cholesky import add_rows, divide_row, solve

_ROWS = 8  # initial capacity of the arrays; doubled as needed
_CACHE_BYTES = 512 * 2**20  # limit of V over all members, and the same limit of L
LEAST_HELD = 16  # members whose V is kept even beyond the limit
# Numbers of values, and of candidates, that are computed together, so that they stay in the processor's
# cache.
_PART = 256
_TILE = 1024


@dataclass(frozen=True, eq=False)
class Bank:
    """The kernels: W (B, H), noise variances (B,), logarithms of prior weights (B,), and the share a."""

    inverse_squares: Floats
    noise: Floats
    log_prior: Floats
    additive: float

    def __len__(self) -> int:
        return len(self.noise)


ONE_STAGE = np.ones((1, 1))


class Points(NamedTuple):
    """N rows as codes of the U distinct values of their H hyperparameters, and the stages of observation.

    Kernels are computed between values, because a grid has few values, and looked up for rows. Row p at stage
    i is the point i N + p.

    Attributes:
        values: features of each value, shape (w, U), for the w columns of the widest hyperparameter.
        starts: where the values of each hyperparameter begin, shape (H + 1,).
        code: index of each row's value of each hyperparameter, shape (H, N).
        stages: T, shape (I, I).
        common: c.
    """

    values: Floats
    starts: Rows
    code: Rows
    stages: Floats
    common: float


def points_of(
    features: Floats, columns: Sequence[int], stages: Floats = ONE_STAGE, common: float = 0.0
) -> Points:
    """The points of features, shape (N, F); `columns` has the number of features of each hyperparameter."""
    code, widest = np.zeros((len(columns), len(features)), dtype=np.int64), max(columns, default=0)
    found, starts, first = [], [0], 0
    for h, count in enumerate(columns):
        own = features[:, first : first + count]
        values, inverse = _distinct(own)
        if 2 * len(values) > len(own):  # values in the order of the rows are read sequentially
            values, inverse = own, np.arange(len(own))
        code[h] = starts[-1] + inverse
        found.append(np.vstack([values.T, np.zeros((widest - count, len(values)))]))
        starts.append(starts[-1] + len(values))
        first += count
    return Points(
        np.concatenate(found, axis=1) if found else np.empty((0, 0)), np.array(starts), code, stages, common
    )


def _distinct(rows: Floats) -> tuple[Floats, Rows]:
    """The distinct rows, and the number of each row among them. One column is hashed, not sorted."""
    if rows.shape[1] == 1:
        inverse, values = pd.factorize(rows[:, 0])
        return values[:, None], inverse
    values, inverse = np.unique(rows, axis=0, return_inverse=True)
    return values, inverse.ravel()


class BankPosterior:
    """The posteriors of B kernels over N candidates, given n points, whose numbers are in `seen`."""

    def __init__(self, bank: Bank, points: Points) -> None:
        self.bank = bank
        self._points = points
        self.seen: list[int] = []
        self._factors = np.zeros((len(bank), _ROWS, _ROWS))
        self._held: dict[int, _Field] = {}  # by member, the one used longest ago first
        self._weighed: dict[bytes, Weights] = {}  # by the targets' bytes

    @property
    def n_candidates(self) -> int:
        """N."""
        return int(self._points.code.shape[1])

    def renew(self, points: Points, kept: int) -> None:
        """Replace the candidates, but for the first `kept`. Observed points must be among these."""
        self._points = points
        for held in self._held.values():
            held.known = min(held.known, kept)

    def observe(self, point: int, targets: Callable[[], Sequence[Floats]]) -> None:
        """Condition every member on a point.

        Args:
            targets: returns all targets that a step weights the members by, of the points observed before,
                shape (n,) each. They are used only if the memory limit is reached, to decide which members to
                drop.
        """
        if len(self.seen) == self._factors.shape[1]:
            self._grow(targets)
        bank = self.bank
        seen = np.array([*self.seen, point])
        codes = self._codes(seen[:-1])
        _append(self._factors, seen, codes, self._points, bank.inverse_squares, bank.noise, bank.additive)
        self.seen.append(point)
        self._weighed = {}

    def _codes(self, seen: Rows) -> Rows:
        """The codes of n points, shape (H, n), contiguous: numba compiles functions for each layout anew."""
        return np.ascontiguousarray(self._points.code[:, seen % self.n_candidates])

    def _grow(self, targets: Callable[[], Sequence[Floats]]) -> None:
        """Make room for twice as many rows, and drop members that exceed the memory limit.

        A member's weight is the largest of its weights for the different targets.
        """
        n = self._factors.shape[1]
        most = max(_CACHE_BYTES // (8 * (2 * n) ** 2), 1)
        keep = np.arange(len(self.bank))
        if most < len(keep):
            largest = np.max([self.weigh(y).log_weights for y in targets()], axis=0)
            keep = np.sort(np.argsort(-largest, kind="stable")[:most])
        more = np.zeros((len(keep), 2 * n, 2 * n))
        more[:, :n, :n] = self._factors[keep]
        self._factors = more
        self._held = {k: self._held[b] for k, b in enumerate(keep.tolist()) if b in self._held}
        bank = self.bank
        self.bank = Bank(bank.inverse_squares[keep], bank.noise[keep], bank.log_prior[keep], bank.additive)

    def weigh(self, y: Floats) -> Weights:
        """The members' weights given targets y, shape (n,), in the order of `seen`."""
        if (known := self._weighed.get(y.tobytes())) is not None:
            return known
        z = np.empty((len(self.bank), len(y)))
        squares = np.empty(len(self.bank))
        log_weights = _log_weights(self.bank.log_prior, self._factors, y, z, squares)
        found = Weights(log_weights, z, (1.0 + squares) / (len(y) + 1.0))
        return self._weighed.setdefault(y.tobytes(), found)

    def log_evidence(self, y: Floats) -> float:
        """log of the mean over members of p(y | b), by their prior weights, up to a function of n."""
        n, weights = len(y), self.weigh(y)
        member = int(weights.log_weights.argmax())
        log_diagonal = sum(map(math.log, self._factors[member].diagonal()[:n].tolist()))
        log_squares = math.log(weights.amplitude[member])
        joint = self.bank.log_prior[member] - 0.5 * (n + 1.0) * log_squares - log_diagonal
        return float(joint - weights.log_weights[member])

    def fields(
        self, members: Sequence[int], weights: Weights, running: Sequence[int] = ()
    ) -> tuple[Floats, Floats]:
        """Posterior mean and variance of every candidate for some members, shape (k, N) each.

        The variance is conditioned on the running points as well (see pending.py).
        """
        mean, var = np.empty((2, len(members), self.n_candidates))
        seen = np.array(self.seen, dtype=np.int64)
        for place, member in enumerate(members):
            held = self._caught_up(member, seen, len(running))
            mean[place] = 0.0
            add_rows(held.whitened, weights.whitened_targets[member], mean[place])
            left = self._once_observed(held, member, running) if running else held.var
            np.multiply(left, weights.amplitude[member], out=var[place])
        return mean, var

    def _once_observed(self, held: _Field, member: int, running: Sequence[int]) -> Floats:
        """The variance once these points are observed. Overwrites the unused rows of V."""
        n, bank = len(self.seen), self.bank
        points = np.array([*self.seen, *running])
        inverse_squares, noise = bank.inverse_squares[member], bank.noise[member]
        factor = np.zeros((1, len(points), len(points)))
        factor[0, :n, :n] = self._factors[member, :n, :n]
        for end in range(n + 1, len(points) + 1):
            codes = self._codes(points[: end - 1])
            _append(
                factor, points[:end], codes, self._points, inverse_squares[None], noise[None], bank.additive
            )
        var = held.var.copy()
        codes = self._points.code
        _extend(held.whitened, n, points, self._points, codes, inverse_squares, bank.additive, factor[0], var)
        return var

    def _caught_up(self, member: int, seen: Rows, n_running: int) -> _Field:
        """V of a member for all points seen. Beyond the limit, the fields used longest ago are dropped.

        V has spare rows for the running points.
        """
        points, n, n_candidates = self._points, len(seen), self.n_candidates
        held = self._held.pop(member, None) or _Field(points)
        held.make_room(n + n_running, n_candidates)
        kernel = self.bank.inverse_squares[member], self.bank.additive, self._factors[member]
        if (first := held.known) < n_candidates:
            new, var = np.empty((held.count, n_candidates - first)), held.var[first:]
            var[:] = 1.0 + points.common
            codes = np.ascontiguousarray(points.code[:, first:])
            _extend(new, 0, seen[: held.count], points, codes, *kernel, var)
            held.whitened[: held.count, first:], held.known = new, n_candidates
        _extend(held.whitened, held.count, seen, points, points.code, *kernel, held.var)
        held.count = n
        self._held[member] = held
        limit = max(_CACHE_BYTES // (held.whitened.nbytes + 1), LEAST_HELD)
        while len(self._held) > limit:
            self._held.pop(next(iter(self._held)))
        return held


class Weights(NamedTuple):
    """The members' weights for targets y.

    Attributes:
        log_weights: logarithms of weights that sum to 1, shape (B,).
        whitened_targets: z of every member, shape (B, n).
        amplitude: the factor of each member's variance, shape (B,).
    """

    log_weights: Floats
    whitened_targets: Floats
    amplitude: Floats

    def heaviest(self, share: float) -> list[int]:
        """The fewest members that together hold this share of the weight, the heaviest first."""
        order = np.argsort(-self.log_weights, kind="stable")
        held = np.cumsum(np.exp(self.log_weights[order]))
        return [int(member) for member in order[: int(np.searchsorted(held, share)) + 1]]


class _Field:
    """V of a member, of which the first `count` rows are computed, for the first `known` candidates."""

    def __init__(self, points: Points) -> None:
        self.known = points.code.shape[1]
        self.whitened: Floats = np.empty((0, self.known))
        self.count = 0
        self.var: Floats = np.full(self.known, 1.0 + points.common)

    def make_room(self, n_points: int, n_candidates: int) -> None:
        """Give the arrays room for this many rows, and exactly this many columns."""
        capacity = max(len(self.whitened), _ROWS)
        while capacity < n_points:
            capacity *= 2
        if (capacity, n_candidates) != self.whitened.shape:
            whitened, var = np.empty((capacity, n_candidates)), np.empty(n_candidates)
            whitened[: self.count, : self.known] = self.whitened[: self.count, : self.known]
            var[: self.known] = self.var[: self.known]
            self.whitened, self.var = whitened, var


@compiled(error_model="numpy")
def _matern_of_all(squares: Floats, found: Floats) -> None:
    """The same for many distances; writes `found`. All but the C library's exponential is vectorised.

    `exponentials` of improvement.py is faster, but one number in ten differs in the last bit. That would
    change the choice among rows with exactly equal values.
    """
    roots = np.empty(_PART)
    for start in range(0, squares.shape[0], _PART):
        part, own = squares[start : start + _PART], found[start : start + _PART]
        for i in range(part.shape[0]):
            roots[i] = math.sqrt(5.0 * part[i])
        for i in range(part.shape[0]):
            own[i] = math.exp(-roots[i])
        for i in range(part.shape[0]):
            r = roots[i]
            own[i] = (1.0 + r + r * r / 3.0) * own[i]


@compiled(error_model="numpy")
def _alone(values: Floats, here: Floats, inverse_square: float, squares: Floats, found: Floats) -> None:
    """Squared distances of a hyperparameter's values from one value, and their kernel; writes both."""
    squares[:] = 0.0
    for c in range(values.shape[0]):
        column, middle = values[c], here[c]
        for u in range(column.shape[0]):
            gap = column[u] - middle
            squares[u] += gap * gap * inverse_square
    _matern_of_all(squares, found)


def _matern(squares: Floats) -> Floats:
    """The same in NumPy. Its exponential is the C library's for complex numbers only."""
    r = np.sqrt(5.0 * squares)
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r.astype(np.complex128)).real)


def _plain_covariances(
    points: Points, codes: Rows, point: int, inverse_squares: Floats, additive: float, found: Floats
) -> None:
    n_hyperparameters, n_others = codes.shape
    squared, each = np.zeros(n_others), np.zeros(n_others)
    for h in range(n_hyperparameters):
        first, end = points.starts[h], points.starts[h + 1]
        few = end - first < n_others
        here = points.values[:, points.code[h, point % points.code.shape[1]], None]
        gaps = (points.values[:, first:end] if few else points.values[:, codes[h]]) - here
        squares = np.zeros(gaps.shape[1])
        for gap in gaps:
            squares += gap * gap * inverse_squares[h]
        of_each = codes[h] - first if few else slice(None)
        squared += squares[of_each]
        each += _matern(squares)[of_each]
    share = additive / max(n_hyperparameters, 1)
    found[:] = (1.0 - additive) * _matern(squared) + share * each + points.common


@compiled(_plain_covariances, error_model="numpy")
def _covariances(
    points: Points, codes: Rows, point: int, inverse_squares: Floats, additive: float, found: Floats
) -> None:
    """K(x, x') + c of one point with M others, given by their codes, shape (H, M); writes `found`."""
    values, starts = points.values, points.starts
    n_hyperparameters, n_others = codes.shape
    share = additive / max(n_hyperparameters, 1)
    squares, alone = np.empty(values.shape[1]), np.empty(values.shape[1])
    own, own_squares, own_alone = np.empty((values.shape[0], _TILE)), np.empty(_TILE), np.empty(_TILE)
    squared, each = np.empty(_TILE), np.empty(_TILE)
    for h in range(n_hyperparameters):
        first, end = starts[h], starts[h + 1]
        if end - first < n_others:
            here = values[:, points.code[h, point % points.code.shape[1]]]
            _alone(values[:, first:end], here, inverse_squares[h], squares[first:end], alone[first:end])
    for start in range(0, n_others, _TILE):
        width = min(_TILE, n_others - start)
        squared[:] = 0.0
        each[:] = 0.0
        for h in range(n_hyperparameters):
            code = codes[h, start : start + width]
            if starts[h + 1] - starts[h] < n_others:
                for i in range(width):
                    squared[i] += squares[code[i]]
                    each[i] += alone[code[i]]
                continue
            for c in range(values.shape[0]):
                for i in range(width):
                    own[c, i] = values[c, code[i]]
            here = values[:, points.code[h, point % points.code.shape[1]]]
            _alone(own[:, :width], here, inverse_squares[h], own_squares[:width], own_alone[:width])
            for i in range(width):
                squared[i] += own_squares[i]
                each[i] += own_alone[i]
        _matern_of_all(squared[:width], own_alone)
        tile = found[start : start + width]
        for i in range(width):
            tile[i] = (1.0 - additive) * own_alone[i] + share * each[i] + points.common


@compiled(error_model="numpy")
def covariances(points: Points, inverse_squares: Floats, additive: float) -> Floats:
    """K of B kernels over all N rows, shape (B, N, N); W has shape (B, H)."""
    n = points.code.shape[1]
    found = np.empty((inverse_squares.shape[0], n, n))
    for b in range(found.shape[0]):
        for i in range(n):
            _covariances(points, points.code, i, inverse_squares[b], additive, found[b, i])
    return found


@compiled(plain=True, error_model="numpy")
def _append(
    factors: Floats, seen: Rows, codes: Rows, points: Points, inverse_squares: Floats, noise: Floats,
    additive: float,
) -> None:  # fmt: skip
    """Row n of every factor, for the last of n + 1 points; the first n have these codes, shape (H, n)."""
    n, n_rows = seen.shape[0] - 1, points.code.shape[1]
    covariances = np.empty(n)
    for b in range(factors.shape[0]):
        row = factors[b, n]
        _covariances(points, codes, seen[n], inverse_squares[b], additive, covariances)
        for i in range(n):
            covariances[i] *= points.stages[seen[n] // n_rows, seen[i] // n_rows]
        solve(factors[b], covariances, row)
        pivot = 1.0 + points.common + noise[b]
        for i in range(n):
            pivot -= row[i] * row[i]
        row[n] = math.sqrt(max(pivot, 0.5 * noise[b]))


@compiled(plain=True, error_model="numpy")
def _log_weights(log_prior: Floats, factors: Floats, y: Floats, z: Floats, squares: Floats) -> Floats:
    """Logarithms of prior times evidence, normalised to sum 1, shape (B,); writes z and z'z."""
    n = y.shape[0]
    result = log_prior.copy()
    for b in range(factors.shape[0]):
        solve(factors[b], y, z[b])
        squares[b], log_diagonal = 0.0, 0.0
        for i in range(n):
            squares[b] += z[b, i] * z[b, i]
            log_diagonal += math.log(factors[b, i, i])
        result[b] -= 0.5 * (n + 1.0) * math.log1p(squares[b]) + log_diagonal
    top, total = result[0], 0.0
    for b in range(result.shape[0]):
        top = max(top, result[b])
    for b in range(result.shape[0]):
        total += math.exp(result[b] - top)
    total = top + math.log(total)
    for b in range(result.shape[0]):
        result[b] -= total
    return result


@compiled(plain=True, error_model="numpy")
def _extend(
    whitened: Floats, count: int, seen: Rows, points: Points, codes: Rows, inverse_squares: Floats,
    additive: float, factor: Floats, var: Floats,
) -> None:  # fmt: skip
    """Compute the rows of V from `count` on for candidates of some codes, (H, M), and their variance."""
    shares = np.empty(seen.shape[0])
    for k in range(count, seen.shape[0]):
        new, shared = whitened[k], points.stages[seen[k] // points.code.shape[1], -1]
        _covariances(points, codes, seen[k], inverse_squares, additive, new)
        if shared != 1.0:
            for i in range(new.shape[0]):
                new[i] *= shared
        for j in range(k):
            shares[j] = -factor[k, j]
        add_rows(whitened[:k], shares[:k], new)
        divide_row(new, factor[k, k], var)
