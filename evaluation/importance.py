"""How much of a metric's variance each hyperparameter explains: functional ANOVA (Hutter et al. 2014).

symbol       shape     meaning
f            grid      the metric as a function of the configuration, on the full grid of G points
x_U                    the values of the hyperparameters in the set U
a_U(x_U)     grid of U mean of f over the grid points that have x_U
V            scalar    variance of f over the grid
V_{i}        scalar    variance of a_{i}:                      share V_{i} / V
V_{i,j}      scalar    variance of a_{i,j}, minus V_{i} and V_{j}: share V_{i,j} / V

If every point of the grid has a row, f is the table itself and the shares are exact. Otherwise f is a random
forest fitted to the rows. A tree is constant on boxes, so its a_U is a sum over leaves, which is exact
without sampling. Shares are means over the trees, with their spread.

The best part (their "improvement over a default"; Hooker 2007; the cutoffs of the fANOVA package) is the set
of grid points where f is at least as good as a threshold. The means and variances above are then computed
over these points only. On this set, hyperparameters are not independent. The share of i is the variance that
x_i explains, and shares may overlap. The share of a pair is the variance that it explains beyond its two
hyperparameters (0 if negative). With few points, shares are large by chance; see `Importance.n_best`.

A categorical hyperparameter counts as one hyperparameter, however many columns its features have: a tree's
box contains the categories that all its splits on these columns allow. An inactive hyperparameter counts with
its default value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from scipy import linalg

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.system.errors import InputError

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

Effect = tuple[int, ...]

# The number of trees in the forest, and the most rows of all trees together: on a large table, each tree
# learns more, so fewer trees are enough.
N_TREES = 64
MOST_TREE_ROWS = 1_000_000
_FEWEST_TREES = 8
BEST_SHARE = 0.25
# With fewer rows, a forest cannot estimate the rest of the grid.
_FEWEST_ROWS = 10
# The numbers of boxes and of trees that are processed at once. Both bound the memory.
_BLOCK = 16_384
_MOST_THREADS = 8


@dataclass(frozen=True, eq=False)
class Importance:
    """Shares of variance.

    Attributes:
        table, metric: names of the table and of the metric.
        method: "exact" for a complete grid, otherwise "forest".
        best_share: share of the rows that make up the best part; None for the whole space.
        threshold: the worst value of the metric in the best part, in raw units; None for the whole space.
        direction: the direction in which the metric is better.
        n_rows: rows that have the metric.
        n_grid: points of the grid of the values that occur.
        inactive: names of the hyperparameters that are inactive in some of these rows.
        n_best: rows in the best part; n_rows for the whole space.
        effects: first, second ("" for a single hyperparameter), share, spread (standard deviation over the
            trees; NaN where exact), most important first.
        trees: of the forest; 0 where exact.
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
    inactive: tuple[str, ...]
    n_best: int
    effects: pd.DataFrame
    trees: int
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


@dataclass(frozen=True, eq=False)
class GridModel:
    """A metric on the whole grid: the table itself if every point has a row, otherwise a forest.

    Attributes:
        response: the metric of each row.
        features: features of the n rows that have the metric, shape (n, F), in [0, 1].
        losses: losses of these rows, shape (n,).
        places: for each of these rows and each hyperparameter, the index of its value among the values that
            occur, shape (n, H).
        axes: by hyperparameter, the features of the k values that occur, shape (k, columns); the grid is the
            product of these values.
        inactive: names of the hyperparameters that are inactive in some of these rows.
        forest: a scikit-learn forest fitted to these rows; None if every point of the grid has a row.
        out_of_bag_r2: R^2 of the forest on rows that its trees did not see; NaN without a forest.
    """

    response: Response
    features: Floats
    losses: Floats
    places: Ints
    axes: tuple[Floats, ...]
    inactive: tuple[str, ...]
    forest: RandomForestRegressor | None
    out_of_bag_r2: float

    @property
    def n_grid(self) -> int:
        """Points of the grid."""
        return int(np.prod([len(axis) for axis in self.axes], dtype=np.float64))


