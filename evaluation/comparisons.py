"""Paired comparisons of methods: trial i of every method starts from the same rows.

For methods A and B on one table and score, d = A - B in each trial:

    difference     mean of d, with a BCa bootstrap interval over trials
    p              two-sided permutation test of that mean: if the methods do not differ, the sign of every d
                   is arbitrary. Up to 13 trials, all sign flips are tried, and beyond that random ones
    p_holm         Holm's correction over all pairs of methods on that table and score
    p_a_better     probability that A beats B in a trial, where ties count half, with Wilson's interval
    rank_biserial  effect size: the share of the ranks of |d| in favour of A minus the share in favour of B,
                   from -1 to 1; half of a tie's rank goes to each (Demsar 2006, for Wilcoxon's test)

Scores are compared by their means, so the mean is tested. The last two describe single trials, which can
differ from the mean: a method may win most trials and lose the mean because of a few bad ones.

A method is called better only if p_holm is below alpha and the interval of the difference excludes 0. A trial
has no value if it failed, or did not reach its target within the look-ups that both methods had. Then the
mean does not exist, but the order of two trials does: a missing value counts as infinite. In this case
Wilcoxon's signed-rank test replaces the permutation test, and the interval of p_a_better, which must exclude
1/2, replaces that of the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.evaluation.intervals import CONFIDENCE, in_parts, mean_intervals, wilson_interval

# Up to this many trials Wilcoxon's test is exact; beyond, a normal approximation, corrected for ties.
_EXACT_RANKS = 10
# Up to _EXACT_FLIPS trials all sign flips are tried; beyond, _FLIPS of them, drawn at random.
_EXACT_FLIPS = 13
_FLIPS = 9_999
# More pairs need smaller p-values to survive Holm's correction: at least this many flips a pair.
_FLIPS_PER_PAIR = 100


@dataclass(frozen=True)
class Comparison:
    """Method a against method b, by their positions in what was compared.

    Attributes:
        a, b: positions.
        trials: pairs of trials that count: those that both methods ran.
        difference, low, high: mean of a - b and its interval; NaN where a trial has no answer.
        test: "permutation", or "signed-rank" where a trial has no answer.
        p, p_holm: its two-sided p-value, raw and corrected; NaN without trials.
        rank_biserial: effect size for a, -1 to 1; positive: a better.
        p_a_better, p_low, p_high: probability that a beats b, and its interval.
        better: "a", "b", or "" where neither is shown to be better.
    """

    a: int
    b: int
    trials: int
    difference: float
    low: float
    high: float
    test: str
    p: float
    p_holm: float
    rank_biserial: float
    p_a_better: float
    p_low: float
    p_high: float
    better: str


def compare_pairs(
    values: Floats, lower_is_better: bool = True, confidence: float = CONFIDENCE
) -> list[Comparison]:
    """All pairs of methods on one table and score, by values of shape (methods, trials).

    Column i is of trials that start alike: NaN where the trial was not run, infinite where it ended or failed
    without getting there, whatever is better. 1 - confidence is the level of the test.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"values must have shape (methods, trials), not {values.shape}.")
    pairs = list(combinations(range(len(values)), 2))
    if not pairs:
        return []
    first, second = (values[[pair[side] for pair in pairs]] for side in (0, 1))
    with np.errstate(invalid="ignore"):
        differences = first - second
        # Positive where a is better. Neither is, where neither got there: inf - inf is not a failure.
        gains = -differences if lower_is_better else differences
    neither = np.isinf(first) & np.isinf(second)
    if not lower_is_better:
        # An infinite value is always the worst.
        gains = np.where(np.isinf(first) ^ np.isinf(second), -gains, gains)
    gains[neither] = 0.0
    differences[neither] = np.inf
    counted = ~np.isnan(gains)
    trials = counted.sum(axis=1)
    low, high = mean_intervals(differences.T, confidence)
    endless = np.asarray(np.isinf(differences).any(axis=1))
    p = np.empty(len(pairs))
    p[endless], p[~endless] = signed_rank(gains[endless]), sign_flips(differences[~endless])
    effect = rank_biserial(gains)
    share = np.array([_share_won(g[c]) for g, c in zip(gains, counted, strict=True)])
    p_low, p_high = wilson_interval(share, trials, confidence)
    p_holm = holm(p)
    columns = {"low": low, "high": high, "p": p, "p_holm": p_holm, "rank_biserial": effect}
    columns |= {"p_a_better": share, "p_low": p_low, "p_high": p_high}
    comparisons = []
    for i, (a, b) in enumerate(pairs):
        kept = differences[i, counted[i]]
        mean = float(kept.mean()) if len(kept) and not endless[i] else np.nan
        gain_low, gain_high = (-high[i], -low[i]) if lower_is_better else (low[i], high[i])
        if endless[i]:
            gain_low, gain_high = p_low[i] - 0.5, p_high[i] - 0.5
        better = ""
        if p_holm[i] < 1 - confidence:
            better = "a" if gain_low > 0 else "b" if gain_high < 0 else ""
        test = "signed-rank" if endless[i] else "permutation"
        numbers: dict[str, Any] = {name: float(column[i]) for name, column in columns.items()}
        comparisons.append(Comparison(a, b, int(trials[i]), mean, test=test, better=better, **numbers))
    return comparisons


