"""BO_auto: Bayesian optimisation that averages over a bank of kernels and survives diverged trainings.

The surrogate is a Gaussian process over the finite set. Its length scales and its noise are not fitted.
Instead, a bank of kernels (kernel_bank.py) is weighted by evidence at every step. Losses are warped first
(warping.py), so that it does not matter how large the loss of a diverged training is. After the initial
design nothing is random.

One loss: the expected improvement is averaged over the kernels with the largest weights, by their weights.
Snoek et al. 2012, "Practical Bayesian Optimization of Machine Learning Algorithms", average over
hyperparameters in the same way. Several losses: each loss has its own weights, and the mixture of its
kernels' predictions is replaced by the normal distribution with the same mean and variance. The acquisition
is expected hypervolume improvement for two losses, and an optimistic guess of the hypervolume for more. With
constraints, the acquisition is multiplied by the probability that they are kept, as in constrained.py.

docs/explanation/auto.md has the reason for each choice, and `benchmarks/methods/auto_ablation.py` has the
experiments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.acquisitions.acquisition import Belief, by_expected_hypervolume
from hpobench_nmt.methods.acquisitions.improvement import (
    log_ehvi_of_all,
    log_mean_ei_of_contenders,
    log_probability_below,
)
from hpobench_nmt.methods.acquisitions.optimistic_hypervolume import (
    by_optimistic_hypervolume,
    log_of_optimistic,
)
from hpobench_nmt.methods.sampler import RowSearch, free_rows
from hpobench_nmt.methods.search import chosen
from hpobench_nmt.methods.surrogates.columns import feature_counts
from hpobench_nmt.methods.surrogates.kernel_bank import Bank, BankPosterior, Points, points_of
from hpobench_nmt.methods.surrogates.warping import Warped, logarithmic, straight, warped_violations

# Length scales that are equal for all hyperparameters, on features in [0, 1].
LENGTHS = (0.15, 0.3, 0.6, 1.0, 2.0)
# Vectors with a length scale for each hyperparameter are log-normal. Their median is this number times the
# root of the number of hyperparameters, so that scaled distances between random rows do not depend on that
# number.
MEDIAN_LENGTH, VECTOR_SEED = 0.35, 0
NOISES = (1e-4, 3e-2)
WEIGHT = 0.95
# The most candidates times averaged members, so that a step in a large space stays fast, and the fewest
# members.
_MOST_VALUES, _FEWEST = 800_000, 8


class AutoBO(RowSearch):
    """The method; rng is only used until the first row is observed.

    For n observed rows, a step takes O(n N) for each member that is averaged, and O(n^2) for each other
    member.

    Args:
        cap: losses that lie more than this many scales above the median are equally bad; infinite for no
            bound.
        isotropic: whether the bank has kernels of equal length scales.
        vectors: how many vectors with a length scale for each hyperparameter it has.
        length_sd: standard deviation of the logarithms of those length scales.
        additive: share of each kernel's variance that is a sum over hyperparameters, 0 to 1.
        weight: the members with the largest weights that together hold this share of the weight are averaged,
            above 0 to 1.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        cap: float = 3.0,
        isotropic: bool = True,
        vectors: int = 24,
        length_sd: float = 1.0,
        additive: float = 0.5,
        weight: float = WEIGHT,
    ) -> None:
        if not (cap > 0 and vectors >= 0 and 0 <= length_sd <= 10 and 0 <= additive <= 1 and 0 < weight <= 1):
            raise InputError(
                "BO_auto needs cap above 0, vectors of 0 or more, length_sd of 0 to 10, additive of 0 to 1, "
                "and weight above 0, at most 1."
            )
        if not (isotropic or vectors):
            raise InputError("BO_auto has an empty bank: set isotropic=true, or vectors to 1 or more.")
        self._cap, self._weight = math.log1p(cap), weight
        bank = bank_of(problem, isotropic, vectors, length_sd, additive)
        self._posterior = BankPosterior(bank, _points_of(problem))
        self._features, self._rng = problem.features, rng
        self._unseen = np.ones(len(problem.features), dtype=bool)
        self._targets = np.empty((64, problem.n_objectives + len(problem.constraints)))
        self._m, self._constrained = problem.n_objectives, bool(problem.constraints)
        self._renewed, self._modelled = False, (0, list[Warped]())

    def renew(self, problem: Problem) -> None:
        """Replace the candidates. Observed rows must keep their numbers and features.

        From the first call on, a loss is not warped if the kernels explain it better as it is.
        """
        self._renewed = True
        self._unseen = np.ones(len(problem.features), dtype=bool)
        self._unseen[self._posterior.seen] = False
        shortest = min(len(self._features), len(problem.features))
        equal = (self._features[:shortest] == problem.features[:shortest]).all(axis=1)
        kept = shortest if equal.all() else int(equal.argmin())
        self._features = problem.features
        self._posterior.renew(points_of(problem.features, feature_counts(problem)), kept)

    def recommend(self, rows: Sequence[int]) -> int:
        """The row with the smallest posterior mean of the first loss, among some observed rows.

        The smallest of several noisy losses is usually one that the noise has lowered. The posterior mean
        averages the noise out.
        """
        return rows[int(self.expected()[list(rows)].argmin())]

    def expected(self) -> Floats:
        """Posterior mean of the first loss, warped, of every candidate, shape (N,)."""
        return self._mixture(self._warped()[0].values, ())[0]

    def expected_gain(self, running: Mapping[int, float]) -> float:
        """The largest EI, in the loss's unit: how much the next row is expected to lower the best loss.

        Infinite while it is unknown, because all losses are equal or no observed row satisfies the
        constraints.
        """
        n, free = len(self._posterior.seen), free_rows(self._unseen, running)
        if not free.any():
            return 0.0
        if not self._keeps(self._targets[:n]).any():  # or nothing was observed
            return math.inf
        unit = self._warped()[0].unit
        if math.isnan(unit):
            return math.inf
        return unit * math.exp(self._values(list(running), free)[free].max())

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The row with the largest value, neither seen nor running; None if no such row is left."""
        free, count = free_rows(self._unseen, running), len(self._posterior.seen)
        return chosen(self._rng, free, count, lambda: self._values(list(running), free, self._preference()))

    def _preference(self) -> Floats | float:
        """What is added to the logarithm of the acquisition of each candidate, shape (N,)."""
        return 0.0

    def tell(self, index: int, losses: Floats) -> None:
        """Learn a row's losses; a missing loss counts as the worst."""
        n = len(self._posterior.seen)
        if n == len(self._targets):
            self._targets = np.concatenate([self._targets, np.empty_like(self._targets)])
        self._targets[n] = np.nan
        self._targets[n, : len(losses)] = losses
        self._unseen[index] = False
        self._posterior.observe(index, self._all_warped)

    def tell_constrained(self, index: int, losses: Floats, violations: Floats) -> None:
        """Learn a row's losses and violations; a missing violation counts as large."""
        self.tell(index, np.concatenate([losses, violations]))

    def _values(self, pending: Sequence[int], free: Bools, preference: Floats | float = 0.0) -> Floats:
        """Logarithms of the acquisition, plus a preference (it needs one loss), shape (N,).

        They may be -inf for rows that are not free or cannot win.
        """
        losses = np.stack([each.values for each in self._warped()])
        values = np.where(free, preference, -np.inf)
        if not self._constrained:
            return self._improvement(losses, losses, pending, values)
        kept = self._keeps(self._targets[: len(self._posterior.seen)])
        for y, bound in self._violations():
            mean, var = self._mixture(y, pending)
            values += log_probability_below(np.array([bound]), mean[None], var)
        return self._improvement(losses, losses[:, kept], pending, values) if kept.any() else values

    def _warped(self) -> list[Warped]:
        """Each loss of all observed rows."""
        n = len(self._posterior.seen)
        if n != self._modelled[0]:
            told = np.ascontiguousarray(self._targets[:n].T)
            self._modelled = n, [self._loss(column) for column in told[: self._m]]
        return self._modelled[1]

    def _loss(self, losses: Floats) -> Warped:
        """One loss, warped; among renewed candidates, as it is if the kernels explain that better."""
        capped = logarithmic(losses, self._cap)
        if not self._renewed:
            return capped
        plain, bent = straight(losses), logarithmic(losses, math.inf)
        evidence = [self._posterior.log_evidence(each.values) + each.log_slopes for each in (plain, bent)]
        return plain if evidence[0] > evidence[1] else capped

    def _violations(self) -> list[tuple[Floats, float]]:
        """Of each constraint, the warped violations of all observed rows, shape (n,), and the bound."""
        told = np.ascontiguousarray(self._targets[: len(self._posterior.seen), self._m :].T)
        return [warped_violations(column) for column in np.where(np.isnan(told), np.inf, told)]

    def _all_warped(self) -> list[Floats]:
        """All targets that the bank is weighted by, shape (n,) each."""
        return [*(each.values for each in self._warped()), *(y for y, _ in self._violations())]

    def _keeps(self, told: Floats) -> Bools:
        """Which of the observed rows satisfy all constraints, shape (n,)."""
        return np.asarray((told[:, self._m :] <= 0).all(axis=1))  # False if a violation is missing

    def _improvement(self, y: Floats, feasible: Floats, pending: Sequence[int], offsets: Floats) -> Floats:
        """Log improvement of warped losses y, (m, n), over those of feasible rows, plus offsets, (N,)."""
        if self._m == 1:
            return log_mean_ei(self._posterior, y[0], float(feasible.min()), pending, offsets, self._weight)
        mixtures = [self._mixture(column, pending) for column in y]
        mean, var = (np.array(part) for part in zip(*mixtures, strict=True))
        front = feasible.T[pareto_front(feasible.T)]
        front = np.ascontiguousarray(front[np.argsort(front[:, 0], kind="stable")])
        belief = Belief(mean, var, offsets > -np.inf, front, y.min(axis=1), y.max(axis=1), None)
        if self._m > 2:
            values = by_optimistic_hypervolume(belief)
            return offsets + log_of_optimistic(values) if self._constrained else values
        if self._constrained:  # EHVI alone does not determine which candidates could win
            return offsets + log_ehvi_of_all(mean, var, front, belief.reference)
        return by_expected_hypervolume(belief)

    def _mixture(self, y: Floats, pending: Sequence[int]) -> tuple[Floats, Floats]:
        """Mean and variance of every candidate in the mixture of the heaviest members, shape (N,) each."""
        return _moments(*_fields(self._posterior, y, pending, self._weight))


