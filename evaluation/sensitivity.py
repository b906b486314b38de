"""Is the best configuration a fluke, and would a grid search have found one as good? (Melis et al. 2018, 7.3)

All distances in a metric are gaps to the best value of the table, in raw units, 0 or more. A row *counts* if
its gap is at most a tolerance d. Distances between configurations are counted in grid steps: the number of
moves to a neighbouring value, over all hyperparameters, that lead from one to the other. (A step of a
hyperparameter with more than 9 values is an eighth of their range, so that a fine grid also has neighbours.)
Any two categories are one step apart. For distances, an inactive hyperparameter counts with its default
value. On coarse grids, an inactive hyperparameter fits any choice of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, inf, prod

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import Hyperparameter, covered_share
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.random_search import none_drawn
from hpobench_nmt.evaluation.scores import make_goal

# Rows within this many grid steps of the best are near it. (Melis et al. use 15-25% of each range; a grid of
# two or three values per hyperparameter does not have such rows.)
NEAR = 2
_MOST_VALUES = 9
# With more rows than this, distances come from a search tree.
_FEW_ROWS = 16
# Up to this many coarse grids of one size, all are tried. With more, _DRAWN grids are drawn at random.
_MOST_GRIDS = 20_000
_DRAWN = 5_000
# The number of target rows that are compared with the coarse grids at once.
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How a table's metric falls off around its best row, and what a search for it costs.

    Attributes:
        table, objective: name of the table, and the objective as "metric:direction".
        tolerance: d.
        gaps: of every row, shape (N,), NaN where the metric is missing.
        steps: grid steps from each row to the nearest best row, shape (N,).
        by_steps: one line per number of steps: rows (number with the metric), within (number that count),
            share, median_gap.
        near, far: share of rows that count, among the rows 1 or 2 grid steps from a best row, and among the
            rows farther away; NaN without such rows.
        n_near, n_far: numbers of rows near and far.
        reach: by hyperparameter: best (its value in the first best row), lowest and highest value that still
            count if only this hyperparameter changes, share (of its values that lie between these).
            Categories do not have an order, so lowest and highest are all categories that still count, joined
            by " or ". Hyperparameters that are inactive in either row are not compared. A hyperparameter that
            is inactive in the best row does not have values.
        interval_trials: trials of the grid with one value in every interval of that length: the product of
            ceil(1 / share), as computed by Melis et al.
        random_trials: exact number of trials of a search in random order until a row counts: mean, median,
            95% quantile.
        grids: by number of values per hyperparameter: trials (mean number of the table's rows on such a
            grid), choices (number of such grids), success (share of the grids that have a row that counts),
            exact (whether all grids were tried, or a sample).
        coverage: share of the grid's points that have a row (`covered_share`); `grids` needs a large one.
    """

    table: str
    objective: str
    tolerance: float
    gaps: Floats
    steps: Ints
    by_steps: pd.DataFrame
    near: float
    far: float
    n_near: int
    n_far: int
    reach: pd.DataFrame
    interval_trials: int
    random_trials: tuple[float, int, int]
    grids: pd.DataFrame
    coverage: float


def sensitivity(response: Response, tolerance: float, *, seed: int = 0) -> Sensitivity:
    """How sensitive a metric is around the table's best row, at a tolerance d in the metric's unit.

    A row without the metric never counts, but costs a search one trial. The seed is for the sample of coarse
    grids, which is used if there are too many to try all.
    """
    loss, axes = response.losses, response.hyperparameters
    configs = response.configs
    if np.isnan(loss).all():
        raise InputError(f"{response.where} is missing in every row.")
    if np.nanmin(loss) == np.nanmax(loss):
        raise InputError(f"{response.where} is the same in every row: nothing is sensitive.")
    if not tolerance >= 0:
        raise InputError(f"the tolerance must be 0 or more, not {tolerance:g}.")
    counts = make_goal("ftc", loss[:, None], tolerance=tolerance).targets
    known = ~np.isnan(loss)
    best = np.flatnonzero(loss == np.nanmin(loss))
    gaps = loss - np.nanmin(loss)
    columns = zip(axes, configs.T, strict=True)
    steps = grid_steps(axes, np.column_stack([h.counted_as(column) for h, column in columns]), best)
    near = known & (steps >= 1) & (steps <= NEAR)
    far = known & (steps > NEAR)
    reach = _reach(axes, configs, int(best[0]), counts)
    return Sensitivity(
        table=response.table,
        objective=str(response.objective),
        tolerance=float(tolerance),
        gaps=gaps,
        steps=steps,
        by_steps=_by_steps(gaps, steps, counts),
        near=_share(counts[near]),
        far=_share(counts[far]),
        n_near=int(near.sum()),
        n_far=int(far.sum()),
        reach=reach,
        interval_trials=prod(ceil(1 / share - 1e-9) for share in reach["share"]),
        random_trials=random_order(len(response), int(counts.sum())),
        grids=coarse_grids(axes, configs, counts, seed=seed),
        coverage=covered_share(axes, configs),
    )


