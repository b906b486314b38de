"""Power of the t test over families: how many families, tables and trials show a ratio?

    symbol     meaning
    log r_ij   log ratio of a comparison on table j of family i: see figure.py
    s_F, s_T   standard deviations between families, and between tables of a family
    s_1        standard deviation of log r from one trial on a table
    s          that of a family's mean: s^2 = s_F^2 + (s_T^2 + s_1^2 / trials) / tables

log r_ij is the sum of a mean and of these three parts. The method of moments estimates s_F and s_T: it sets
the mean squares between families and between tables of a family equal to their expectations. The t test of F
family means has the noncentral t distribution with F - 1 degrees of freedom and noncentrality log(ratio)
sqrt(F) / s.

s is uncertain, and so is power. A mean square times its degrees of freedom over its expectation is close to
chi-squared. Each draw from this law gives plausible components (generalised pivots, Weerahandi 1993), and
quantiles over draws give a 90% range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np
from scipy.special import nctdtr, stdtrit

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.verdicts import FEWEST_FAMILIES, POWER

_QUANTILES = (0.05, 0.95)
_MOST_FAMILIES = 10_000
# The power at this noncentrality is 1.
_LARGEST_SHIFT = 25.0


@dataclass(frozen=True, eq=False)
class Components:
    """Standard deviations of log r: numbers, or arrays of one shape with equally plausible values.

    Attributes:
        families: between families. With one table in each family, it includes `tables`.
        tables: between tables of a family.
        trial: of one trial on a table.
    """

    families: Floats
    tables: Floats
    trial: Floats

    def family_sd(self, tables: float, trials: float) -> Floats:
        """Standard deviation of the mean of log r in a family of this many tables, with this many trials."""
        cell = self.trial**2 / trials
        return np.sqrt(self.families**2 + (self.tables**2 + cell) / tables)


@dataclass(frozen=True)
class PowerAt:
    """Whether a test over families would show a true ratio, with 90% ranges.

    Attributes:
        ratio: the true ratio.
        power, low, high: probability of p < 0.05.
        needed, fewest, most: number of families for a power of 0.8; infinite above 10,000.
    """

    ratio: float
    power: float
    low: float
    high: float
    needed: float
    fewest: float
    most: float


def components(
    logs: Floats, variances: Floats, trials: Floats, families: Sequence[str], draws: int = 0, seed: int = 0
) -> Components:
    """Estimated components of a comparison, or plausible components.

    Args:
        logs: log r by table, shape (n,). Tables where it is NaN are left out.
        variances: squared standard errors of `logs` over trials, shape (n,).
        trials: number of trials of each table, shape (n,).
        families: name of each table's family.
        draws: 0 for the estimates; otherwise the number of plausible values, which become arrays.
        seed: of the random numbers for the plausible values.

    Raises:
        InputError: the tables are of fewer than two families, or a variance is missing.
    """
    known = ~np.isnan(logs)
    names, family = np.unique(np.array(families)[known], return_inverse=True)
    logs, variances, trials = logs[known], variances[known], trials[known]
    if len(names) < 2:
        raise InputError(f"power needs results on tables of two or more families, not {len(names)}.")
    if np.isnan(variances).any():
        raise InputError("power needs results of two or more trials on each table.")
    sizes = np.bincount(family)
    means = np.bincount(family, logs) / sizes
    freedom = np.array([len(names) - 1, len(logs) - len(names)])
    squares = np.array([((means - means.mean()) ** 2).sum(), ((logs - means[family]) ** 2).sum()])
    chance = freedom[:, None] + 0.0
    if draws:
        chance = np.random.default_rng(seed).chisquare(np.maximum(freedom, 1)[:, None], (2, draws))
    between, within = squares[:, None] / np.maximum(chance, 1e-300)
    # What trials contribute to each mean square.
    of_family = np.bincount(family, variances)
    of_trials = ((1 - 1 / sizes) * of_family).sum() / max(freedom[1], 1)
    tables = np.maximum(within - of_trials, 0.0)
    of_trials = (of_family / sizes**2).mean()
    between = np.maximum(between - tables * (1 / sizes).mean() - of_trials, 0.0)
    trial = np.full_like(tables, (variances * trials).mean())
    found = np.sqrt([between, tables, trial])
    return Components(*(found if draws else found[:, 0]))


def power(ratio: float, families: int, family_sd: float | Floats) -> Floats:
    """Probability that the t test over this many families has p < 0.05, whatever the direction."""
    shift = np.minimum(abs(log(ratio)) * families**0.5 / family_sd, _LARGEST_SHIFT)
    limit = stdtrit(families - 1, 0.5 + CONFIDENCE / 2)
    # Tails too small for the library are NaN.
    wrong_direction = np.nan_to_num(nctdtr(families - 1, shift, -limit))
    return np.asarray(1.0 - nctdtr(families - 1, shift, limit) + wrong_direction)


def families_needed(ratio: float, family_sd: float) -> float:
    """The smallest number of families, at least FEWEST_FAMILIES, with a power of 0.8; or infinite."""
    counts = range(FEWEST_FAMILIES, _MOST_FAMILIES + 1)
    place = bisect_left(counts, POWER, key=lambda count: float(power(ratio, count, family_sd)))
    return float(counts[place]) if place < len(counts) else inf


def power_at(
    ratio: float, families: int, tables: float, trials: float, estimated: Components, plausible: Components
) -> PowerAt:
    """Power and the number of families needed, with the ranges from plausible components."""
    sd = float(estimated.family_sd(tables, trials))
    small, large = np.quantile(plausible.family_sd(tables, trials), _QUANTILES).tolist()
    chances = power(ratio, families, np.array([sd, large, small])).tolist()
    return PowerAt(ratio, *chances, *(families_needed(ratio, value) for value in (sd, small, large)))