def log_mean_ei(
    posterior: BankPosterior,
    y: Floats,
    best: float,
    pending: Sequence[int],
    offsets: Floats,
    weight: float = WEIGHT,
) -> Floats:
    """log of the mean of the members' EI below `best`, plus offsets, shape (N,); -inf where no row can win.

    Args:
        posterior: the bank's posterior, given n points.
        y: their targets, shape (n,).
        best: the target to improve on.
        pending: points that are being evaluated.
        offsets: shape (N,); -inf where a row is not free.
        weight: the members with the largest weights that together hold this share of the weight are averaged.
    """
    mean, var, log_weights = _fields(posterior, y, pending, weight)
    return log_mean_ei_of_contenders(mean, var, best, log_weights, offsets)


def _fields(
    posterior: BankPosterior, y: Floats, pending: Sequence[int], weight: float
) -> tuple[Floats, Floats, Floats]:
    """Means and variances of the heaviest members, shape (k, N), and logarithms of their weights, (k,)."""
    weights = posterior.weigh(y)
    members = weights.heaviest(weight)[: max(_MOST_VALUES // posterior.n_candidates, _FEWEST)]
    mean, var = posterior.fields(members, weights, pending)
    return mean, var, weights.log_weights[members]


def bank_of(
    problem: Problem, isotropic: bool = True, vectors: int = 24, length_sd: float = 1.0, additive: float = 0.5
) -> Bank:
    """The kernels for a problem, with equal prior weights. Only its number of hyperparameters matters."""
    return bank_of_size(len(feature_counts(problem)), isotropic, vectors, length_sd, additive)


@lru_cache(maxsize=32)
def bank_of_size(
    count: int, isotropic: bool = True, vectors: int = 24, length_sd: float = 1.0, additive: float = 0.5
) -> Bank:
    """The kernels for this many hyperparameters."""
    draws = np.random.default_rng(VECTOR_SEED).standard_normal((vectors, count))
    lengths = MEDIAN_LENGTH * math.sqrt(count) * np.exp(length_sd * draws)
    if isotropic:
        lengths = np.concatenate([np.repeat(np.array(LENGTHS)[:, None], count, axis=1), lengths])
    noise = np.tile(NOISES, len(lengths))
    log_prior = np.full(len(noise), -math.log(len(noise)))
    return Bank(np.repeat(lengths**-2.0, len(NOISES), axis=0), noise, log_prior, additive if count else 0.0)


@lru_cache(maxsize=32)
def _points_of(problem: Problem) -> Points:
    """The values of the problem's candidates, shared by its trials."""
    return points_of(problem.features, feature_counts(problem))


@compiled(error_model="numpy")
def _moments(mean: Floats, var: Floats, log_weights: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture of k normals, by candidate; shapes (k, N), (k, N), (k,) -> (N,) each."""
    shares = np.exp(log_weights)
    shares = shares / shares.sum()
    centre, second = np.zeros(mean.shape[1]), np.zeros(mean.shape[1])
    for b in range(mean.shape[0]):
        for i in range(mean.shape[1]):
            centre[i] += shares[b] * mean[b, i]
    for b in range(mean.shape[0]):
        for i in range(mean.shape[1]):
            gap = mean[b, i] - centre[i]
            second[i] += shares[b] * (var[b, i] + gap * gap)
    return centre, second