def share_within(gaps: Floats, distances: Floats) -> Floats:
    """Share of the rows whose gap is at most each distance, shape (D,). NaN gaps are left out."""
    ordered = np.sort(gaps[~np.isnan(gaps)])
    return np.searchsorted(ordered, distances, side="right") / max(len(ordered), 1)


def grid_steps(axes: Sequence[Hyperparameter], configs: Floats, rows: Ints) -> Ints:
    """Grid steps from every row to the nearest of some rows, shape (N,).

    It takes O(N H) for each of these rows. For many rows, a search tree is used, unless a hyperparameter is
    categorical or has more than 9 values.
    """
    ranks = np.column_stack([h.places(column) for h, column in zip(axes, configs.T, strict=True)])
    unordered = np.array([h.kind == "categorical" for h in axes])
    n_steps = np.where(unordered, 1, [len(h.values) - 1 for h in axes])
    scale = np.minimum(1.0, (_MOST_VALUES - 1) / np.maximum(n_steps, 1))
    if len(rows) > _FEW_ROWS and (scale == 1.0).all() and not unordered.any():
        distances: Floats = cKDTree(ranks[rows]).query(ranks, p=1)[0]
        return np.rint(distances).astype(np.int64)
    nearest = np.full(len(configs), np.iinfo(np.int64).max)
    for row in rows:
        away = np.abs(ranks - ranks[row])
        # Rounded up, so that different ranks are at least one step apart.
        steps = np.ceil(np.where(unordered, away > 0, away) * scale - 1e-9).sum(axis=1)
        nearest = np.minimum(nearest, steps.astype(np.int64))
    return nearest


def random_order(n_rows: int, n_targets: int) -> tuple[float, int, int]:
    """Trials until the first of k targets among N rows in random order: mean, median, and 95% quantile."""
    if n_targets == 0:
        raise InputError("no row is within the tolerance.")
    reached = 1.0 - none_drawn(n_rows, n_targets)
    # Without the tolerance, a rounding error could require one more trial.
    median, most = (int(np.argmax(reached >= share - 1e-12)) for share in (0.5, 0.95))
    return (n_rows + 1) / (n_targets + 1), median, most


def coarse_grids(
    axes: Sequence[Hyperparameter], configs: Floats, counts: Bools, *, seed: int = 0
) -> pd.DataFrame:
    """Grid searches that try g values per hyperparameter, over every choice of these values.

    If a hyperparameter has fewer than g values, all of them are tried. Good values are not known beforehand,
    so all choices have the same weight. A grid succeeds if it has a row that counts. An inactive
    hyperparameter of a row, NaN in its codes, fits every grid. Of more than 20,000 choices, 5,000 are drawn.
    Columns: values (g: 1 to at most 9, and the full grid), trials, choices (infinite above 1e308), success,
    exact.
    """
    sizes = [len(h.values) for h in axes]
    targets = np.column_stack([h.places(column) for h, column in zip(axes, configs[counts].T, strict=True)])
    patterns = Counter(map(tuple, np.isnan(configs).tolist()))
    lines = []
    for g in sorted({*range(1, min(max(sizes), _MOST_VALUES) + 1), max(sizes)}):
        taken = [min(g, size) for size in sizes]
        choices = prod(map(comb, sizes, taken))
        exact = choices <= _MOST_GRIDS
        rng = np.random.default_rng([seed, g])
        options, which = _all_choices(sizes, taken) if exact else _some_choices(sizes, taken, rng)
        # Every row is on the same share of the grids, unless some of its hyperparameters are inactive.
        # Python's integers neither round nor overflow.
        on = sum(n * prod(np.where(inactive, sizes, taken).tolist()) for inactive, n in patterns.items())
        success = float(_hits(options, which, targets).mean())
        n_grids = float(choices) if choices <= 1e308 else inf
        lines.append((g, on / prod(sizes), n_grids, success, exact))
    return pd.DataFrame(lines, columns=["values", "trials", "choices", "success", "exact"])


