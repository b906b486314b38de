"""The trainings that a spec still needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.seeds import generator
from hpobench_nmt.runner.ledger import Ledger
from hpobench_nmt.runner.spec import Spec

Training = tuple[int, int]
"""Row of the grid, and number of the replicate."""


def pending(
    spec: Spec,
    ledger: Ledger,
    rows: Sequence[int] | NDArray[np.intp],
    shard: tuple[int, int] = (1, 1),
) -> list[Training]:
    """(row, replicate) of the trainings that are still to do.

    Rows come in a random order, the same every time, so that what is there when a run is stopped is a
    fair sample of the grid. Trainings again with other seeds come last.

    Args:
        spec: the models to train.
        ledger: what has been trained.
        rows: of the grid; others are left out.
        shard: (i, n), from 1: every n-th training of that order, beginning with the i-th. It depends on the
            spec alone, so that each training is in one of the n shards.
    """
    first, parts = shard[0] - 1, shard[1]
    left = np.zeros(spec.size, dtype=bool)
    left[np.asarray(rows, dtype=np.intp)] = True
    # Seed after seed of a row: jobs that run at once do not all wait for one model that a seed stands for.
    again = [(row, turn + 1) for row in spec.replicate_rows for turn in range(spec.replicated[1])]
    again = [training for training in again[(first - spec.size) % parts :: parts] if left[training[0]]]
    finished = {(spec.row(record.config), record.replicate) for record in ledger.records}
    left[[row for row, replicate in finished if row is not None and replicate == 0]] = False
    order = generator(spec.seed, "order").permutation(spec.size)[first::parts]
    todo = order[left[order]].tolist()
    return [*((row, 0) for row in todo), *(training for training in again if training not in finished)]
