"""Rows whose loss is so much worse than the rest that an analysis of the metric would describe only them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FAR = 3.0
_MOST_ROWS = 0.1
_LEAST_SHARE = 0.5


def far_rows(losses: NDArray[np.float64]) -> NDArray[np.intp]:
    """The few rows that are far worse than the rest and carry most of the variance, worst first; often empty.

    They lie above the upper quartile by more than 3 times the interquartile range (Tukey's outer fence). The
    result is empty if these are more than a tenth of the rows, or carry no more than half of the variance.

    Args:
        losses: shape (N,), lower is better. Rows with NaN are left out.
    """
    known = losses[~np.isnan(losses)]
    if len(known) < 2 or known.min() == known.max():
        return np.array([], dtype=np.intp)
    lower, upper = np.percentile(known, [25, 75])
    far = np.flatnonzero(losses > upper + _FAR * (upper - lower))
    if len(far) > _MOST_ROWS * len(known) or not variance_share(losses, far) > _LEAST_SHARE:
        return np.array([], dtype=np.intp)
    return far[np.argsort(-losses[far], kind="stable")]


def variance_share(losses: NDArray[np.float64], rows: NDArray[np.intp]) -> float:
    """The share by which the variance falls if these rows are removed, 0 to 1; below 0 if it rises."""
    return 1.0 - float(np.nanvar(np.delete(losses, rows)) / np.nanvar(losses))