def _all_choices(sizes: Sequence[int], taken: Sequence[int]) -> tuple[list[Bools], list[Ints]]:
    """All grids: by hyperparameter, sets of values to try, (sets, size), and each grid's set, (grids,)."""
    options = [_sets(size, k) for size, k in zip(sizes, taken, strict=True)]
    grids = np.arange(prod(map(len, options)))
    which, block = [], len(grids)
    for sets in options:  # like np.indices, which supports at most 64 hyperparameters
        block //= len(sets)
        which.append(grids // block % len(sets))
    return options, which


def _some_choices(
    sizes: Sequence[int], taken: Sequence[int], rng: np.random.Generator
) -> tuple[list[Bools], list[Ints]]:
    """The same, for 5,000 random grids."""
    options, which = [], []
    for size, k in zip(sizes, taken, strict=True):
        if comb(size, k) <= _MOST_GRIDS:
            options.append(_sets(size, k))
            which.append(rng.integers(len(options[-1]), size=_DRAWN))
            continue
        chosen = rng.integers(size, size=(_DRAWN, k))
        # Draw again if a value occurs twice, so that all sets of k different values are equally likely.
        while (twice := (np.diff(np.sort(chosen, axis=1)) == 0).any(axis=1)).any():
            chosen[twice] = rng.integers(size, size=(int(twice.sum()), k))
        options.append(_marked(chosen, size))
        which.append(np.arange(_DRAWN))
    return options, which


def _sets(size: int, k: int) -> Bools:
    """Every choice of k of `size` values, one line per choice."""
    return _marked(np.array(list(combinations(range(size), k))), size)


def _marked(chosen: Ints, size: int) -> Bools:
    marks = np.zeros((len(chosen), size), dtype=bool)
    np.put_along_axis(marks, chosen, True, axis=1)
    return marks


def _hits(options: Sequence[Bools], which: Sequence[Ints], targets: Ints) -> Bools:
    """Whether each grid has one of the targets (ranks of their values, shape (T, H)), shape (grids,).

    Targets are bits. A target is on a grid if it is in the sets of all hyperparameters. An inactive
    hyperparameter has the rank after the last value, which is in every set.
    """
    options = [np.pad(option, ((0, 0), (0, 1)), constant_values=True) for option in options]
    hit = np.zeros(len(which[0]), dtype=bool)
    for start in range(0, len(targets), _BLOCK):
        block = targets[start : start + _BLOCK]
        left = np.flatnonzero(~hit)
        on_grid = np.full((len(left), -(-len(block) // 8)), 255, dtype=np.uint8)
        for j, option in enumerate(options):
            on_grid &= np.packbits(option[:, block[:, j]], axis=1)[which[j][left]]
        hit[left] = on_grid.any(axis=1)
    return hit


def _by_steps(gaps: Floats, steps: Ints, counts: Bools) -> pd.DataFrame:
    lines = []
    for distance in np.unique(steps):
        ring = (steps == distance) & ~np.isnan(gaps)
        if ring.any():
            n, within = int(ring.sum()), int(counts[ring].sum())
            lines.append((int(distance), n, within, within / n, float(np.median(gaps[ring]))))
    return pd.DataFrame(lines, columns=["steps", "rows", "within", "share", "median_gap"])


def _reach(axes: Sequence[Hyperparameter], configs: Floats, best: int, counts: Bools) -> pd.DataFrame:
    lines: list[tuple[str, float | str, float | str, float | str, float]] = []
    for j, h in enumerate(axes):
        if np.isnan(configs[best, j]):
            lines.append((h.name, "inactive", "", "", 1.0))
            continue
        others = np.delete(configs, j, axis=1)
        alike = (others == others[best]) | np.isnan(others) | np.isnan(others[best])
        line = alike.all(axis=1) & counts
        good = np.isin(h.numbers, configs[line, j])
        here = h.numbers.index(configs[best, j])
        if h.kind == "categorical":
            kept = " or ".join(text for text, is_good in zip(h.labels, good, strict=True) if is_good)
            lines.append((h.name, h.labels[here], kept, kept, good.mean()))
            continue
        bad = np.flatnonzero(~good)
        low = int(bad[bad < here].max(initial=-1)) + 1
        high = int(bad[bad > here].min(initial=len(good))) - 1
        share = (high - low + 1) / len(good)
        values = h.numbers if h.is_numeric else h.labels
        lines.append((h.name, values[here], values[low], values[high], share))
    return pd.DataFrame(lines, columns=["hyperparameter", "best", "lowest", "highest", "share"])


def _share(counts: Bools) -> float:
    return float(counts.mean()) if len(counts) else np.nan