def model_grid(response: Response, *, seed: int = 0, trees: int | None = None) -> GridModel:
    """A model of a metric on the grid of the values that occur; rows without the metric are left out.

    By default, the forest has 64 trees up to 15,625 rows. With more rows it has 1,000,000 / rows trees, but
    at least 8. A tree on 100,000 rows takes about 0.2 s; trees are fitted on all cores. Raises InputError if
    the metric is constant, or too few rows have it.
    """
    losses = response.losses
    known = np.flatnonzero(~np.isnan(losses))
    if len(known) < 2:
        raise InputError(
            f"{response.where}: importance needs at least 2 rows that have it, not {len(known)}."
        )
    losses = losses[known]
    if (losses == losses[0]).all():
        raise InputError(f"{response.where} is the same in every row: no variance can be explained.")
    hyperparameters, configs = response.hyperparameters, response.configs[known]
    columns = [h.counted_as(column) for h, column in zip(hyperparameters, configs.T, strict=True)]
    # The grid has only values that occur in these rows. At other values, a forest would only guess.
    values, places = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
    axes = tuple(h.features(v) for h, v in zip(hyperparameters, values, strict=True))
    features = np.hstack([axis[place] for axis, place in zip(axes, places, strict=True)])
    inactive = tuple(h.name for h, c in zip(hyperparameters, configs.T, strict=True) if np.isnan(c).any())
    whole = GridModel(response, features, losses, np.column_stack(places), axes, inactive, None, np.nan)
    # With inactive hyperparameters, two rows may count as the same point.
    if len(known) == whole.n_grid and not inactive:
        return whole
    if len(known) < _FEWEST_ROWS:
        raise InputError(
            f"{response.where}: {len(known)} rows have it; with fewer than {_FEWEST_ROWS} the other "
            "configurations of the grid cannot be estimated."
        )
    if trees is None:
        trees = max(_FEWEST_TREES, min(N_TREES, MOST_TREE_ROWS // len(known)))
    from sklearn.ensemble import RandomForestRegressor

    # The forest does not depend on the number of jobs, because every tree has its own seed.
    forest = RandomForestRegressor(n_estimators=trees, random_state=seed, n_jobs=-1).fit(features, losses)
    return replace(whole, forest=forest, out_of_bag_r2=_out_of_bag_r2(forest, features, losses))


def check_share(best_share: float) -> None:
    """Raise InputError if it is not a share of rows, above 0 and up to 1."""
    if not 0 < best_share <= 1:
        raise InputError(
            f"the best part must be a share of the rows above 0 and up to 1, not {best_share:g}."
        )


def importance(
    response: Response,
    *,
    best_share: float | None = None,
    seed: int = 0,
    trees: int | None = None,
    model: GridModel | None = None,
) -> Importance:
    """Importance of every hyperparameter and every pair for a metric.

    Args:
        response: the metric of each row; rows without it are left out.
        best_share: None for the whole space, or the share of best rows, such as 0.25, that sets the threshold
            of the best part.
        seed, trees: of the forest; see `model_grid`.
        model: from `model_grid`, for several parts of one metric; by default made from the arguments above.

    Raises:
        InputError: the metric is constant (or constant on the best part), or too few rows have it.

    O(L K^2) for L leaves of the forest (rows of a complete grid) and K values of all hyperparameters
    together, plus the time to fit the forest.
    """
    if best_share is not None:
        check_share(best_share)
    model = model or model_grid(response, seed=seed, trees=trees)
    # The largest loss of the best part, which has at least one row because of the ceil.
    losses, limit = model.losses, np.inf
    if best_share is not None:
        limit = float(np.sort(losses)[ceil(best_share * len(losses) - 1e-9) - 1])
    if model.forest is None:
        columns = zip(model.places.T, model.axes, strict=True)
        boxes = [place[:, None] == np.arange(len(axis)) for place, axis in columns]
        shares = [variance_shares(losses, boxes, losses <= limit)]
    else:
        shares = _forest_shares(model.forest, model.axes, limit)
    # A tree that is constant on the best part explains nothing.
    found = [one for one in shares if one]
    if not found:
        raise InputError(
            f"{response.where} is the same in all of the best {best_share:.0%}: no variance can be explained."
        )
    return Importance(
        table=response.table,
        metric=response.objective.metric,
        method="exact" if model.forest is None else "forest",
        best_share=best_share,
        threshold=None if best_share is None else response.objective.to_raw(limit),
        direction=response.objective.direction,
        n_rows=len(losses),
        n_grid=model.n_grid,
        inactive=model.inactive,
        n_best=int((losses <= limit).sum()),
        effects=_effects([h.name for h in response.hyperparameters], found, model.forest is None),
        trees=0 if model.forest is None else len(model.forest.estimators_),
        out_of_bag_r2=model.out_of_bag_r2,
    )


def variance_shares(
    values: Floats, boxes: Sequence[Bools], included: Bools, weights: Sequence[Floats] | None = None
) -> dict[Effect, float]:
    """Shares of variance by effect, (i,) or (i, j) with i < j, of a function constant on boxes of a grid.

    The share of a pair is its share beyond the shares of its two hyperparameters. The result is empty if the
    function is constant on the included boxes.

    Args:
        values: value of the function on each of L boxes that cover the grid and do not overlap, shape (L,).
        boxes: by hyperparameter, which of its k cells each box spans, shape (L, k).
        included: boxes to take into account, shape (L,).
        weights: by hyperparameter, the share of its values in each cell, shape (k,); by default equal shares.

    O(L K^2) time and O(L H) memory, for K cells of all H hyperparameters together.
    """
    values, spans = values[included], [b[included] for b in boxes]
    if len(values) == 0 or (values == values[0]).all():
        return {}
    if weights is None:
        weights = [np.full(b.shape[1], 1 / b.shape[1]) for b in boxes]
    widths = np.column_stack([span @ weight for span, weight in zip(spans, weights, strict=True)])  # never 0
    size = widths.prod(axis=1)
    size = size / size.sum()
    values = values - size @ values  # the mean is 0 from here on
    total = size @ (values * values)
    # Weight, and weight times mean value, of each cell of every hyperparameter, and of each pair of cells.
    n_cells = sum(len(weight) for weight in weights)
    single, pair = np.zeros((2, n_cells)), np.zeros((2, n_cells, n_cells))
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        # How a box is distributed over the cells. The parts of each hyperparameter's cells sum to 1.
        axes = zip(spans, weights, widths.T, strict=True)
        parts = np.hstack([span[block] * weight / width[block, None] for span, weight, width in axes])
        for k, amount in enumerate((size[block], size[block] * values[block])):
            single[k] += amount @ parts
            pair[k] += (parts * amount[:, None]).T @ parts
    ends = np.cumsum([0, *map(len, weights)])
    cells = [slice(*of) for of in pairwise(ends)]

    def explained(weight: Floats, weighted: Floats) -> float:
        """The share of variance that the mean value of each cell explains."""
        some = weight > 0
        return float((weighted[some] ** 2 / weight[some]).sum() / total)

    alone = [explained(*single[:, of]) for of in cells]
    shares: dict[Effect, float] = {(j,): share for j, share in enumerate(alone)}
    for i, j in combinations(range(len(boxes)), 2):
        shares[i, j] = max(0.0, explained(*pair[:, cells[i], cells[j]]) - alone[i] - alone[j])
    return shares


def leaf_boxes(tree: object, axes: Sequence[Floats]) -> tuple[Floats, list[Bools], list[Floats]]:
    """The L leaves of a scikit-learn tree as boxes of a grid: values, shape (L,), spans and weights.

    Spans and weights are by hyperparameter. A cell is a set of values that no split of the tree separates.
    The spans, shape (L, k), are the cells of each leaf; the weights, shape (k,), the share of the values in
    each of the k cells. An axis has the features of a hyperparameter's values, shape (values, columns).
    O(nodes K) for K cells in all.
    """
    nodes = tree.tree_  # type: ignore[attr-defined]
    places, weights = [], []
    first_column = np.cumsum([0, *(axis.shape[1] for axis in axes)])
    for j, axis in enumerate(axes):
        # scikit-learn compares features in single precision with thresholds in double precision; equal values
        # go left.
        place = axis.astype(np.float32)
        columns = range(first_column[j], first_column[j + 1])
        splits = [np.unique(nodes.threshold[nodes.feature == column]) for column in columns]
        cells = [np.searchsorted(s, column, side="left") for s, column in zip(splits, place.T, strict=True)]
        _, first, count = np.unique(np.column_stack(cells), axis=0, return_index=True, return_counts=True)
        places.append(place[first])
        weights.append(count / len(axis))
    # A row for each cell, a column for each feature; NaN where the feature belongs to another hyperparameter.
    place = linalg.block_diag(*places)
    place[linalg.block_diag(*(np.ones_like(p) for p in places)) == 0] = np.nan
    left, right = nodes.children_left, nodes.children_right
    box = np.ones((nodes.node_count, len(place)), dtype=bool)
    level = np.array([0])
    while len(level):
        level = level[left[level] >= 0]
        at = place[:, nodes.feature[level]].T
        other = np.isnan(at)
        below = at <= nodes.threshold[level, None]
        box[left[level]] = box[level] & (other | below)
        box[right[level]] = box[level] & (other | ~below)
        level = np.concatenate([left[level], right[level]])
    leaves = np.flatnonzero(left < 0)
    ends = np.cumsum([len(p) for p in places])[:-1]
    return nodes.value[leaves, 0, 0], np.split(box[leaves], ends, axis=1), weights


def _forest_shares(
    forest: RandomForestRegressor, axes: Sequence[Floats], limit: float
) -> list[dict[Effect, float]]:
    """Shares of each tree, in order."""
    from joblib import Parallel, cpu_count, delayed
    from threadpoolctl import threadpool_limits

    def of_tree(tree: object) -> dict[Effect, float]:
        values, boxes, weights = leaf_boxes(tree, axes)
        return variance_shares(values, boxes, values <= limit, weights)

    # Only a few threads, one per tree, because each tree needs memory for its leaves.
    jobs = min(cpu_count(), _MOST_THREADS)
    with threadpool_limits(limits=1, user_api="blas"):
        shares: list[dict[Effect, float]] = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(of_tree)(tree) for tree in forest.estimators_
        )
    return shares


def predictable_share(features: Floats, losses: Floats) -> float:
    """How much of the order of rows their features explain, to rows left out: R^2 of normal scores.

    Five parts of the rows are left out in turn, and predicted by a random forest of 150 trees, fitted to the
    other parts. Missing losses have the last rank. NaN if all losses are equal, or for fewer than 10 rows.
    The shapes are (N, F) and (N,). O(N log N) for each tree.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    ranks = rankdata(np.nan_to_num(losses, nan=np.inf))
    scores = ndtri((ranks - 0.5) / len(ranks))
    if len(losses) < _FEWEST_ROWS or np.ptp(scores) == 0:
        return np.nan
    forest = RandomForestRegressor(150, min_samples_leaf=2, random_state=0)
    found = cross_val_predict(forest, features, scores, cv=KFold(5, shuffle=True, random_state=0))
    return float(1 - ((scores - found) ** 2).mean() / scores.var())


def _out_of_bag_r2(forest: RandomForestRegressor, features: Floats, loss: Floats) -> float:
    """R^2 of each row's mean prediction by the trees whose bootstrap sample lacks it."""
    total, count = np.zeros(len(loss)), np.zeros(len(loss))
    for tree, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):
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
