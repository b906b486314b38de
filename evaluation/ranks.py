"""Methods ranked over tables: Friedman's test, and Nemenyi's critical difference (Demsar 2006).

On each of N tables the k methods are ranked. The best has rank 1, and ties share their mean rank. Friedman's
test asks whether the mean ranks differ at all. By Nemenyi's test, two methods differ if their mean ranks
differ by more than the critical difference

    CD = q sqrt(k (k + 1) / (12 N))

where q is the quantile of the studentized range for k groups and infinite degrees of freedom, which corrects
for all pairs. The sample consists of tables, so with few tables these tests show little, however many trials
each has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.intervals import CONFIDENCE


@dataclass(frozen=True, eq=False)
class RankTest:
    """Ranks of k methods over N tables; methods are in the order of the arguments.

    Attributes:
        mean_ranks: shape (k,), 1 the best.
        n_tables: N.
        statistic, p: Friedman's chi-squared and its p-value, corrected for ties.
        critical_difference: how far apart two mean ranks must lie to differ.
        pairwise_p: Nemenyi's p-value of each pair, shape (k, k), 1 on the diagonal.
        groups: maximal sets of two or more methods, by position and best first, of which no two are shown to
            differ. If Friedman's test does not show a difference, one set of all methods.
    """

    mean_ranks: Floats
    n_tables: int
    statistic: float
    p: float
    critical_difference: float
    pairwise_p: Floats
    groups: tuple[tuple[int, ...], ...]

    @property
    def can_show(self) -> bool:
        """Whether two mean ranks can lie more than a critical difference apart; never with two tables."""
        return self.critical_difference < len(self.mean_ranks) - 1


def rank_test(values: Floats, lower_is_better: bool = True) -> RankTest:
    """Friedman's and Nemenyi's tests of the finite scores of methods on tables, shape (N, k).

    1 - CONFIDENCE is the level of the tests. Raises InputError for fewer than two tables or three methods.
    """
    values = np.asarray(values, dtype=np.float64)
    n_tables, k = values.shape
    if k < 3:
        hint = " Compare the two in pairs." if k == 2 else ""
        raise InputError(f"Friedman's test needs three or more methods, not {k}.{hint}")
    if n_tables < 2:
        raise InputError(f"Friedman's test needs two or more tables, not {n_tables}.")
    if not np.isfinite(values).all():
        raise InputError("Friedman's test needs a score of every method on every table.")
    # Imported here, because the import takes longer than a small run, which has one table and needs no ranks.
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    values = rounded(values)
    ranks = rankdata(values if lower_is_better else -values, axis=1)
    mean_ranks = ranks.mean(axis=0)
    if (ranks == ranks[:, :1]).all():
        statistic, p = 0.0, 1.0  # the correction for ties would be 0 / 0
    else:
        statistic, p = (float(x) for x in friedmanchisquare(*ranks.T))
    unit = np.sqrt(k * (k + 1) / (12 * n_tables))
    critical = float(studentized_range.ppf(CONFIDENCE, k, np.inf) * unit)
    apart = np.abs(mean_ranks[:, None] - mean_ranks)
    pairwise = np.ones((k, k))
    upper = np.triu_indices(k, 1)
    # The upper tail is a numerical integral, which may lie slightly outside [0, 1].
    tail = np.clip(studentized_range.sf(apart[upper] / unit, k, np.inf), 0.0, 1.0)
    pairwise[upper] = pairwise.T[upper] = tail
    # Nemenyi's test only counts if Friedman's test has found a difference (Demsar 2006).
    groups = _groups(mean_ranks, critical if p < 1 - CONFIDENCE else np.inf)
    return RankTest(mean_ranks, n_tables, statistic, p, critical, pairwise, groups)


def rounded(means: Floats) -> Floats:
    """Means to twelve significant digits, so that those which differ only by rounding errors are equal."""
    return np.array([float(f"{mean:.12g}") for mean in means.ravel().tolist()]).reshape(means.shape)


def _groups(mean_ranks: Floats, critical: float) -> tuple[tuple[int, ...], ...]:
    """Largest runs of methods, by mean rank, that span no more than the critical difference."""
    order = np.argsort(mean_ranks, kind="stable")
    ordered = mean_ranks[order]
    ends = np.searchsorted(ordered, ordered + critical, side="right")
    groups, reached = [], 0
    for start, end in enumerate(ends):
        if end > max(reached, start + 1):
            groups.append(tuple(int(i) for i in order[start:end]))
            reached = end
    return tuple(groups)
