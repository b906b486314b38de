"""The reader of NMTLC's pickle, which also has the learning curves of nmthpo's tables.

These join another collection's rows by their numbers, so they are code and no setting of nmtlc.toml. The file
is read without unpickling (plain_pickle.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

# The file gives the family, the model dimension and the number of layers. They determine the name of the
# released model and its parameters in billions.
_LANGUAGE_MODELS = {
    ("bloomz", 1024, 24): ("bloomz-560m", 0.56),
    ("bloomz", 2048, 24): ("bloomz-1b7", 1.7),
    ("bloomz", 2560, 30): ("bloomz-3b", 3.0),
    ("xglm", 1024, 24): ("xglm-564M", 0.564),
    ("xglm", 2048, 24): ("xglm-1.7B", 1.7),
    ("xglm", 2048, 48): ("xglm-2.9B", 2.9),
}
# The settings that nmthpo's rows and the models that were trained from scratch have in common.
_COMMON = {
    "num_layers": "num_layers",
    "model_size": "num_embed",
    "ff_num_hidden": "num_hidden",
    "initial_lr": "learning_rate",
}
# The updates per checkpoint of a model that was trained from scratch.
_UPDATES = 2000
# The perplexities of nmthpo's rows are rounded to two decimals.
_ROUNDING = 0.006


def nmtlc(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """The fine-tuned language models, their checkpoints, and the models that were trained from scratch.

    The file gives no times, so the cost of a checkpoint is the size of the model, in billions of parameters.
    """
    import pandas as pd

    ((name, content),) = members
    found = pd.json_normalize(read_plain_pickle(content, Path(name)))
    found = found.rename(columns=lambda key: key.removeprefix("hyperparams."))
    tuned = found[found["task"] == "finetune"]
    keys = tuned[["basemodel", "model_size", "num_layers"]].itertuples(index=False, name=None)
    models, sizes = zip(*map(_LANGUAGE_MODELS.__getitem__, keys), strict=True)
    lists = ["bleu_curve", "perplexity_curve"]
    curves = tuned[lists].assign(size=sizes).explode(lists).astype(np.float64)
    number = curves.groupby(level=0).cumcount() + 1
    curves = curves.assign(training=curves.index, checkpoints=number, cost=number * curves["size"])
    runs = tuned.drop(columns=lists).assign(training=tuned.index, language_model=models)
    return {name: runs, "curves": curves, "scratch": found[found["task"] == "scratch"]}


def published(frames: Mapping[str, pd.DataFrame], target: Path) -> list[Table]:
    """The installed tables of nmthpo with their learning curves."""
    scratch = frames["scratch"]
    found = []
    for pair, own in scratch.groupby(scratch["src"] + "-" + scratch["trg"]):
        folder = target / str(pair)
        table = load_folder(folder) if folder.is_dir() else None
        if table is not None and table.claims.get("collection") == "nmthpo":
            found.append(with_curves(table, own))
    return found


def with_curves(table: Table, scratch: pd.DataFrame) -> Table:
    """A published table of nmthpo with curves, given the models of its language pair.

    The file does not state the row of a model, because the number of attention heads is missing. So a row
    gets a curve only if exactly one curve agrees with it in layers, embedding, hidden size, learning rate
    and, to the digits that the row has, lowest perplexity, and if no other row fits that curve. Of the 1,983
    rows, 1,903 get a curve. The num_updates of all rows but one confirm that a checkpoint is 2,000 updates.
    """
    rows = table.to_frame()[[*_COMMON.values(), "dev_ppl"]].assign(row=range(len(table)))
    models = scratch.rename(columns=_COMMON).assign(model=range(len(scratch)))
    models = models[[*_COMMON.values(), "model", "perplexity_curve", "perplexity_optimal"]]
    fits = rows.merge(models, on=[*_COMMON.values()])
    fits = fits[(fits["perplexity_optimal"] - fits["dev_ppl"]).abs() <= _ROUNDING]
    fits = fits.drop_duplicates("row", keep=False).drop_duplicates("model", keep=False).sort_values("row")
    checkpoints = fits[["row", "perplexity_curve"]].explode("perplexity_curve")
    steps = _UPDATES * np.asarray(checkpoints.groupby("row").cumcount() + 1, dtype=np.float64)
    lengths = np.bincount(checkpoints["row"], minlength=len(table))
    curves = Curves(
        "update",
        (Metric("dev_ppl", "min"),),
        ("best",),
        np.cumsum([0, *lengths]),
        steps,
        steps,
        checkpoints[["perplexity_curve"]].to_numpy(np.float64),
        "updates",
        "updates",
    )
    return replace(table, curves=curves)
