"""Two verdicts on whether a ratio differs from 1: on these tables, and on other families.

    symbol  meaning
    log r   the mean of a method's log ratios over families: see figure.py
    se      its standard error, with df degrees of freedom
    t       log r / se

On these tables, se is that of paired trials, and tables are fixed. On other families, the families are a
sample from all families, and se is the standard deviation of their means over the root of their number. Both
are t tests. Tables of a family resemble each other, so they are never counted one by one.

Beside each verdict stands the smallest ratio that its test would have shown in 80% of repetitions, which is
exp((t_.975 + t_.80) se). As se is estimated, this ratio has a 90% range, from the law of df se^2 / (true
se)^2, which is chi-squared. If even a method that knows the targets cannot reach the smallest ratio, the test
could not have shown anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, nan

import numpy as np
from scipy.special import chdtri, stdtr, stdtrit

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.evaluation.figure import Figure
from hpobench_nmt.evaluation.intervals import CONFIDENCE

FEWEST_FAMILIES = 5
"""With fewer families there is no verdict on other families."""
POWER = 0.8
"""The share of repetitions in which the smallest ratio would have been shown."""
_RANGE = 0.9
# An se below this comes from rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Verdict:
    """A ratio and its test against 1. All but the ratio are NaN where there is no test.

    Attributes:
        ratio: times fewer.
        low, high: its 95% interval.
        p: two-sided p-value of the t test.
        smallest: the smallest ratio that the test would have shown in 80% of repetitions.
        smallest_low, smallest_high: the 90% range of `smallest`.
        best_possible: the ratio of a method that knows the targets; NaN if it is not given.
    """

    ratio: float
    low: float = nan
    high: float = nan
    p: float = nan
    smallest: float = nan
    smallest_low: float = nan
    smallest_high: float = nan
    best_possible: float = nan

    @property
    def could_be_shown(self) -> bool:
        """Whether the best possible ratio is at least the smallest that the test would have shown."""
        return not self.smallest > self.best_possible


def on_these_tables(figure: Figure, method: int, best_possible: float = nan) -> Verdict:
    """The t test over paired trials of one of the figure's methods, by number."""
    log, se, degrees = figure.log[method], figure.se[method], figure.degrees[method]
    return _verdict(float(log), float(se), float(degrees), best_possible)


def on_other_families(family_logs: Floats, best_possible: float = nan) -> Verdict:
    """The t test over means of log r of families that did not tune the method, shape (F,).

    With fewer than FEWEST_FAMILIES, there is no test.
    """
    count = len(family_logs)
    if not count:
        return Verdict(nan, best_possible=best_possible)
    se = float(family_logs.std(ddof=1)) / count**0.5 if count >= FEWEST_FAMILIES else nan
    return _verdict(float(family_logs.mean()), se, count - 1.0, best_possible)


def _verdict(log: float, se: float, degrees: float, best_possible: float) -> Verdict:
    if not se > _ROUNDING:
        return Verdict(exp(log), best_possible=best_possible)
    reach = float(stdtrit(degrees, 0.5 + CONFIDENCE / 2)) * se
    needed = reach + float(stdtrit(degrees, POWER)) * se
    tail = (1 - _RANGE) / 2
    # chdtri takes the probability of the upper tail.
    narrow, wide = (needed * float(degrees / chdtri(degrees, upper)) ** 0.5 for upper in (tail, 1 - tail))
    return Verdict(
        ratio=exp(log),
        low=exp(log - reach),
        high=exp(log + reach),
        p=2 * float(stdtr(degrees, -abs(log) / se)),
        smallest=exp(needed),
        smallest_low=exp(narrow),
        smallest_high=exp(wide),
        best_possible=best_possible,
    )


def benjamini_hochberg(p: Floats) -> Floats:
    """p-values of a set of comparisons, corrected so that at most a share of those shown is false.

    Benjamini and Hochberg (1995). NaN stays NaN, and is not counted as a comparison.
    """
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]  # NaN last
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    corrected[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return corrected
