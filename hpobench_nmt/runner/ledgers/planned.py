"""The rows of a spec's grid that are trained. Some of them depend on results in the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.runner.ledgers.ledger import Ledger, Record
from hpobench_nmt.runner.specs.spec import Spec

Placed = Sequence[tuple[int, Record]]
"""Records with their rows of a spec's grid."""


def placed(spec: Spec, ledger: Ledger) -> list[tuple[int, Record]]:
    """The records of a ledger whose configurations lie on the grid, in their order. O(H) per record."""
    rows = ((spec.row(record.config), record) for record in ledger.records)
    return [(row, record) for row, record in rows if row is not None]


def planned_rows(spec: Spec, records: Placed) -> NDArray[np.intp]:
    """Rows of the grid that are trained: the spec's sample, then the neighbours of its best rows.

    Only rows of the sample can be the best rows, so that their neighbours stay the same as the ledger grows.
    """
    if not spec.neighbours:
        return spec.sample
    sample = set(spec.sample.tolist())
    of_sample = [(row, record) for row, record in records if record.replicate == 0 and row in sample]
    if len(of_sample) < len(sample):
        return spec.sample
    near = {row for best in best_rows(spec, of_sample, spec.neighbours) for row in spec.neighbours_of(best)}
    return np.append(spec.sample, np.array(sorted(near - sample), dtype=np.intp))


def best_rows(spec: Spec, records: Placed, count: int) -> list[int]:
    """The `count` best rows by the first objective, the best first.

    Of equal rows, those that come first on the grid are taken. Rows without a value are never taken.
    """
    name = spec.objectives[0]
    (metric,) = (metric for metric in spec.metrics if metric.name == name)
    sign = 1.0 if metric.direction == "min" else -1.0
    losses = sorted(
        (sign * record.metrics[name], row)
        for row, record in records
        if record.replicate == 0 and name in record.metrics
    )
    return [row for _, row in losses[:count]]


def rows_beside(spec: Spec, records: Placed) -> set[int]:
    """Rows in the ledger that are not rows of the table, such as the neighbours of the best points.

    These are all rows outside the spec's sample, whatever the spec now says about neighbours. If less than
    half of the sample is recorded, they are only the planned neighbours: the ledger is probably that of
    `tune`, which chooses among all rows of the grid.
    """
    sample = set(spec.sample.tolist())
    recorded = {row for row, record in records if record.replicate == 0}
    if 2 * len(recorded & sample) < len(sample):
        return set(planned_rows(spec, records).tolist()) - sample
    return {row for row, _ in records} - sample
