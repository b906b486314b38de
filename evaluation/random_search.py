"""Random search needs no simulation: on a finite table its scores have exact distributions.

Rows are drawn uniformly without replacement, so the number of targets among the first t rows is
hypergeometric, and a runtime T to `needed` targets has P(T > t) = P(fewer than needed among t).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import hypergeom

from hpobench_nmt.evaluation.scores import Question


def exact_random_search(asked: Question, n_initial: int) -> tuple[float, float]:
    """Mean and standard deviation of a score under random search.

    For one of k targets among N rows, and no initial design, the mean is (N + 1) / (k + 1).

    Args:
        asked: the question.
        n_initial: size of the initial design; a runtime is never less.

    Returns:
        NaN where there is no answer: too few targets, or a table so short of values that none may be drawn.
    """
    n_rows, n_targets = len(asked.targets), int(asked.targets.sum())
    if asked.budget is None:
        if n_targets < asked.needed:
            return np.nan, np.nan
        # E[T] = sum of P(T > t) over t >= 0; E[T^2] = sum of (2 t + 1) P(T > t). T is at least n_initial.
        times = np.arange(n_rows + 1)
        survival = hypergeom.cdf(asked.needed - 1, n_rows, n_targets, times)
        survival[:n_initial] = 1.0
        mean = survival.sum()
        return _moments(mean, ((2 * times + 1) * survival).sum())
    drawn = min(asked.budget, n_rows)
    if asked.gaps is None:
        share = n_targets / n_rows
        left_over = (n_rows - drawn) / max(n_rows - 1, 1)
        return drawn * share, float(np.sqrt(drawn * share * (1.0 - share) * left_over))
    # The best of the rows drawn is the i-th best of the table with probability
    # C(N-1-i, drawn-1) / C(N, drawn): i is absent times, then present.
    gaps = np.sort(asked.gaps)  # NaN last
    ranks = np.arange(n_rows)
    none_of_better = hypergeom.pmf(0, n_rows, ranks, drawn)
    probability = none_of_better - np.append(none_of_better[1:], 0.0)
    possible = probability > 0
    mean = (gaps[possible] * probability[possible]).sum()
    return _moments(mean, (gaps[possible] ** 2 * probability[possible]).sum())


def _moments(mean: float, mean_of_squares: float) -> tuple[float, float]:
    return float(mean), float(np.sqrt(max(mean_of_squares - mean * mean, 0.0)))
