"""BOHB: Hyperband whose rows are chosen by densities of good and of bad rows (Falkner et al. 2018, "BOHB:
Robust and Efficient Hyperparameter Optimization at Scale", sections 3.2 and 4, Algorithm 2).

    symbol   meaning
    H        number of hyperparameters
    D_b      rows that have reached level b, by their loss there; b is the highest level with H + 3 such rows
    q        share of D_b that counts as good, 0.15, but at least H + 1 rows
    l, g     densities of the good rows, and of the other rows (at least the worst H + 1)
    l'       l with three times its bandwidths
    h        bandwidth of a hyperparameter, 1.06 s n^(-1 / (H + 4)) for the standard deviation s of the n rows
             of a density, but at least 0.001

A third of the new rows are random. Otherwise 64 rows are drawn from l', and the row with the largest l / g
starts. The paper draws from l' in a box. Here the rows are known, so l' weights the rows that are free.

Densities are means of products of kernels. A number or an ordered label has a Gaussian kernel. A category has
the kernel of Aitchison and Aitken: 1 - h for the same value, and h / (c - 1) for each of the c - 1 other
values. With one-hot columns, in which two categories are 1 apart, this is also a Gaussian: exp(-w / 2) with w
= 2 log((1 - h) (c - 1) / h). Both s and distances are computed over all columns of a hyperparameter together.

`TPE` chooses in the same way when every row is trained to its end (Bergstra et al. 2011, "Algorithms for
Hyper-Parameter Optimization", with BOHB's densities). A step takes O(n N F) for the n rows of D_b.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.early.successive_halving import ETA, Hyperband
from hpobench_nmt.methods.sampler import SampledSearch, drawn
from hpobench_nmt.methods.surrogates.columns import feature_owners

GOOD_SHARE = 0.15
RANDOM_SHARE = 1.0 / 3.0
DRAWS = 64
WIDER = 3.0
LEAST_BANDWIDTH = 1e-3


class DensityRatio:
    """Chooses rows by the ratio of densities. See the top of this file."""

    def __init__(self, problem: Problem, rng: np.random.Generator, random_share: float) -> None:
        if not 0.0 <= random_share <= 1.0:
            raise InputError(f"random_share must be from 0 to 1, not {random_share:g}.")
        self._features = problem.features
        self._owners = feature_owners(problem)
        self._least = int(self._owners.max(initial=0)) + 2  # H + 1
        self._random_share = random_share
        self._rng = rng
        self._known: dict[int, dict[int, float]] = {}  # by level: loss by row

    def learn(self, row: int, level: int, loss: float) -> None:
        """The loss of a row at a level."""
        self._known.setdefault(level, {})[row] = loss

    def choose(self, free: Bools, level: int) -> int | None:
        """The best of the rows drawn; None for a random row, by chance or if too few losses are known."""
        if self._rng.random() < self._random_share:
            return None
        enough = [known for _, known in sorted(self._known.items()) if len(known) >= self._least + 2]
        if not enough:
            return None
        ordered = sorted(enough[-1], key=enough[-1].__getitem__)
        n_good = max(self._least, int(GOOD_SHARE * len(ordered)))
        n_bad = max(self._least, len(ordered) - n_good)
        good, bad = self._features[ordered[:n_good]], self._features[ordered[-n_bad:]]
        width = bandwidths(good, self._owners)
        wide = self._log_density(good, WIDER * width)
        found = sorted(set(drawn(self._rng, wide, free, DRAWS)))
        at = self._features[found]
        ratio = self._log_density(good, width, at) - self._log_density(bad, bandwidths(bad, self._owners), at)
        return found[int(ratio.argmax())]

    def _log_density(self, points: Floats, width: Floats, at: Floats | None = None) -> Floats:
        return log_density(self._features if at is None else at, points, width, self._owners)


def bandwidths(points: Floats, owners: Rows) -> Floats:
    """h of each hyperparameter, shape (H,), for n points, shape (n, F), and the owners of their columns."""
    count = int(owners.max(initial=0)) + 1
    spread = np.sqrt(np.bincount(owners, points.var(axis=0), count))
    return np.asarray(np.maximum(1.06 * spread * len(points) ** (-1.0 / (count + 4)), LEAST_BANDWIDTH))


def log_density(at: Floats, points: Floats, width: Floats, owners: Rows) -> Floats:
    """log of the density of n points at each of M places, shape (M,), up to a constant."""
    columns = np.bincount(owners)
    weights = np.array([_weight(h, int(c)) for h, c in zip(width, columns, strict=True)])
    scale = np.sqrt(weights)[owners]
    gaps = cdist(at * scale, points * scale, "sqeuclidean")
    return np.asarray(logsumexp(-0.5 * gaps, axis=1))


def _weight(width: float, columns: int) -> float:
    """The factor of a hyperparameter's squared distances. Several columns belong to a category."""
    if columns == 1:
        return 1.0 / (width * width)
    width = min(width, (columns - 1) / columns)  # at this width, all values are equally likely
    return max(2.0 * math.log((1.0 - width) * (columns - 1) / width), 0.0)


class BOHB(Hyperband):
    """The method along learning curves."""

    def __init__(
        self, problem: Problem, rng: np.random.Generator, eta: int = ETA, random_share: float = RANDOM_SHARE
    ) -> None:
        super().__init__(problem, rng, eta)
        self._field.sampler = DensityRatio(problem, rng, random_share)


class TPE(SampledSearch):
    """The choice of rows by densities, with every row trained to its end."""

    def __init__(
        self, problem: Problem, rng: np.random.Generator, random_share: float = RANDOM_SHARE
    ) -> None:
        super().__init__(problem, rng, DensityRatio(problem, rng, random_share))
