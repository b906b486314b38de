"""Variance given rows that are still being evaluated, for methods with several workers.

symbol   shape    meaning
P        k        pending rows
C        k x M    posterior covariance of the pending rows with the M candidates that are kept
s        scalar   standard deviation of the observation noise
W        k x M    L^-1 C, with L the Cholesky factor of C[:,P] + s^2 I

The variance of a Gaussian posterior depends on which rows are observed, but not on their losses. So the
variance after the pending rows are observed is already known: var - column sums of W^2. The mean does not
change (Desautels et al. 2014, "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian Process Bandit
Optimization", section 4.1). Near pending rows the variance is small, so the rows of a batch are spread out.

When a row becomes pending, the update takes O(n M) for n observed rows. When a pending row is observed, the
update takes O(k M), because its row of C is already known. W takes O(k^2 M).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.system.compiled import compiled
from hpobench_nmt.methods.surrogates.cholesky import add_rows, divide_row
from hpobench_nmt.methods.surrogates.posterior import VARIANCE_FLOOR, FinitePosterior


class Given(NamedTuple):
    """The posterior of M candidates once the pending rows are observed, as arrays of shape (M,)."""

    var: Floats
    free: Bools  # False for rows that are seen or pending
    row_sums: Floats | None  # of the covariance, if the posterior tracks them


class Pending:
    """A posterior with pending rows. All observations and discards must go through this class."""

    def __init__(self, posterior: FinitePosterior) -> None:
        self._posterior = posterior
        self._rows: list[int] = []
        self._kept = posterior.rows
        self._covariance: Floats = np.empty((0, len(posterior.rows)))

    def observe(self, row: int, targets: Floats) -> bool:
        """Condition the posterior on a row; False if the rows before determine it."""
        if row in self._rows:
            self._keep_up()
            place = self._rows.index(row)
            own = self._covariance[place]
            column = int(self._kept.searchsorted(row))
            pivot = own[column] + self._posterior.noise_variance
            if pivot > self._posterior.prior_variance(row) * VARIANCE_FLOOR:
                share = self._covariance[:, column] / pivot
                share[place] = 0.0
                self._covariance = self._covariance - share[:, None] * own
            self._leave(row)
        elif self._rows:
            self._rows, self._covariance = [], self._covariance[:0]
        return self._posterior.observe(row, targets)

    def discard(self, row: int) -> None:
        """Remove a row from the candidates without learning from it."""
        if row in self._rows:
            self._leave(row)
        self._posterior.discard(row)

    def _leave(self, row: int) -> None:
        place = self._rows.index(row)
        self._rows.pop(place)
        self._covariance = np.delete(self._covariance, place, axis=0)

    def given(self, running: Iterable[int]) -> Given:
        """The posterior given that these rows are pending. The posterior's own arrays do not change."""
        posterior = self._posterior
        wanted = list(running)
        self._keep_up()
        for row in [row for row in self._rows if row not in wanted]:
            self._leave(row)
        new = [row for row in wanted if row not in self._rows]
        if new:
            more = [posterior.covariance(row) for row in new]
            self._covariance = np.vstack([self._covariance, *more])
            self._rows += new
        columns = self._kept.searchsorted(np.array(self._rows, dtype=np.int64))
        free = posterior.unseen.copy()
        free[columns] = False
        var = posterior.var.copy()
        sums = None if posterior.row_sums is None else posterior.row_sums.copy()
        floors = np.array([posterior.prior_variance(row) * VARIANCE_FLOOR for row in self._rows])
        followed = np.empty(0) if sums is None else sums
        _condition(self._covariance.copy(), columns, posterior.noise_variance, floors, var, followed)
        return Given(var, free, sums)

    def _keep_up(self) -> None:
        """Drop the columns that the posterior has dropped."""
        rows = self._posterior.rows
        if rows is not self._kept:
            self._covariance = self._covariance[:, self._kept.searchsorted(rows)]
            self._kept = rows


@compiled()
def _condition(w: Floats, columns: Rows, noise: float, floors: Floats, var: Floats, row_sums: Floats) -> None:
    """Turn C into W, row by row, and condition variance and row sums (may be empty) on each row, in place.

    A row whose variance is at most its floor, which is rounding error, is skipped.
    """
    count, width = w.shape
    for j in range(count):
        column = columns[j]
        add_rows(w[:j], -w[:j, column], w[j])
        pivot = w[j, column] + noise
        if pivot <= floors[j]:
            w[j, :] = 0.0
            continue
        d = np.sqrt(pivot)
        divide_row(w[j], d, var)
        if row_sums.shape[0] > 0:
            share = row_sums[column] * (1.0 / d)
            for i in range(width):
                row_sums[i] -= w[j, i] * share
