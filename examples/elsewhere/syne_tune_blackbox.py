"""A table with learning curves as a blackbox of Syne Tune: `pip install 'syne-tune[extra]' hpobench-nmt`.

Fidelity k is the k-th checkpoint. A curve that ends before others keeps its last value and cost. There is one
seed, because tables have curves of rows, but not of replicates. Costs are in seconds, because Syne Tune's
simulator moves its clock by seconds. If a table counts FLOPs or tokens, its longest training takes an hour.

    blackbox = blackbox_of("nmtlc-zh-en")
    serialize({"nmtlc-zh-en": blackbox}, "repository/nmtlc")  # the layout of Syne Tune's repository
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from syne_tune.blackbox_repository.blackbox_tabular import BlackboxTabular
from syne_tune.config_space import choice, logordinal, ordinal, randint

import hpobench_nmt as hb

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def blackbox_of(name: str, metric: str | None = None) -> BlackboxTabular:
    """The blackbox of a table that has no inactive hyperparameters; objectives are the loss and the cost."""
    table = hb.load_table(name)
    curves = table.curves
    if curves is None:
        raise hb.InputError(f"table {name!r} has no learning curves.")
    held = [each.name for each in curves.metrics]
    trainings = table.trainings([metric or (table.main_metric if table.main_metric in held else held[0])])
    seconds = SECONDS.get(curves.cost_unit) or 3600.0 / trainings.costs.max()
    longest = int(curves.lengths.max())
    values = np.full((len(table), 1, longest, 2), np.nan)
    for row, (start, end) in enumerate(zip(trainings.starts, trainings.starts[1:], strict=False)):
        places = np.minimum(np.arange(start, start + longest), end - 1)
        values[row, 0, :, 0] = trainings.losses[places, 0]
        values[row, 0, :, 1] = trainings.costs[places] * seconds
    kept = ~np.isnan(values).any(axis=(1, 2, 3))
    frame = pd.DataFrame([table.config(row) for row in np.flatnonzero(kept)])
    space = {}
    for axis in table.space:
        kind = logordinal if axis.scale == "log" else ordinal if axis.is_numeric else choice
        space[axis.name] = kind(sorted(set(frame[axis.name])) if axis.is_numeric else list(axis.values))
    return BlackboxTabular(
        hyperparameters=frame,
        configuration_space=space,
        fidelity_space={"checkpoint": randint(1, longest)},
        objectives_evaluations=values[kept],
        fidelity_values=np.arange(1, longest + 1),
        objectives_names=["loss", "cost"],
    )
