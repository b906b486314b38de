"""Times fewer trainings than random search: a figure that summarises a method over tables.

    symbol     meaning
    R_i(m)     restricted mean of method m on table i: see restricted.py
    R_i(RS)    the restricted mean of random search, exact or nearly exact
    r_i        R_i(RS) / R_i(m): how many times fewer trainings m needs on the table
    family     exp(mean of log r_i over its tables)
    figure     exp(mean of log over families): each family has the same weight

For the interval of a figure, trials are resampled within tables. All methods use the same draws, because
trial i of every method starts from the same rows. Tables stay fixed, so the interval holds for these tables
only. With six or more families, a second interval resamples families, and tables within families. Only this
interval allows conclusions about other tables.

Methods are compared over tables by the exact Wilcoxon signed-rank test of the differences of log r_i. Zeros
are treated by Pratt's rule: they have ranks, but count for neither side. In a comparison with random search,
the differences are log r_i. Holm's correction is over the comparisons that are fixed before a run: each
method with random search, and each pair of methods. Tables of one family resemble each other, so the test
over tables holds for these families only. The same test over the means of families is shown as well. Only
this test allows conclusions about other families. With n families, its smallest possible p is 2^(1 - n),
which is 0.031 for six.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.evaluation.comparisons import tied_ranks
from hpobench_nmt.evaluation.intervals import CONFIDENCE, RESAMPLES, resampled_sums
from hpobench_nmt.evaluation.restricted import restricted_mean

FEWEST_FAMILIES = 6
"""With this many families or more, families are resampled as well."""
# Logarithms are equal if they agree to this many decimals: different sums of look-ups differ by far more.
_DIGITS = 12


@dataclass(frozen=True, eq=False)
class TimesFewer:
    """The figure of k methods over n tables. All arrays are NaN where a value is missing.

    Attributes:
        ratios: r_i of each table and method, shape (n, k).
        capped: share of capped trials, shape (n, k).
        figure: of each method, shape (k,); NaN if the method lacks a value on a table.
        by_tables: the figure with the same weight for each table.
        low, high: its interval over trials; tables are fixed.
        families_low, families_high: its interval over families and tables.
    """

    ratios: Floats
    capped: Floats
    figure: Floats
    by_tables: Floats
    low: Floats
    high: Floats
    families_low: Floats
    families_high: Floats


def times_fewer(
    runtimes: Sequence[Floats],
    budgets: Sequence[float],
    random_search: Sequence[float],
    families: Sequence[str],
    copies: Bools,
    resamples: int = RESAMPLES,
) -> TimesFewer:
    """The figures of k methods over n tables. O(resamples n k trials).

    Args:
        runtimes: by table, shape (k, trials), from restricted.runtime_within: infinite if a trial is capped,
            NaN if it does not have a value.
        budgets, random_search, families: tau, R_i(RS), and the name of the family, by table.
        copies: whether all trials of a method on a table are the same run, shape (n, k). Such a method does
            not have an interval.
        resamples: number of resamples for each interval.
    """
    found = [
        [restricted_mean(line, tau) for line in table] for table, tau in zip(runtimes, budgets, strict=True)
    ]
    means, capped = np.moveaxis(np.array(found, dtype=np.float64), 2, 0)
    exact = np.asarray(random_search, dtype=np.float64)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = exact / means
        logs = np.log(ratios)
    low, high = _over_trials(runtimes, budgets, np.log(exact), families, resamples)
    none = copies.any(axis=0) | np.isnan(logs).any(axis=0)
    none |= any(table.shape[1] < 2 for table in runtimes)  # resamples of one trial are all the same
    families_low, families_high = _over_families(logs, families, resamples)
    return TimesFewer(
        ratios,
        capped,
        figure=np.exp(family_means(logs, families).mean(axis=0)),
        by_tables=np.exp(logs.mean(axis=0)),
        low=np.where(none, np.nan, low),
        high=np.where(none, np.nan, high),
        families_low=families_low,
        families_high=families_high,
    )


def family_means(logs: Floats, families: Sequence[str]) -> Floats:
    """Means over the tables of each family, in order of first appearance: shape (families, k) from (n, k)."""
    names = np.array(families)
    return np.array([logs[names == name].mean(axis=0) for name in dict.fromkeys(families)])


def _over_trials(
    runtimes: Sequence[Floats],
    budgets: Sequence[float],
    exact: Floats,
    families: Sequence[str],
    resamples: int,
) -> tuple[Floats, Floats]:
    """Quantiles of the figure over resamples of trials; `exact` has the logarithms of R(RS), (n, 1)."""
    sizes = {name: families.count(name) for name in families}
    total = np.zeros((resamples, len(runtimes[0])))
    with np.errstate(divide="ignore", invalid="ignore"):
        for i, (table, tau) in enumerate(zip(runtimes, budgets, strict=True)):
            means = resampled_sums(np.minimum(table, tau).T, resamples, i) / table.shape[1]
            total += (exact[i] - np.log(means)) / (sizes[families[i]] * len(sizes))
    return _quantiles(total)


def _over_families(logs: Floats, families: Sequence[str], resamples: int) -> tuple[Floats, Floats]:
    """Quantiles of the figure over resamples of families and their tables; NaN for few families."""
    names, place = np.array(families), list(dict.fromkeys(families))
    if len(place) < FEWEST_FAMILIES:
        none = np.full(logs.shape[1], np.nan)
        return none, none
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(place), (resamples, len(place)))
    total = np.zeros((resamples, logs.shape[1]))
    for number, name in enumerate(place):
        own = logs[names == name]
        for slot in range(len(place)):
            those = np.flatnonzero(drawn[:, slot] == number)
            tables = rng.integers(0, len(own), (len(those), len(own)))
            total[those] += own[tables].mean(axis=1)
    return _quantiles(total / len(place))


def _quantiles(logs: Floats) -> tuple[Floats, Floats]:
    levels = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.exp(np.quantile(logs, levels, axis=0))
    return low, high


def signed_rank_direction(differences: Floats) -> int:
    """The sign of the statistic of `signed_rank_exact`: 1 if positive differences prevail, -1, or 0."""
    ranks, signs = _signed_ranks(differences)
    return int(np.sign(ranks @ signs))


def _signed_ranks(differences: Floats) -> tuple[Ints, Ints]:
    """Twice the ranks of the absolute differences (whole numbers), and the signs, shape (n,) each."""
    rounded = np.round(differences, _DIGITS)
    ranks = np.rint(2 * tied_ranks(np.abs(rounded)[None])[0]).astype(np.int64)
    return ranks, np.sign(rounded).astype(np.int64)


def signed_rank_exact(differences: Floats) -> float:
    """Wilcoxon's signed-rank test, two-sided and exact, zeros by Pratt's rule. O(n^3) for n differences.

    The p-value is the share of all choices of signs whose sum of positive ranks is at least as far from its
    mean as the observed sum. Ties have their mean rank. The p-value is 1 if all differences are 0, and NaN
    without differences.
    """
    if not len(differences):
        return np.nan
    ranks, signs = _signed_ranks(differences)
    counted = ranks[signs != 0]
    chances = np.ones(1)
    for rank in counted:
        # Half of the choices add the next rank to the sum of positive ranks.
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += chances / 2
        longer[rank:] += chances / 2
        chances = longer
    sums = np.arange(len(chances))
    observed = abs(int(ranks @ signs))
    return float(min(chances[np.abs(2 * sums - int(counted.sum())) >= observed].sum(), 1.0))
