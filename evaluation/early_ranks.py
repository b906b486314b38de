"""How early a table's learning curves show which rows will be good: whether early stopping can work.

symbol    shape  meaning
so_far    (N,)   loss of each row's best checkpoint up to a resource; after a training's end, its last value
final     (N,)   loss of its best checkpoint in the end

At each resource, the analysis has four results over the rows with a value at that resource: the quantiles of
so_far; Spearman's coefficient of so_far and final; the same coefficient over the rows that are still
training; and the share of the finally best tenth that is in the best third so far, which successive halving
would keep (eta = 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.evaluation.correlation import spearman

_POINTS = 60
_FOLLOWED = 10
_LEAST_ROWS = 5
BEST = 10
"""One in this many rows counts as one of the best in the end."""
KEPT = 3
"""One in this many rows is kept at a resource."""


@dataclass(frozen=True, eq=False)
class EarlyRanks:
    """How early learning curves show a table's good rows.

    Attributes:
        table, metric: the table's name, and the curves' metric.
        maximised: whether larger values of the metric are better.
        resource: the name and unit of the resource, for an axis.
        n_rows: number of rows with a curve.
        frame: one line per resource: resource, rows (number with a value at the resource), going (number
            whose training continues after it), best, low, median, high (raw values: the best and the
            quartiles), order, order_going (Spearman's coefficients, NaN for fewer than 5 rows or if all
            values are equal), kept (the share of the best tenth that is in the best third).
        ranks: for the 10 rows that are best in the end: row, place (in the end, from 1), resource, rank.
    """

    table: str
    metric: str
    maximised: bool
    resource: str
    n_rows: int
    frame: pd.DataFrame
    ranks: pd.DataFrame


def early_ranks(
    table: str, objective: Objective, resource: str, trainings: Trainings, numbers: Ints | None = None
) -> EarlyRanks:
    """The analysis by the first loss of the trainings, which must all belong to rows with a curve.

    `numbers` are the rows' numbers in the result, by default from 0. O(P + N log N) for each of up to 60
    resources. Raises InputError if fewer than 5 rows have a value.
    """
    final = trainings.final[:, 0]
    known = np.flatnonzero(~np.isnan(final))
    if len(known) < _LEAST_ROWS:
        raise InputError(f"table {table!r}: {len(known)} rows have a learning curve with values, too few.")
    names = np.arange(len(final)) if numbers is None else numbers
    order = known[np.argsort(final[known], kind="stable")]
    followed = order[:_FOLLOWED]
    good = final <= final[order[max(1, -(-len(known) // BEST)) - 1]]
    lines, ranks = [], []
    for resource_now in _spread(np.unique(trainings.resources)):
        so_far, going = _so_far(trainings, float(resource_now))
        there = ~np.isnan(so_far) & ~np.isnan(final)
        losses = so_far[there]
        if not len(losses):
            continue
        limit = np.sort(losses)[max(1, len(losses) // KEPT) - 1]
        quartiles = np.quantile(losses, [0.25, 0.5, 0.75])
        low, median, high = np.sort(objective.to_raw(quartiles)).tolist()
        both = there & going
        line = {"resource": float(resource_now), "rows": int(there.sum()), "going": int(both.sum())}
        line |= {"best": float(objective.to_raw(losses.min())), "low": low, "median": median, "high": high}
        line |= {"order": _order(losses, final[there]), "order_going": _order(so_far[both], final[both])}
        lines.append(line | {"kept": float((so_far[there & good] <= limit).sum() / good.sum())})
        for place, row in enumerate(followed.tolist(), start=1):
            if there[row]:
                rank = int((losses < so_far[row]).sum()) + 1
                ranks.append((int(names[row]), place, float(resource_now), rank))
    frames = pd.DataFrame(lines), pd.DataFrame(ranks, columns=["row", "place", "resource", "rank"])
    return EarlyRanks(table, objective.metric, objective.direction == "max", resource, len(final), *frames)


def _spread(resources: Floats) -> Floats:
    """Up to 60 resources, evenly on a log scale, with the last one and, unless it is near 0, the first."""
    if len(resources) <= _POINTS:
        return resources
    wanted = np.geomspace(max(resources[0], resources[-1] * 1e-6), resources[-1], _POINTS)
    return np.unique(resources[np.searchsorted(resources, wanted).clip(max=len(resources) - 1)])


def _so_far(trainings: Trainings, resource: float) -> tuple[Floats, Bools]:
    """Loss of each row's best checkpoint up to a resource, NaN before its first; whether more follow."""
    within = trainings.resources <= resource
    counts = np.add.reduceat(within.astype(np.int64), trainings.starts[:-1])
    places = trainings.starts[:-1] + counts - 1
    losses = np.where(counts > 0, trainings.best[places, 0], np.nan)
    return losses, counts < np.diff(trainings.starts)


def _order(so_far: Floats, final: Floats) -> float:
    return spearman(so_far, final) if len(final) >= _LEAST_ROWS else np.nan
