"""Times fewer trainings than random search: a figure that summarises a method over tables.

    symbol  meaning
    T       min(runtime, tau) of each trial of a method on a table
    G       the same for the reference, in the same trials: random search given the start, or another method
    CV      coefficient of variation over trials: standard deviation / mean
    log r   log(mean G / mean T) - (CV_T^2 - CV_G^2) / (2 trials)
    family  mean of log r over its tables
    figure  exp(mean over families): each family has the same weight

The mean of log(mean T) lies CV_T^2 / (2 trials) below the log of the expected T, up to terms of order
trials^-2. The correction in log r takes this bias away.

The interval of a figure is the delta method's. A trial changes log r by G / mean G - T / mean T, divided by
the number of trials. T and G are of the same trial, so the start and the rows that they share cancel. The
squared standard error of a figure is a weighted sum of variances, so its degrees of freedom are
Satterthwaite's (1946), and the interval has quantiles of the t distribution. Tables are fixed: the interval
holds for these tables only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.evaluation.intervals import CONFIDENCE

# Runtimes vary by far more than this share of their mean, unless they are all the same up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Figure:
    """The figures of k methods over n tables in F families. NaN where a value is missing.

    Attributes:
        families: names, in the order of `family_logs`.
        logs: log r of each table and method, shape (n, k).
        variances: squared standard errors of `logs` over trials; NaN with one trial.
        family_logs: means over the tables of each family, shape (F, k).
        log: means over families, shape (k,); NaN if the method lacks a value on a table.
        se: standard errors of `log` over trials; NaN without an interval.
        degrees: degrees of freedom of `se`.
    """

    families: tuple[str, ...]
    logs: Floats
    variances: Floats
    family_logs: Floats
    log: Floats
    se: Floats
    degrees: Floats

    @property
    def figure(self) -> Floats:
        """Times fewer, shape (k,)."""
        return np.exp(self.log)

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """The limits of the figure's 95% interval over trials, shape (k,) each."""
        reach = stdtrit(self.degrees, 0.5 + CONFIDENCE / 2) * self.se
        return np.exp(self.log - reach), np.exp(self.log + reach)


def times_fewer(
    runtimes: Sequence[Floats],
    references: Sequence[Floats],
    families: Sequence[str],
    copies: Bools | None = None,
) -> Figure:
    """The figures of k methods over n tables. O(n k trials).

    Args:
        runtimes: T by table, shape (k, trials). NaN if a trial does not have a value. The number of trials
            may differ between tables.
        references: G by table, shape (trials,). To compare each method with another method, the runtimes of
            the other methods, shape (k, trials): log r is then the difference of both methods' log r, and its
            interval is that of paired trials.
        families: name of each table's family.
        copies: whether all trials of a method on a table are the same run, shape (n, k). Such a method does
            not have an interval.
    """
    cells = [log_ratio(t, g) for t, g in zip(runtimes, references, strict=True)]
    logs, variances = np.moveaxis(np.array(cells), 1, 0)
    names = tuple(dict.fromkeys(families))
    weights = np.array([1.0 / (len(names) * families.count(name)) for name in families])
    parts = weights[:, None] ** 2 * variances
    freedom = np.array([[t.shape[1] - 1.0] for t in runtimes])
    squared = parts.sum(axis=0)
    none = ~(squared > _ROUNDING**2)
    if copies is not None:
        none |= copies.any(axis=0)
    squared[none] = np.nan
    family_logs = family_means(logs, families)
    return Figure(
        names,
        logs,
        variances,
        family_logs,
        log=family_logs.mean(axis=0),
        se=np.sqrt(squared),
        degrees=squared**2 / (parts**2 / freedom).sum(axis=0),
    )


def family_means(values: Floats, families: Sequence[str]) -> Floats:
    """Means over the tables of each family, in order of first appearance: shape (F, k) from (n, k)."""
    names = np.array(families)
    return np.array([values[names == name].mean(axis=0) for name in dict.fromkeys(families)])


def log_ratio(runtimes: Floats, reference: Floats) -> tuple[Floats, Floats]:
    """log r of k methods on a table, and its squared standard error (NaN with one trial), shape (k,) each.

    The runtimes have shape (k, trials). The reference has the same shape, or (trials,).
    """
    trials = runtimes.shape[-1]
    mean_t, mean_g = runtimes.mean(axis=-1, keepdims=True), reference.mean(axis=-1, keepdims=True)
    logs = np.log(mean_g / mean_t)[..., 0]
    if trials < 2:
        return logs, np.full_like(logs, np.nan)
    t, g = runtimes / mean_t, reference / mean_g
    bias = (g.var(axis=-1, ddof=1) - t.var(axis=-1, ddof=1)) / (2 * trials)
    return logs + bias, (g - t).var(axis=-1, ddof=1) / trials
