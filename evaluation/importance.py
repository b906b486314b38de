"""How much of a metric's variance each hyperparameter explains: functional ANOVA (Hutter et al. 2014).

symbol       shape     meaning
f            grid      the metric as a function of the configuration, on the full grid of G points
x_U                    the values of the hyperparameters in the set U
a_U(x_U)     grid of U mean of f over the grid points that have x_U
V            scalar    variance of f over the grid
V_{i}        scalar    variance of a_{i}:                      share V_{i} / V
V_{i,j}      scalar    variance of a_{i,j}, less V_{i} and V_{j}: share V_{i,j} / V

Where every point of the grid has a row, f is the table itself and the shares are exact. Where rows are
lacking, f is a random forest fitted to those that are there. A tree is constant on boxes, so its a_U is a
sum over leaves and just as exact: nothing is sampled. Shares are means over the trees, with their spread.

The best part (their "improvement over a default"; Hooker 2007; the cutoffs of the fANOVA package) is the
set of grid points where f is at least as good as a threshold; the means and variances above are then taken
over these points only. There hyperparameters are not independent: the share of i is the variance that
knowing x_i explains, shares may overlap, and a pair adds what it explains beyond its two hyperparameters
(0 where that is negative). Few points make shares large by chance; see `Importance.n_best`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import scaled_features

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Effect = tuple[int, ...]

N_TREES = 64
BEST_SHARE = 0.25
# With fewer rows than this a forest says nothing of a grid that it has not seen.
_FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False)
class Importance:
    """Shares of variance.

    Attributes:
        table, metric: of what.
        method: "exact" for a complete grid, else "forest".
        best_share: share of the rows that make up the best part; None for the whole space.
        threshold: the worst value of the metric that belongs to the best part, in raw units; None likewise.
        direction: which way the metric is better.
        n_rows: rows that have the metric.
        n_grid: points of the grid of the values that occur.
        n_best: rows in the best part; n_rows for the whole space.
        effects: columns first, second ("" for a single hyperparameter), share, spread (standard deviation
            over the trees; NaN where exact), most important first.
        out_of_bag_r2: R^2 of the forest on rows that its trees did not see; NaN where exact.
    """

    table: str
    metric: str
    method: Literal["exact", "forest"]
    best_share: float | None
    threshold: float | None
    direction: Direction
    n_rows: int
    n_grid: int
    n_best: int
    effects: pd.DataFrame
    out_of_bag_r2: float

    @property
    def best_values(self) -> str:
        """The values of the best part, such as "35 or more"; "" for the whole space."""
        if self.threshold is None:
            return ""
        return f"{self.threshold:.4g} or {'more' if self.direction == 'max' else 'less'}"

    @property
    def singles(self) -> pd.DataFrame:
        """Effects of one hyperparameter, most important first."""
        return self.effects[self.effects["second"] == ""]

    @property
    def pairs(self) -> pd.DataFrame:
        """Effects of two hyperparameters, most important first."""
        return self.effects[self.effects["second"] != ""]


def importance(
    response: Response,
    *,
    best_share: float | None = None,
    seed: int = 0,
    trees: int = N_TREES,
) -> Importance:
    """Importance of every hyperparameter and every pair for a metric.

    Args:
        response: the metric of each row; rows without it are left out.
        best_share: None for the whole space, or the share of the rows (their best) that sets the
            threshold of the best part, such as 0.25.
        seed: of the forest.
        trees: of the forest.

    Raises:
        InputError: the metric is constant (or constant on the best part), or too few rows have it.

    A forest of 64 trees on 800 rows takes about half a second; exact shares are O(N H^2 k^2) for k values
    a hyperparameter.
    """
    if best_share is not None and not 0 < best_share <= 1:
        raise InputError(
            f"the best part must be a share of the rows above 0 and up to 1, not {best_share!r}."
        )
    where, loss = response.where, response.losses
    known = np.flatnonzero(~np.isnan(loss))
    if len(known) < 2:
        raise InputError(f"{where}: importance needs at least 2 rows that have it, not {len(known)}.")
    loss, features = loss[known], scaled_features(response.hyperparameters, response.configs[known])
    if (loss == loss[0]).all():
        raise InputError(f"{where} is the same in every row: there is no variance to explain.")
    # Sorted losses up to the last of the best part: the ceil keeps at least one row.
    limit = np.inf if best_share is None else np.sort(loss)[ceil(best_share * len(loss) - 1e-9) - 1]
    # The grid of the values that occur; a value without a row would only be guessed.
    axes = [np.unique(column) for column in features.T]
    n_grid = int(np.prod([len(a) for a in axes], dtype=np.float64))
    exact = len(known) == n_grid
    if exact:
        boxes = [column[:, None] == axis for column, axis in zip(features.T, axes, strict=True)]
        shares = variance_shares(loss, boxes, loss <= limit)
        found = [shares] if shares else []
        r2 = np.nan
    else:
        if len(known) < _FEWEST_ROWS:
            raise InputError(
                f"{where}: {len(known)} of the {n_grid:,} configurations of the grid have it; with fewer "
                f"than {_FEWEST_ROWS} the others cannot be estimated."
            )
        found, r2 = _forest_shares(features, loss, axes, limit, seed, trees)
    if not found:
        raise InputError(
            f"{where} is the same in all of the best {best_share:.0%}: there is no variance to explain."
        )
    return Importance(
        table=response.table,
        metric=response.objective.metric,
        method="exact" if exact else "forest",
        best_share=best_share,
        threshold=None if best_share is None else response.objective.to_raw(float(limit)),
        direction=response.objective.direction,
        n_rows=len(known),
        n_grid=n_grid,
        n_best=int((loss <= limit).sum()),
        effects=_effects([h.name for h in response.hyperparameters], found, exact),
        out_of_bag_r2=r2,
    )


def variance_shares(
    values: Floats, boxes: Sequence[Bools], included: Bools, weights: Sequence[Floats] | None = None
) -> dict[Effect, float]:
    """Shares of variance of a function that is constant on boxes of a grid.

    The boxes must not overlap, and cover the grid. A share of a pair is what it adds to its two
    hyperparameters.

    Args:
        values: of the function on each of L boxes, shape (L,).
        boxes: by hyperparameter, which of its k cells each box spans, shape (L, k).
        included: boxes to take into account, shape (L,).
        weights: by hyperparameter, the share of its values in each cell, shape (k,); by default all alike.

    Returns:
        share by effect: (i,) or (i, j) with i < j; empty where the function is constant on what is
        included.

    O(L H^2 k^2).
    """
    values, spans = values[included], [b[included] for b in boxes]
    if len(values) == 0 or (values == values[0]).all():
        return {}
    if weights is None:
        weights = [np.full(b.shape[1], 1 / b.shape[1]) for b in boxes]
    # A box's share of each cell's weight, given the box: the lines sum to 1.
    parts = [span * weight for span, weight in zip(spans, weights, strict=True)]
    widths = [part.sum(axis=1) for part in parts]  # never 0
    size = np.prod(widths, axis=0)
    size = size / size.sum()
    parts = [part / width[:, None] for part, width in zip(parts, widths, strict=True)]
    values = values - size @ values  # the mean is 0 from here on
    total = size @ (values * values)

    def explained(*effect: int) -> float:
        """Variance of the mean of the function given the values of the hyperparameters in effect."""
        left = parts[effect[0]]
        right = parts[effect[1]] if len(effect) == 2 else np.ones((len(left), 1))
        # Weight of each cell of the effect's own grid, and weight times mean.
        weight = (left * size[:, None]).T @ right
        weighted = (left * (size * values)[:, None]).T @ right
        some = weight > 0
        return float((weighted[some] ** 2 / weight[some]).sum())

    single = [explained(j) / total for j in range(len(boxes))]
    shares: dict[Effect, float] = {(j,): share for j, share in enumerate(single)}
    for i, j in combinations(range(len(boxes)), 2):
        shares[i, j] = max(0.0, explained(i, j) / total - single[i] - single[j])
    return shares


def leaf_boxes(tree: object, axes: Sequence[Floats]) -> tuple[Floats, list[Bools], list[Floats]]:
    """Leaves of a fitted scikit-learn tree as boxes of a grid.

    Values of a hyperparameter that no split of the tree tells apart are one cell.

    Args:
        tree: a DecisionTreeRegressor.
        axes: by hyperparameter, the values of the grid in the units of the tree's features, ascending.

    Returns:
        values of the L leaves, shape (L,); by hyperparameter which of its k cells each leaf spans, (L, k),
        and the share of its values in each cell, (k,).

    O(nodes K) for K cells in all, one step a level of the tree.
    """
    nodes = tree.tree_  # type: ignore[attr-defined]
    places, weights = [], []
    for j, axis in enumerate(axes):
        splits = np.unique(nodes.threshold[nodes.feature == j])
        # scikit-learn compares features in single precision with thresholds in double; equal goes left.
        place = axis.astype(np.float32)
        cell = np.searchsorted(splits, place, side="left")
        _, first, count = np.unique(cell, return_index=True, return_counts=True)
        places.append(place[first])
        weights.append(count / len(axis))
    owner = np.concatenate([np.full(len(place), j) for j, place in enumerate(places)])
    place = np.concatenate(places)
    left, right = nodes.children_left, nodes.children_right
    box = np.ones((nodes.node_count, len(owner)), dtype=bool)
    level = np.array([0])
    while len(level):
        level = level[left[level] >= 0]
        other = owner != nodes.feature[level, None]
        below = place <= nodes.threshold[level, None]
        box[left[level]] = box[level] & (other | below)
        box[right[level]] = box[level] & (other | ~below)
        level = np.concatenate([left[level], right[level]])
    leaves = np.flatnonzero(left < 0)
    ends = np.cumsum([len(p) for p in places])[:-1]
    return nodes.value[leaves, 0, 0], np.split(box[leaves], ends, axis=1), weights


def _forest_shares(
    features: Floats, loss: Floats, axes: Sequence[Floats], limit: float, seed: int, trees: int
) -> tuple[list[dict[Effect, float]], float]:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=trees, random_state=seed).fit(features, loss)
    found = []
    for tree in forest.estimators_:
        values, boxes, weights = leaf_boxes(tree, axes)
        # A tree may be constant on the best part: it has nothing to say.
        if shares := variance_shares(values, boxes, values <= limit, weights):
            found.append(shares)
    return found, _out_of_bag_r2(forest, features, loss)


def _out_of_bag_r2(forest: object, features: Floats, loss: Floats) -> float:
    """R^2 of each row's mean prediction by the trees whose bootstrap sample lacks it."""
    total, count = np.zeros(len(loss)), np.zeros(len(loss))
    for tree, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):  # type: ignore[attr-defined]
        unseen = np.flatnonzero(np.bincount(sample, minlength=len(loss)) == 0)
        if len(unseen):
            total[unseen] += tree.predict(features[unseen])
            count[unseen] += 1
    seen = count > 0
    if not seen.any() or np.ptp(loss[seen]) == 0:
        return np.nan
    error = ((total[seen] / count[seen] - loss[seen]) ** 2).mean()
    return float(1 - error / loss[seen].var())


def _effects(names: Sequence[str], found: Sequence[dict[Effect, float]], exact: bool) -> pd.DataFrame:
    effects = list(found[0])
    shares = np.array([[one[effect] for effect in effects] for one in found])
    frame = pd.DataFrame(
        {
            "first": [names[effect[0]] for effect in effects],
            "second": [names[effect[1]] if len(effect) == 2 else "" for effect in effects],
            "share": shares.mean(axis=0),
            "spread": np.nan if exact else shares.std(axis=0),
        }
    )
    return frame.sort_values("share", ascending=False, kind="stable", ignore_index=True)
