"""Which rows of a spec's grid are trained, as far as a ledger tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.runner.ledgers.ledger import Ledger
from hpobench_nmt.runner.specs.spec import Spec


def planned_rows(spec: Spec, ledger: Ledger) -> NDArray[np.intp]:
    """Rows of the grid that are trained: the spec's sample, then the neighbours of its best.

    The neighbours are those of the best of the sample, so that they stay what they are as the ledger grows.
    """
    if not spec.neighbours:
        return spec.sample
    sample = set(spec.sample.tolist())
    of_sample = [
        record for record in ledger.records if record.replicate == 0 and spec.row(record.config) in sample
    ]
    if len(of_sample) < len(sample):
        return spec.sample
    best = best_rows(spec, replace(ledger, records=tuple(of_sample)), spec.neighbours)
    near = {row for one in best for row in spec.neighbours_of(one)}
    return np.append(spec.sample, np.array(sorted(near - sample), dtype=np.intp))


def best_rows(spec: Spec, ledger: Ledger, count: int) -> list[int]:
    """The best rows of a ledger by the first objective, so many of them, the best first.

    Of equal ones, the first rows of the grid are taken. Rows without a value are never among them.
    """
    name = spec.objectives[0]
    (metric,) = (metric for metric in spec.metrics if metric.name == name)
    sign = 1.0 if metric.direction == "min" else -1.0
    losses = sorted(
        (sign * record.metrics[name], row)
        for record in ledger.records
        if record.replicate == 0 and name in record.metrics
        if (row := spec.row(record.config)) is not None
    )
    return [row for _, row in losses[:count]]
