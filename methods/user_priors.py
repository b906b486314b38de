"""Methods that use a prior of the user: piBO and PriorBand.

    symbol   shape    meaning
    pi       N        the prior, exp(`Problem.prior`), which sums to 1 over the rows; uniform without one
    n        scalar   number of observed rows
    beta     scalar   how long the prior has an influence, 10
    r        scalar   the level at which a row starts, from 0
    p_U      scalar   probability that a row is random, 1 / (1 + eta^r)
    m        N        density of changes to the incumbent, which sums to 1 over the rows
    k        N        density of what is known of hyperparameters by their names (core/known_values.py)

piBO (Hvarfner et al. 2022, "piBO: Augmenting Acquisition Functions with User Beliefs for Bayesian
Optimization") multiplies the acquisition by pi^(beta / n), so a misleading prior loses its influence. Here
the acquisition is the expected improvement of `BO_EI_M_std`. The paper sets beta to a tenth of the budget.
Here the budget of a trial is often the whole table, so beta is a setting of its own. The first row is drawn
from pi.

PriorBand (Mallik et al. 2023, "PriorBand: Practical Hyperparameter Optimization in the Age of Deep Learning",
section 5) is a variant of Hyperband. A new row is random with probability p_U. Otherwise it is drawn from pi.
Once some row has been trained to its end and some level has eta rows, the new row is drawn from either pi or
m instead. The odds of m and pi are their sums over the best 1 / eta of the rows at the highest level with eta
rows. Of K such rows, the best counts K times, and the last counts once. The incumbent is the row with the
smallest loss at any level. Each of its hyperparameters changes with probability 1/2: a category becomes any
other, and a number changes by a normal with a standard deviation of 1/4 of its range. The paper uses a normal
around the incumbent to compute the odds, and random changes to draw the row. Here m serves both purposes.
Both pi and m are distributions over the rows of the table.

BO_known is `BO_auto` whose acquisition is multiplied by k^(beta / n) as in piBO, with beta = 3. A prior of
the problem replaces k. `Optimizer` gives it a prior that has k where the user says nothing.

A step of PriorBand takes O(N F + N log N), and a step of piBO takes O(n N).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import log_softmax

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.known_values import known_of, known_prior
from hpobench_nmt.core.priors import DEVIATION
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_all
from hpobench_nmt.methods.any_targets import standardised
from hpobench_nmt.methods.auto import AutoBO
from hpobench_nmt.methods.early.successive_halving import ETA, Hyperband
from hpobench_nmt.methods.sampler import drawn, free_rows
from hpobench_nmt.methods.search import AnyTargetsSearch
from hpobench_nmt.methods.surrogates.columns import feature_owners
from hpobench_nmt.methods.surrogates.pending import Given

BETA = 10.0
BETA_OF_KNOWN = 3.0


def log_prior(problem: Problem) -> Floats:
    """log pi, shape (N,)."""
    given = np.zeros(len(problem.features)) if problem.prior is None else problem.prior
    return np.asarray(log_softmax(given))


class PiBO(AnyTargetsSearch):
    """piBO with the model of `BO_EI_M_std`."""

    def __init__(self, problem: Problem, rng: np.random.Generator, beta: float = BETA) -> None:
        _check_beta(beta)
        super().__init__(problem, rng)
        self._log_prior = log_prior(problem)
        self._beta = beta

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The row with the largest value; before the first observation, a row drawn from the prior."""
        free = free_rows(self.posterior.unseen, running)
        if self.count or not free.any():
            return super().suggest(running)
        return drawn(self.rng, self._log_prior, free)[0]

    def scores(self, given: Given) -> Floats:
        """log EI plus the weighted log prior."""
        y = standardised(self.posterior.observed[:, 0])
        improvement = log_ei_of_all(self.posterior.mean(y), given.var, float(y.min()))
        return improvement + self._beta / self.count * self._log_prior


