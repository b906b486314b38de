"""Suites with noise = "replicates": every look-up draws one of a row's trainings with other seeds.

Which training of a row is drawn depends on the seed, the table and the trial, not on the method. So all
methods meet the same luck in a trial, as they have the same initial design. What is recorded and scored is
the row's mean, and so are what it costs and whether it keeps the constraints. (A cost that learning curves
say is that of the one training which they are of.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.replicates import Replicates
from hpobench_nmt.core.text import free_name
from hpobench_nmt.lookup.averages import means
from hpobench_nmt.lookup.catalogue import find_folder
from hpobench_nmt.lookup.folder import load_folder, load_replicates
from hpobench_nmt.lookup.table import Table


def replicates_of(
    table: Table,
    objectives: Sequence[Objective],
    source: str | Path | None = None,
    sha256: str = "",
    others: Sequence[str] = (),
) -> tuple[Replicates, Table]:
    """Every training of each row of a table, and the table with the means of its rows' trainings.

    Where the table's rows are single trainings, they count as one more.

    Args:
        table: the rows.
        objectives: whose losses are drawn.
        source: the table's name or folder; left out: its name.
        sha256: of the table as it is installed, where these are only some of its rows.
        others: metrics whose means count, too: costs, and those of constraints.

    Raises:
        InputError: the table's folder is not found or has changed, or some row has only one training.
    """
    where = f"table {table.name!r}"
    folder = find_folder(source if source is not None else table.name)
    if load_folder(folder).sha256 != (sha256 or table.sha256):
        raise InputError(f'{where}: noise = "replicates" needs its trainings; {folder} holds other rows.')
    frame = load_replicates(folder)
    names = [h.name for h in table.hyperparameters]
    metrics = [m.name for m in table.metrics]
    own = table.to_frame()
    again = frame[frame["replicate"] != 0][[*names, *metrics]]
    place = free_name("row", again.columns)
    placed = again.merge(own[names].assign(**{place: range(len(own))}), on=names, how="left")
    rows = placed[place].to_numpy(np.float64)
    in_table = ~np.isnan(rows)
    number, values = rows[in_table].astype(np.int64), again[metrics].to_numpy(np.float64)[in_table]
    if not table.averaged:
        number = np.concatenate([np.arange(len(own)), number])
        values = np.vstack([own[metrics].to_numpy(np.float64), values])
    counts = np.bincount(number, minlength=len(own))
    few = int((counts < 2).sum())
    if few:
        raise InputError(
            f'{where}: noise = "replicates" needs several trainings of every row, and {few} of its '
            f"{len(own):,} rows {'has' if few == 1 else 'have'} only one."
        )
    order = np.argsort(number, kind="stable")
    number, values = number[order], values[order]
    losses = np.column_stack([o.to_loss(values[:, metrics.index(o.metric)]) for o in objectives])
    starts = np.concatenate([[0], np.cumsum(counts)])
    if table.averaged:
        return Replicates(starts, losses), table
    extra = values[:, [metrics.index(name) for name in others]]
    return Replicates(starts, losses, extra), replace(table, values=means(values, number))
