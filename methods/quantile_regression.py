"""Conformal quantile regression, CQR, and its combination with ASHA (Salinas et al. 2023, "Optimizing
Hyperparameters with Conformal Quantile Regression").

    symbol   shape    meaning
    y        n        normal scores of the ranks of the known losses, with each row's loss at its last level
    a_k      5        quantiles 1/6, 2/6, ..., 5/6
    q_k      N        the a_k quantile of y at each row, by gradient-boosted trees
    E        m        max(q_k(x) - y, y - q_l(x)) for l = 6 - k, for m rows that are kept out of the fit
    g_k      scalar   quantile of E at (1 + 1/m) (1 - 2 a_k), or its largest value if that is above 1

Thompson sampling: each row gets one of the five quantiles at random, and the free row with the smallest value
is next. From 32 rows on, a tenth of the rows is kept out of the fit. For k < 3, q_k then becomes q_k - g_k,
and q_l becomes q_l + g_k, so that a share of 1 - 2 a_k of the scores lies between them (Romano et al. 2019,
"Conformalized Quantile Regression"). The first 5 rows are random. A missing loss ranks last.

`CQR_ASHA` chooses new rows in this way, and ASHA (successive_halving.py) decides which trainings continue. A
row counts with its loss at the last level that it has reached, as in the paper's section 4.

The trees are scikit-learn's, 25 for each quantile with a learning rate of 0.3. A fit takes about 150 ms, so
it is repeated only when a tenth more rows are known, and a step takes tens of milliseconds on average. The
paper fits at every step.
"""

from __future__ import annotations

import math

import numpy as np

# Not inside the function: a trial limits the threads only of libraries that are loaded before it starts.
from sklearn.ensemble import HistGradientBoostingRegressor

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import check_whole
from hpobench_nmt.methods.early.successive_halving import ASHA, ETA
from hpobench_nmt.methods.sampler import SampledSearch
from hpobench_nmt.methods.surrogates.warping import normal_scores

QUANTILES = 5
TREES = 25
STARTUP = 5
CONFORMAL_FROM = 32
KEPT_OUT = 10  # one row in this many
GROWTH = 1.1


class QuantileSampler:
    """Chooses rows by Thompson sampling from conformal quantiles. See the top of this file."""

    def __init__(self, problem: Problem, rng: np.random.Generator, trees: int) -> None:
        check_whole("trees", trees, 1)
        self._features = problem.features
        self._rng = rng
        self._trees = trees
        self._known: dict[int, float] = {}  # loss at the last level, by row
        self._fitted_to = 0
        self._quantiles = np.empty((QUANTILES, 0))

    def learn(self, row: int, level: int, loss: float) -> None:
        """The loss of a row. Levels ascend, so the last loss counts."""
        self._known[row] = loss

    def choose(self, free: Bools, level: int) -> int | None:
        """The row with the smallest draw; None while too few rows are known."""
        if len(self._known) < STARTUP:
            return None
        if len(self._known) >= GROWTH * self._fitted_to:
            self._quantiles = self._fit()
            self._fitted_to = len(self._known)
        drawn = self._rng.integers(QUANTILES, size=len(free))
        values = np.where(free, self._quantiles[drawn, np.arange(len(free))], np.inf)
        return int(self._rng.choice(np.flatnonzero(values == values.min())))  # trees predict many ties

    def _fit(self) -> Floats:
        rows = np.array(list(self._known))
        y = normal_scores(np.array(list(self._known.values())))
        order = self._rng.permutation(len(rows))
        count = math.ceil(len(rows) / KEPT_OUT) if len(rows) >= CONFORMAL_FROM else 0
        out, used = order[:count], order[count:]
        found = boosted_quantiles(self._features[rows[used]], y[used], self._features, self._trees)
        return conformal(found, found[:, rows[out]], y[out]) if count else found


def levels() -> Floats:
    """a_k, shape (5,)."""
    return np.arange(1.0, QUANTILES + 1) / (QUANTILES + 1)


def boosted_quantiles(x: Floats, y: Floats, at: Floats, trees: int) -> Floats:
    """The quantiles of y at M places, shape (5, M), from n rows, shape (n, F) and (n,)."""

    def fitted(level: float) -> Floats:
        model = HistGradientBoostingRegressor(
            loss="quantile",
            quantile=level,
            learning_rate=0.3,
            max_iter=trees,
            max_depth=3,
            min_samples_leaf=3,
            early_stopping=False,
            random_state=0,
        )
        return np.asarray(model.fit(x, y).predict(at))

    return np.stack([fitted(level) for level in levels().tolist()])


def conformal(quantiles: Floats, kept_out: Floats, y: Floats) -> Floats:
    """Quantiles, (5, M), corrected by the quantiles, (5, m), and the scores y, (m,), of rows kept out."""
    corrected = quantiles.copy()
    for low, level in enumerate(levels()[: QUANTILES // 2].tolist()):
        high = QUANTILES - 1 - low
        excess = np.sort(np.maximum(kept_out[low] - y, y - kept_out[high]))
        place = math.ceil((len(y) + 1) * (1.0 - 2.0 * level) - 1e-9)
        correction = excess[min(place, len(y)) - 1]
        corrected[low] -= correction
        corrected[high] += correction
    return corrected


class CQR(SampledSearch):
    """The method for complete trainings."""

    def __init__(self, problem: Problem, rng: np.random.Generator, trees: int = TREES) -> None:
        super().__init__(problem, rng, QuantileSampler(problem, rng, trees))


class ConformalASHA(ASHA):
    """The method along learning curves."""

    def __init__(
        self, problem: Problem, rng: np.random.Generator, eta: int = ETA, trees: int = TREES
    ) -> None:
        super().__init__(problem, rng, eta)
        self._field.sampler = QuantileSampler(problem, rng, trees)
