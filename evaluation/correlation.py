"""Do good configurations stay good elsewhere? Rank correlation between tables (Zhang & Duh 2020, 3.5).

Two tables are compared on the configurations that both have. The paper's Figure 4 uses the configurations
that *all* tables have, so that every cell describes the same configurations. The six published tables have 28
in common, if bpe of 30k and 32k are treated as one value. This gives the paper's 0.084 for ja-en and so-en.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.system.errors import InputError

Common = Literal["all", "pair"]

# Values of a hyperparameter that are treated as another value, as in the paper's note on Figure 4.
Equivalent = Mapping[str, Mapping[float, float]]
EQUIVALENT: Equivalent = {"bpe_symbols": {32000.0: 30000.0}}

# Two configurations can only agree or disagree, so a coefficient needs three.
_FEWEST = 3
_Z_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class RankCorrelation:
    """Spearman's coefficient between T tables; arrays have shape (T, T).

    Attributes:
        names: of the tables.
        objectives: the objective that each table is ranked by, as "metric:direction".
        common: which configurations are compared: "all" for those of all tables, "pair" for those of both
            tables.
        coefficient: NaN if fewer than 3 configurations are common, or if a metric is constant on them.
        n_common: number of configurations that have the metric in both tables.
        low, high: 95% interval of the coefficient; NaN for fewer than 4 configurations.
        taken_as_equal: values of these tables that were treated as equal, in words.
    """

    names: tuple[str, ...]
    objectives: tuple[str, ...]
    common: Common
    coefficient: Floats
    n_common: Ints
    low: Floats
    high: Floats
    taken_as_equal: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """One line per pair of tables."""
        matrices = (self.n_common, self.coefficient, self.low, self.high)
        rows = [
            (self.names[i], self.names[j], *(matrix[i, j] for matrix in matrices))
            for i, j in combinations(range(len(self.names)), 2)
        ]
        return pd.DataFrame(rows, columns=["table", "other", "n_common", "spearman", "low", "high"])


def rank_correlation(
    responses: Sequence[Response], *, common: Common = "all", equivalent: Equivalent = EQUIVALENT
) -> RankCorrelation:
    """Spearman correlation of two or more tables' configuration rankings by a metric. O(T^2 N log N).

    Ties have their mean rank. Rows without the metric are left out. Tables whose hyperparameters have
    different names do not have common configurations. This is not an error: the cell is NaN, and its n_common
    is 0. `equivalent` maps values of each hyperparameter to the values that they are treated as.
    """
    if len(responses) < 2:
        raise InputError("a correlation needs at least two tables.")
    names = [r.table for r in responses]
    if len(set(names)) < len(names):
        raise InputError(f"the same table twice: {', '.join(sorted(names))}.")
    if common not in ("all", "pair"):
        raise InputError(f"common must be 'all' or 'pair', not {common!r}.")
    losses = [_by_configuration(r, equivalent) for r in responses]
    shape = (len(responses), len(responses))
    coefficient, low, high = (np.full(shape, np.nan) for _ in range(3))
    n_common = np.zeros(shape, dtype=np.int64)
    everywhere = set.intersection(*(set(one) for one in losses))
    for i in range(len(responses)):
        for j in range(i, len(responses)):
            # Sorted, so that sums round the same way in every process.
            keys = sorted(everywhere if common == "all" else losses[i].keys() & losses[j].keys())
            n_common[i, j] = n_common[j, i] = len(keys)
            r = spearman(np.array([losses[i][k] for k in keys]), np.array([losses[j][k] for k in keys]))
            bounds = (r, r) if i == j else spearman_interval(r, len(keys))
            for matrix, value in zip((coefficient, low, high), (r, *bounds), strict=True):
                matrix[i, j] = matrix[j, i] = value
    objectives = tuple(str(r.objective) for r in responses)
    equal = _taken_as_equal(responses, equivalent)
    return RankCorrelation(tuple(names), objectives, common, coefficient, n_common, low, high, equal)


def spearman(x: Floats, y: Floats) -> float:
    """Pearson's coefficient of mean ranks; NaN for fewer than 3 values, or if one side is constant."""
    if len(x) < _FEWEST or (x == x[0]).all() or (y == y[0]).all():
        return np.nan
    a, b = rankdata(x), rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    # Rounding may lift a perfect correlation above 1.
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman_interval(r: float, n: int) -> tuple[float, float]:
    """95% interval of a Spearman coefficient from n pairs (Bonett & Wright 2000).

    Normal on Fisher's scale: atanh(r) +- 1.96 sqrt((1 + r^2 / 2) / (n - 3)). NaN for fewer than 4 pairs. A
    perfect order of few pairs is weak evidence. Its inner limit is that of the largest coefficient below 1,
    for which two neighbours change places: 1 - 12 / (n (n^2 - 1)).
    """
    if n <= _FEWEST or np.isnan(r):
        return np.nan, np.nan
    largest = 1 - 12 / (n * (n * n - 1))
    inner = np.clip(r, -largest, largest)
    half = _Z_95 * np.sqrt((1 + inner * inner / 2) / (n - 3))
    low, high = np.tanh(np.arctanh(inner) - half), np.tanh(np.arctanh(inner) + half)
    return (-1.0 if r == -1.0 else float(low)), (1.0 if r == 1.0 else float(high))


def _taken_as_equal(responses: Sequence[Response], equivalent: Equivalent) -> tuple[str, ...]:
    found = {(h.name, v) for r in responses for h in r.hyperparameters for v in h.values}
    return tuple(
        f"{name} of {stand_in:g} and {value:g}"
        for name, values in equivalent.items()
        for value, stand_in in values.items()
        if {(name, value), (name, stand_in)} <= found
    )


_Point = tuple[tuple[str, float | str], ...]


def _by_configuration(response: Response, equivalent: Equivalent) -> dict[_Point, float]:
    """Loss of each configuration that has a loss. Keys name the hyperparameters, in alphabetical order.

    Keys can be sorted. A number is a float, -inf if inactive. A label is a string, "" if inactive, and its
    hyperparameter's name is marked, so that numbers and labels are never compared.
    """
    names = [h.name for h in response.hyperparameters]
    configs = response.configs.copy()
    for j, name in enumerate(names):
        for value, stand_in in equivalent.get(name, {}).items():
            configs[response.configs[:, j] == value, j] = stand_in
    if len(np.unique(configs, axis=0)) < len(configs):
        raise InputError(
            f"table {response.table!r}: configurations coincide if values are treated as equal "
            f"({', '.join(name for name in names if name in equivalent)}), because it has both values."
        )
    columns = {}
    for h, codes in zip(response.hyperparameters, configs.T, strict=True):
        if h.is_numeric:
            columns[h.name] = np.where(np.isnan(codes), -np.inf, codes).tolist()
        else:
            columns[f"{h.name} (label)"] = np.array([*h.labels, ""], dtype=object)[h.places(codes)].tolist()
    names = sorted(columns)
    points = zip(*(columns[name] for name in names), strict=True)
    return {
        tuple(zip(names, point, strict=True)): float(loss)
        for point, loss in zip(points, response.losses, strict=True)
        if not np.isnan(loss)
    }