def sign_flips(differences: Floats, seed: int = 0) -> Floats:
    """Two-sided permutation test of each row's mean against 0, by flipping signs: p-values, shape (pairs,).

    The same test as `scipy.stats.permutation_test` of kind "samples" for one sample, with the same flips for
    all pairs, so that it is one matrix product. The differences, shape (pairs, trials), are finite, or NaN
    where a trial does not count; p is NaN where none counts.
    """
    pairs, n = differences.shape
    d = np.where(np.isnan(differences), 0.0, differences)
    observed = np.abs(d.sum(axis=1)) - 1e-9 * np.abs(d).max(axis=1, initial=0.0)
    counted = ~np.isnan(differences).all(axis=1)
    if n <= _EXACT_FLIPS:
        signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return np.where(counted, (np.abs(signs @ d.T) >= observed).mean(axis=0), np.nan)
    flips, as_far = 0, np.ones(pairs)
    while flips < max(_FLIPS, _FLIPS_PER_PAIR * pairs):
        for signs in in_parts(_signs, n, _FLIPS, seed, flips):
            as_far += (np.abs(signs @ d.T) >= observed).sum(axis=0)
        flips += _FLIPS
    return np.where(counted, as_far / (flips + 1), np.nan)


def _signs(rng: np.random.Generator, n: int, flips: int) -> Floats:
    return rng.choice([-1.0, 1.0], (flips, n))


def signed_rank(gains: Floats) -> Floats:
    """Wilcoxon's signed-rank test of each row, two-sided, ties split: p-values, shape (pairs,).

    The gains, shape (pairs, trials), may be infinite, and NaN do not count; p is NaN where no trial counts.
    """
    p = np.full(len(gains), np.nan)
    if not len(gains):
        return p
    # Seldom needed, and it takes longer to import than a small run takes.
    from scipy.stats import PermutationMethod, wilcoxon

    for rows, kept in _by_trials(gains):
        # Which of the two is fixed by the number of trials: with scipy's own choice ties in one pair would
        # change the p-values of others.
        n = kept.shape[1]
        method = PermutationMethod(n_resamples=2**_EXACT_RANKS) if n <= _EXACT_RANKS else "asymptotic"
        p[rows] = wilcoxon(kept, zero_method="zsplit", method=method, axis=1).pvalue if n > 1 else 1.0
    return p


def rank_biserial(gains: Floats) -> Floats:
    """Matched-pairs rank-biserial correlation of each row of gains, as of `signed_rank`, shape (pairs,)."""
    effect = np.full(len(gains), np.nan)
    for rows, kept in _by_trials(gains):
        n = kept.shape[1]
        ranks = tied_ranks(np.abs(kept))
        effect[rows] = 2.0 * (ranks * np.sign(kept)).sum(axis=1) / (n * (n + 1))
    return effect


def tied_ranks(values: Floats) -> Floats:
    """Ranks in each row, 1 for the smallest value; equal values share the mean of theirs. Same shape."""
    ranks = np.empty(values.shape)
    for i, row in enumerate(values):
        ordered = np.sort(row)
        ranks[i] = (np.searchsorted(ordered, row, "left") + np.searchsorted(ordered, row, "right") + 1) / 2
    return ranks


def _by_trials(gains: Floats) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Rows in which the same trials count, with those trials; such rows are treated at once."""
    masks, group = np.unique(~np.isnan(gains), axis=0, return_inverse=True)
    for j, mask in enumerate(masks):
        if mask.any():
            rows = np.flatnonzero(group.ravel() == j)
            yield rows, gains[rows][:, mask]


def holm(p: Floats) -> Floats:
    """Holm's step-down correction of p-values, shape (n,); NaN stays and does not count.

    A comparison that was planned and could not be made is given as 1, so that it counts.
    """
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return corrected


def _share_won(gains: Floats) -> float:
    """Share of trials won, ties counting half."""
    return float(((gains > 0).sum() + 0.5 * (gains == 0).sum()) / len(gains)) if len(gains) else np.nan
