"""Gemstones (McLeish et al. 2025): 22 shapes of transformers, 50M to 2B parameters, pre-trained.

One table has the 22 shapes with curves to 350 billion tokens. The other has curves to 100 billion tokens, and
a second learning rate for 20 of the shapes. The files stay with their authors (MIT licence,
github.com/mcleish7/gemstone-scaling-laws).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.collections.collection import (
    Collection,
    Origin,
    framed_table,
    grid_axis,
)
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:
    import pandas as pd

NAME = "gemstones"
_LONG = "wandb_df_for_fitting_hot_100b+_477.jsonl"
_SHORT = "wandb_df_for_fitting_hot_477.jsonl"
_COOLER = "wandb_df_for_fitting_lr_ablation_hot_477.jsonl"
TABLES = (f"{NAME}-shapes", f"{NAME}-rates")
# Rows and checkpoints of each table, counted in the authors' files.
_CLAIMED = {TABLES[0]: (22, 3850), TABLES[1]: (42, 2100)}

_METRICS = (
    Metric("loss", "min", description="final_loss of the authors' files, at the end"),
    Metric("node_seconds", "min", "s", description="seconds of training, multiplied by the number of nodes"),
    Metric("parameters", "min", description="number of active parameters"),
)


def _frame(content: bytes) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame([msgspec.json.decode(line) for line in content.splitlines()])
    frame["cost"] = frame["seconds_per_step"] * frame["step"] * frame["num_nodes"]
    return frame.sort_values(["width", "depth", "tokens"], kind="stable", ignore_index=True)


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    import pandas as pd

    long, short, cooler = map(_frame, collection.contents(origin).values())
    both = pd.concat(
        [short.assign(learning_rate="base"), cooler.assign(learning_rate="cooler")], ignore_index=True
    )
    both = both.sort_values(["width", "depth", "learning_rate", "tokens"], kind="stable", ignore_index=True)
    rate = Hyperparameter("learning_rate", ("base", "cooler"), kind="categorical")
    return [
        _table(TABLES[0], "22 shapes, to 350 billion tokens", (), (_LONG,), long),
        _table(TABLES[1], "two learning rates, to 100 billion tokens", (rate,), (_SHORT, _COOLER), both),
    ]


def _table(
    name: str, what: str, more: tuple[Hyperparameter, ...], files: tuple[str, ...], frame: pd.DataFrame
) -> Table:
    axes = (grid_axis("width", frame["width"], "log"), grid_axis("depth", frame["depth"], "log"), *more)
    lengths = frame.groupby([axis.name for axis in axes], sort=False).size().to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    renamed = {"final_loss": "loss", "cost": "node_seconds", "params_active_precise": "parameters"}
    rows, checkpoints = _CLAIMED[name]
    return framed_table(
        name,
        axes,
        _METRICS,
        frame.iloc[starts[1:] - 1].rename(columns=renamed),
        objectives=("loss", "node_seconds"),
        provenance=COLLECTION.provenance(
            f"Pre-trained transformers of different shapes: {what}",
            f"{' and '.join(files)} in {COLLECTION.folder}",
            citation="McLeish et al. 2025, arXiv 2502.06857: Gemstones: a model suite for multi-faceted "
            "scaling laws",
            measured="one training a configuration, a loss every 477 steps; how it was smoothed is not "
            "stated; node_seconds is seconds_per_step, which is one number a training, times steps and nodes",
            sha256=" and ".join(COLLECTION.sha256[file] for file in files),
        ),
        claims=COLLECTION.claims(rows=rows, checkpoints=checkpoints),
        curves=Curves(
            "token",
            _METRICS[:1],
            ("last",),
            starts,
            frame["tokens"].to_numpy(np.float64),
            frame["cost"].to_numpy(np.float64),
            frame[["final_loss"]].to_numpy(np.float64),
            "node seconds",
            "tokens",
        ),
    )


COLLECTION = Collection(
    name=NAME,
    title="Gemstones (2025): 22 shapes of pre-trained transformers, loss and time along 350 billion tokens",
    tables=TABLES,
    rows=sum(rows for rows, _ in _CLAIMED.values()),
    licence="MIT, of the authors' repository",
    repository="mcleish7/gemstone-scaling-laws",
    commit="5f420478f6057b0cbb4d13405fb10ca64675bccb",
    folder="wandb_dfs",
    sha256={
        _LONG: "c7a56e023c2cee6be296defc284126778c62387023a6e0c01e57599999591f5d",
        _SHORT: "bebd60d6c3f28094451b629aa717ec36baeab81097d4be39e7dd9241ee982aad",
        _COOLER: "10f606c27a52b31a8c97a8fe50ff265fdea795869b9a35804a7b1cad2fa233c2",
    },
    tables_from=_tables,
)
