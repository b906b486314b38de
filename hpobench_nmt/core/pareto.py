"""Pareto fronts of losses to minimise, and the scale that a front defines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import InputError


@dataclass(frozen=True, eq=False)
class FrontScale:
    """How losses are scaled, (loss - ideal) / (nadir - ideal); `total` is the table's scaled hypervolume."""

    ideal: Floats
    nadir: Floats
    total: float

    def scaled(self, losses: Floats) -> Floats:
        """Losses of shape (..., m), scaled."""
        return (losses - self.ideal) / (self.nadir - self.ideal)


def pareto_front(losses: ArrayLike, *more: object) -> Ints:
    """Row numbers, ascending, that no other row dominates, all losses being minimised.

    `hb.pareto` computes the front of a table, a data frame or a CSV file, with directions and constraints.

    A row dominates another if it is at least as good in every loss and better in one, so rows with equal
    losses are on the front together. A row with a NaN is never on the front and never dominates.

    Args:
        losses: shape (N, m).

    Raises:
        InputError: the losses are not an array of that shape. If they are a table, or if there are `more`
            arguments, the message refers to `hb.pareto`.

    O(N log N) for m of at most 3, else O(N (log N)^(m-2)) by moocore (Kung, Luccio & Preparata 1975).
    """
    try:
        losses = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError):
        more = (losses,)
    if more:
        raise InputError(
            "pareto_front takes one array of losses. For a table, a data frame or a CSV file, call "
            "hb.pareto(source, objectives)."
        )
    losses = np.asarray(losses)
    if losses.ndim != 2:
        raise InputError(f"losses must have shape (rows, losses per row), not {losses.shape}.")
    complete = np.flatnonzero(~np.isnan(losses).any(axis=1))
    points = losses[complete]
    if len(points) == 0:
        return complete
    if points.shape[1] == 1:
        return np.asarray(complete[points[:, 0] == points[:, 0].min()])
    if points.shape[1] == 2:
        # Not moocore: its import takes longer than most runs on a table.
        order = np.lexsort(points.T[::-1])
        # The rows are sorted by the first loss, then the second. A row is on the front if its second loss is
        # the smallest of all rows with the same first loss, and smaller than that of every row before these.
        first, second = points[order, 0], points[order, 1]
        starts = np.concatenate([[True], first[1:] != first[:-1]])
        group = np.cumsum(starts) - 1
        group_least = second[starts]
        improves = np.ones(len(group_least), dtype=bool)
        improves[1:] = group_least[1:] < np.minimum.accumulate(group_least)[:-1]
        on_front = (second == group_least[group]) & improves[group]
        return np.sort(complete[order[on_front]])
    from moocore import is_nondominated

    # Only the order of the values matters. Their ranks are finite, which moocore relies on.
    ranks = [np.unique(column, return_inverse=True)[1] for column in points.T]
    return np.asarray(complete[is_nondominated(np.column_stack(ranks), keep_weakly=True)])
