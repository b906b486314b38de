"""Paired comparisons of methods: trial i of every method starts from the same rows.

For methods A and B on one table and score, d = A - B in each trial:

    difference     mean of d, with a BCa bootstrap interval over trials
    p              two-sided permutation test of that mean: if the methods do not differ, the sign of every d
                   is arbitrary. Up to 13 trials, all sign flips are tried, and beyond that random ones
    p_holm         Holm's correction over all pairs of methods on that table and score
    p_a_better     probability that A beats B in a trial, where ties count half, with Wilson's interval
    rank_biserial  effect size: the share of the ranks of |d| in favour of A minus the share in favour of B,
                   from -1 to 1; half of a tie's rank goes to each (Demsar 2006, for Wilcoxon's test)

Scores are compared by their means, so the mean is tested. The last two quantities describe single trials,
which may disagree with the mean: a method can win most trials and still have the worse mean, because of a few
bad trials.

A method is called better only if p_holm is below alpha and the interval of the difference excludes 0. A trial
has no value if it failed, or did not reach its target within the look-ups that both methods had. Then the
mean does not exist, but two trials can still be ordered: a missing value counts as infinite. In this case,
Wilcoxon's signed-rank test replaces the permutation test. The interval of p_a_better, which must exclude 1/2,
replaces the interval of the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.intervals import CONFIDENCE, in_parts, mean_intervals, wilson_interval

# Up to this many trials, Wilcoxon's test is exact. With more, it is a normal approximation, corrected for
# ties.
_EXACT_RANKS = 10
# Up to _EXACT_FLIPS trials, all sign flips are tried. With more, _FLIPS flips are drawn at random.
_EXACT_FLIPS = 13
_FLIPS = 9_999
# With more pairs, p-values must be smaller to survive Holm's correction, which takes at least this many flips
# per pair.
_FLIPS_PER_PAIR = 100


@dataclass(frozen=True)
class Comparison:
    """Method a against method b, by their positions in the rows of the compared values.

    Attributes:
        a, b: positions.
        trials: number of pairs of trials that count, which both methods ran.
        difference, low, high: mean of a - b and its interval; NaN if a trial lacks a score.
        test: "permutation", or "signed-rank" if a trial lacks a score.
        p, p_holm: its two-sided p-value, raw and corrected; NaN without trials.
        rank_biserial: effect size, -1 to 1; positive if a is better.
        p_a_better, p_low, p_high: probability that a beats b, and its interval.
        better: "a", "b", or "" if neither is shown to be better.
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
    """Comparisons of all pairs of methods on one table and score, from values of shape (methods, trials).

    The trials of a column start from the same rows. A value is NaN if the trial was not run. It is infinite,
    whatever the score's direction, if the trial failed or ended without reaching its target. 1 - confidence
    is the level of the test.
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
        # Values of two trials that differ only by rounding errors are a tie.
        near = np.abs(differences) <= 1e-12 * np.maximum(np.abs(first), np.abs(second))
        differences[near & np.isfinite(differences)] = 0.0
        # Positive where a is better. If neither trial reached the target, inf - inf is NaN, which becomes a
        # tie below.
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

    The same test as `scipy.stats.permutation_test` of kind "samples" for one sample. All pairs use the same
    flips, so one matrix product computes the test. The differences, shape (pairs, trials), are finite, or NaN
    where a trial does not count; p is NaN where no trial counts.
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

    The gains, shape (pairs, trials), may be infinite. NaN does not count; p is NaN where no trial counts.
    """
    p = np.full(len(gains), np.nan)
    if not len(gains):
        return p
    # Seldom needed, and its import takes longer than a small run.
    from scipy.stats import PermutationMethod, wilcoxon

    for rows, kept in _by_trials(gains):
        # The number of trials alone determines the method. With scipy's own choice, ties in one pair would
        # change the p-values of other pairs.
        n = kept.shape[1]
        method = PermutationMethod(n_resamples=2**_EXACT_RANKS) if n <= _EXACT_RANKS else "asymptotic"
        p[rows] = wilcoxon(kept, zero_method="zsplit", method=method, axis=1).pvalue if n > 1 else 1.0
    return p


def rank_biserial(gains: Floats) -> Floats:
    """Matched-pairs rank-biserial correlation of each row of gains (as in `signed_rank`), shape (pairs,)."""
    effect = np.full(len(gains), np.nan)
    for rows, kept in _by_trials(gains):
        n = kept.shape[1]
        ranks = tied_ranks(np.abs(kept))
        effect[rows] = 2.0 * (ranks * np.sign(kept)).sum(axis=1) / (n * (n + 1))
    return effect


def tied_ranks(values: Floats) -> Floats:
    """Ranks in each row, 1 for the smallest value; equal values have their mean rank. Same shape."""
    ranks = np.empty(values.shape)
    for i, row in enumerate(values):
        ordered = np.sort(row)
        ranks[i] = (np.searchsorted(ordered, row, "left") + np.searchsorted(ordered, row, "right") + 1) / 2
    return ranks


def _by_trials(gains: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Groups of rows in which the same trials count, with these trials; each group is computed at once."""
    masks, group = np.unique(~np.isnan(gains), axis=0, return_inverse=True)
    for j, mask in enumerate(masks):
        if mask.any():
            rows = np.flatnonzero(group.ravel() == j)
            yield rows, gains[rows][:, mask]


def holm(p: Floats) -> Floats:
    """Holm's step-down correction of p-values, shape (n,); NaN stays NaN and does not count.

    Pass 1 for a planned comparison that could not be made, so that it counts.
    """
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return corrected


def _share_won(gains: Floats) -> float:
    """Share of trials won; ties count half."""
    return float(((gains > 0).sum() + 0.5 * (gains == 0).sum()) / len(gains)) if len(gains) else np.nan
