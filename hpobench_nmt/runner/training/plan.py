"""The trainings that a spec still needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.seeds import generator
from hpobench_nmt.runner.ledgers.ledger import Ledger, read_ledger, refuse_misfit
from hpobench_nmt.runner.ledgers.planned import best_rows, placed, planned_rows
from hpobench_nmt.runner.specs.spec import SAME_SEED, Spec

Training = tuple[int, int]
"""Row of the grid, and number of the replicate."""


def pending(
    spec: Spec, ledger: Ledger, rows: Sequence[int] | NDArray[np.intp], shard: tuple[int, int] = (1, 1)
) -> list[Training]:
    """(row, replicate) of the trainings that are still missing.

    Rows come in a random order, which is always the same, so that a stopped run has trained a fair sample of
    the grid. Repeated trainings come last, and those of the best rows only after all rows have ended.

    Only the given rows count. The shard is (i, n), counted from 1: every n-th training of that order,
    starting with the i-th. It depends on the spec alone, so that each training is in exactly one of the n
    shards. The best rows, and the neighbours of the best points, are known only from a ledger that has all
    rows.
    """
    first, parts = shard[0] - 1, shard[1]
    chosen = np.zeros(spec.size, dtype=bool)
    chosen[np.asarray(rows, dtype=np.intp)] = True
    records = placed(spec, ledger)
    finished = {(row, record.replicate) for row, record in records}
    ended = np.zeros(spec.size, dtype=bool)
    ended[[row for row, replicate in finished if replicate == 0]] = True
    wanted = np.zeros(spec.size, dtype=bool)
    wanted[planned_rows(spec, records)] = True
    twice = list(spec.replicate_rows)
    if spec.best and ended[wanted].all():
        sample = set(spec.sample.tolist())
        # Neighbours of the best points are not rows of the table, so they are not among its best rows.
        of_sample = [(row, record) for row, record in records if row in sample]
        twice += [row for row in best_rows(spec, of_sample, spec.best) if row not in twice]
    # The seeds of a row follow each other. Trainings with one seed may share a model, for which simultaneous
    # jobs would wait.
    turns = [turn + 1 for turn in range(spec.replicated[1])]
    turns += [SAME_SEED + turn + 1 for turn in range(spec.same_seed)]
    again = [(row, turn) for row in twice for turn in turns]
    again = [training for training in again[(first - spec.size) % parts :: parts] if chosen[training[0]]]
    order = generator(spec.seed, "order").permutation(spec.size)[first::parts]
    todo = order[(chosen & wanted & ~ended)[order]].tolist()
    return [*((row, 0) for row in todo), *(training for training in again if training not in finished)]


def planned(
    spec: Spec, path: Path, rows: Sequence[int] | NDArray[np.intp], shard: tuple[int, int] = (1, 1)
) -> tuple[Ledger, list[Training]]:
    """The current ledger (empty if it does not exist), and the trainings that a run would start now.

    Raises InputError if the ledger belongs to another spec.
    """
    ledger = Ledger({}, {}, ())
    if path.exists():
        ledger = read_ledger(path)
        refuse_misfit(path, ledger, spec)
    return ledger, pending(spec, ledger, rows, shard)