class KnownBO(AutoBO):
    """BO_known, for one loss."""

    def __init__(self, problem: Problem, rng: np.random.Generator, beta: float = BETA_OF_KNOWN) -> None:
        _check_beta(beta)
        super().__init__(problem, rng)
        self._beta = beta
        self._log_prior = _known(problem)

    def renew(self, problem: Problem) -> None:
        """Replace the candidates. Observed rows must keep their numbers and features."""
        super().renew(problem)
        self._log_prior = _known(problem)

    def _preference(self) -> Floats:
        return np.asarray(self._beta / len(self._posterior.seen) * self._log_prior)


def _known(problem: Problem) -> Floats:
    """The prior of the user, or else log k, shape (N,)."""
    if problem.prior is not None:
        return problem.prior
    return known_prior(problem.space, problem.configs, known_of(problem.space))


def _check_beta(beta: float) -> None:
    if not 0.0 <= beta < math.inf:
        raise InputError(f"beta must be 0 or more, not {beta:g}.")


class PriorSampler:
    """Draws rows at random, from the prior, or near the incumbent."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int, n_levels: int) -> None:
        self._features = problem.features
        self._owners = feature_owners(problem)
        self._log_prior = log_prior(problem)
        self._rng = rng
        self._eta = eta
        self._known: list[dict[int, float]] = [{} for _ in range(n_levels)]  # by level: loss by row

    def learn(self, row: int, level: int, loss: float) -> None:
        """The loss of a row at a level."""
        self._known[level][row] = loss

    def choose(self, free: Bools, level: int) -> int | None:
        """A row drawn as in section 5; None for a random row."""
        if self._rng.random() < 1.0 / (1.0 + float(self._eta) ** level):
            return None
        weights = self._log_prior
        near = self._near_incumbent()
        if near is not None and self._rng.random() < self._share(near):
            weights = near
        return drawn(self._rng, weights, free)[0]

    def _near_incumbent(self) -> Floats | None:
        """log m; None without an incumbent."""
        if not self._known[-1] or not any(len(known) >= self._eta for known in self._known):
            return None
        loss, row = min((loss, row) for known in self._known for row, loss in known.items())
        return None if math.isinf(loss) else log_changes(self._features, row, self._owners)

    def _share(self, near: Floats) -> float:
        """How often a row is drawn near the incumbent rather than from the prior."""
        known = next(known for known in reversed(self._known) if len(known) >= self._eta)
        best = sorted(known, key=known.__getitem__)[: len(known) // self._eta]
        counts = np.arange(len(best), 0, -1.0)
        top = max(near[best].max(), self._log_prior[best].max())
        ours, theirs = (float(counts @ np.exp(log[best] - top)) for log in (near, self._log_prior))
        return ours / (ours + theirs)


def log_changes(features: Floats, row: int, owners: Rows) -> Floats:
    """log m of N rows, features of shape (N, F), for changes to one of them. O(N F + N log N)."""
    log_density = np.zeros(len(features))
    for j in range(int(owners.max(initial=-1)) + 1):
        block = features[:, owners == j]
        gaps = ((block - block[row]) ** 2).sum(axis=1)
        if block.shape[1] > 1:
            changed = (gaps > 0) / (block.shape[1] - 1.0)
        else:
            values, place = np.unique(block, return_inverse=True)
            weights = np.exp(-0.5 * ((values - block[row]) / DEVIATION) ** 2)
            changed = (weights / weights.sum())[place.ravel()]
        log_density += np.log(0.5 * (gaps == 0) + 0.5 * changed)
    return np.asarray(log_softmax(log_density))


class PriorBand(Hyperband):
    """The method along learning curves."""

    def __init__(self, problem: Problem, rng: np.random.Generator, eta: int = ETA) -> None:
        super().__init__(problem, rng, eta)
        self._field.sampler = PriorSampler(problem, rng, eta, len(self._field.levels))
