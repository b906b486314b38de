"""Facts about a table's grid and the surface of its objective that make a benchmark easy, or misleading."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints, Rows
from hpobench_nmt.core.space import Hyperparameter, short_label
from hpobench_nmt.lookup.checks.curve_checks import Fact, listed, warning
from hpobench_nmt.lookup.groups import group_ids, ranks
from hpobench_nmt.lookup.table import Table

_NEAR = 1.01
_ADDITIVE = 0.9
_EXPLAINS = 0.01
# An axis with more values than this is cut into this many parts, with about equally many rows in each.
_LEVELS = 16
# A fit needs this many rows per parameter, and a total effect needs this share of rows that can be compared.
_ROWS_PER_PARAMETER = 2
_COMPARED = 0.5
_FEWEST_VALUES = 3
# A best row is central if less than this share of the rows is as near to the middle. Tables with fewer rows
# than _ROWS_FOR_CENTRE are not checked.
_CENTRAL, _ROWS_FOR_CENTRE = 0.05, 60
# Rows are far worse than the rest if they lie this many interquartile ranges above the upper quartile, are at
# most this share of the rows, and have more than this share of the variance.
_FAR, _MOST_ROWS, _LEAST_SHARE = 3.0, 0.1, 0.5
# With fewer rows per value than this, the values were probably drawn at random.
_ROWS_PER_VALUE = 4


def surface_facts(table: Table, objective: str) -> Iterator[Fact]:
    """Facts about the grid, and about one objective over it. O(N (H K)^2) for K values per axis."""
    yield from _near_values(table)
    losses, known = _without_far(table, objective)
    if np.isnan(losses).all() or np.nanmin(losses) == np.nanmax(losses):
        return
    yield from _edges(table, objective)
    yield from _centre(table, objective)
    if not known.any() or np.ptp(losses[known]) == 0:
        return
    explained = additivity(table, objective)
    if explained > _ADDITIVE:
        yield warning(
            f"{objective} is nearly additive: the hyperparameters one by one explain {explained:.0%} of its "
            "variance",
            "any local method wins on such a surface, so it is poor at distinguishing methods.",
        )
    pairs = zip(table.hyperparameters, total_effects(table.configs[known], losses[known]), strict=True)
    if idle := [f"{h.name} ({share:.2%})" for h, share in pairs if share < _EXPLAINS]:
        yield warning(
            f"{listed(idle)} explain{'s' * (len(idle) == 1)} less than 1% of the variance of {objective}",
            "the space is smaller than it seems: rows that differ only there are nearly the same.",
        )


def additivity(table: Table, objective: str) -> float:
    """The share of an objective's variance that its hyperparameters explain one by one; see `additive_share`.

    Rows that lack the objective, or are far worse than the rest, are left out.
    """
    losses, known = _without_far(table, objective)
    pairs = zip(table.hyperparameters, table.configs.T, strict=True)
    return additive_share([_levels(h, codes[known]) for h, codes in pairs], losses[known])


def _without_far(table: Table, objective: str) -> tuple[Floats, Bools]:
    """The losses, and which rows have a loss that is not far worse than the rest, both of shape (N,)."""
    losses = table.losses([objective])[:, 0]
    known = ~np.isnan(losses)
    known[far_rows(losses)] = False  # otherwise, diverged rows would dominate the variance
    return losses, known


def far_rows(losses: Floats) -> Rows:
    """The few rows that are far worse than the rest and carry most of the variance, worst first; often empty.

    They lie above the upper quartile by more than 3 times the interquartile range (Tukey's outer fence). The
    result is empty if these are more than a tenth of the rows, or carry no more than half of the variance.

    Args:
        losses: shape (N,), lower is better. Rows with NaN are left out.
    """
    known = losses[~np.isnan(losses)]
    if len(known) < 2 or known.min() == known.max():
        return np.array([], dtype=np.int64)
    lower, upper = np.percentile(known, [25, 75])
    far = np.flatnonzero(losses > upper + _FAR * (upper - lower))
    if len(far) > _MOST_ROWS * len(known) or not variance_share(losses, far) > _LEAST_SHARE:
        return np.array([], dtype=np.int64)
    return far[np.argsort(-losses[far], kind="stable")]


def variance_share(losses: Floats, rows: Rows) -> float:
    """The share by which the variance falls if these rows are removed, 0 to 1; below 0 if it rises."""
    return 1.0 - float(np.nanvar(np.delete(losses, rows)) / np.nanvar(losses))


def _near_values(table: Table) -> Iterator[Fact]:
    """Values of a log axis that are probably one value, rounded in two ways. Random values are skipped."""
    for h, column in zip(table.hyperparameters, table.configs.T, strict=True):
        if h.scale != "log" or _ROWS_PER_VALUE * len(h.values) > (~np.isnan(column)).sum():
            continue
        near = [f"{short_label(a)} and {short_label(b)}" for a, b in pairwise(h.numbers) if b < a * _NEAR]
        if near:
            yield warning(
                f"{h.name} has values that differ by less than 1%: {listed(near)}",
                "they are probably one value that was rounded in two ways: merge them before you add the "
                "table.",
            )


def edges_of_best(table: Table, objective: str) -> list[str]:
    """The ends of the hyperparameters at which all best rows lie, such as "the largest width, 1024"."""
    best = table.best_rows(objective)
    at = []
    for h, column in zip(table.hyperparameters, table.configs.T, strict=True):
        if h.kind == "categorical" or len(h.values) < _FEWEST_VALUES:
            continue
        words = ("least", "largest") if h.is_numeric else ("first", "last")
        for end, word in zip(h.ends, words, strict=True):
            if (column[best] == end).all():
                at.append(f"the {word} {h.name}, {short_label(h.value(end))}")
    return at


def _edges(table: Table, objective: str) -> Iterator[Fact]:
    best, at = table.best_rows(objective), edges_of_best(table, objective)
    if at:
        rows = f"row {best[0]}" if len(best) == 1 else f"rows {listed(best)}"
        yield warning(
            f"the best {objective} ({rows}) is at {' and '.join(at)}",
            "better configurations may lie beyond the grid, and methods that prefer the edges of the grid "
            "do well.",
        )


def nearer_to_the_middle(table: Table, objective: str) -> tuple[int, int]:
    """How many other rows are at least as near to the middle of the grid as the best row, and of how many.

    Only rows with the objective count, and the second number includes the best row. Distances are over
    numbers and ordered labels, on their scales. Of several best rows, the nearest counts.
    """
    known = np.flatnonzero(~np.isnan(table.losses([objective])[:, 0]))
    squares = np.zeros(len(known))
    for h, codes in zip(table.hyperparameters, table.configs[known].T, strict=True):
        if h.kind != "categorical":
            squares += (h.scaled(codes) - 0.5) ** 2
    nearest = squares[np.isin(known, table.best_rows(objective))].min()
    return int((squares <= nearest + 1e-12).sum()) - 1, len(known)


def _centre(table: Table, objective: str) -> Iterator[Fact]:
    nearer, rows = nearer_to_the_middle(table, objective)
    if rows >= _ROWS_FOR_CENTRE and nearer < _CENTRAL * rows:
        yield warning(
            f"only {nearer} of the other {rows - 1} rows are as near to the middle of the grid as the best "
            f"{objective}",
            "methods that start with central rows find it early, whatever they have observed.",
        )


def _levels(h: Hyperparameter, codes: Floats) -> Ints:
    """The place of each code, from 0, among the values that occur, or among _LEVELS parts of them."""
    column = h.counted_as(codes)
    values, places = np.unique(column, return_inverse=True)
    if len(values) <= _LEVELS or not h.is_numeric:
        return np.asarray(places, dtype=np.int64)
    cuts = np.unique(np.quantile(column, np.linspace(0, 1, _LEVELS + 1)[1:-1]))
    return np.searchsorted(cuts, column).astype(np.int64)


def additive_share(levels: list[Ints], losses: Floats) -> float:
    """The share of variance that a sum of one function of each hyperparameter explains: adjusted R^2.

    `levels` has, for each hyperparameter, the level of each row from 0, shape (N,). `losses` has shape (N,),
    without NaN. The result is NaN if there are too few rows.
    """
    columns = [np.ones((len(losses), 1))]
    columns += [(level[:, None] == np.arange(1, level.max() + 1)).astype(np.float64) for level in levels]
    design = np.hstack(columns)
    if len(losses) < _ROWS_PER_PARAMETER * design.shape[1]:
        return np.nan
    fitted, _, rank, _ = np.linalg.lstsq(design, losses, rcond=None)
    left = ((losses - design @ fitted) ** 2).sum() / (len(losses) - rank)
    return float(1 - left / losses.var(ddof=1))


def total_effects(configs: Floats, losses: Floats) -> list[float]:
    """For each hyperparameter, the share of variance that remains if all others are fixed; NaN if unknown.

    This is the effect of the hyperparameter with all its interactions. It is known if at least half of the
    rows have another row that differs in this hyperparameter alone. `configs` has shape (N, H), `losses` has
    shape (N,).
    """
    places = [ranks(column) for column in configs.T]
    found = []
    for j in range(len(places)):
        ids = group_ids([np.zeros(len(losses), dtype=np.int64), *places[:j], *places[j + 1 :]])
        _, number, count = np.unique(ids, return_inverse=True, return_counts=True)
        means = np.bincount(number, losses) / count
        compared = count[number] > 1
        if compared.mean() < _COMPARED:
            found.append(np.nan)
            continue
        # The variance of k rows around their own mean is too small by the factor (k - 1) / k.
        squares = (losses - means[number]) ** 2 * count[number] / np.maximum(count[number] - 1, 1)
        found.append(float(squares[compared].mean() / losses.var(ddof=1)))
    return found
