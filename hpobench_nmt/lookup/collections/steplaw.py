"""Step Law (Li et al. 2025): 2,619 pre-trainings of language models over learning rate and batch size.

There are 1,911 dense and 708 mixture-of-experts models. Each model and number of tokens has a table. One more
table has all dense models, and another has all mixture-of-experts models. In these two tables, the model and
the number of tokens are hyperparameters.

The learning rates are powers of the square root of 2, printed with three or four digits. For example,
0.000345 and 0.0003453 are the same rate. Here each rate is its power with four digits. The authors state no
licence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.collection import (
    Collection,
    Origin,
    csv_frame,
    framed_table,
    grid_axis,
)
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:
    import pandas as pd

NAME = "steplaw"
# Billions of tokens for which the dense models were trained, by millions of parameters.
_DENSE = {
    215: (4, 11.4, 20, 100),
    268: (5, 14.2, 25, 80),
    429: (8, 22.7, 40, 50),
    537: (10, 28.4, 50),
    1074: (20, 56.9),
}
_EXPERTS = ("1in89", "2in88", "1in8", "3in8")
_EXPERT_TOKENS = (2, 4, 8, 20)
_ALL_DENSE, _ALL_SPARSE = f"{NAME}-dense", f"{NAME}-moe"
TABLES = (
    *(f"{NAME}-{size}m-{tokens:g}b" for size, several in _DENSE.items() for tokens in several),
    *(f"{NAME}-{experts}-{tokens}b" for experts in _EXPERTS for tokens in _EXPERT_TOKENS),
    _ALL_DENSE,
    _ALL_SPARSE,
)
# The number of trainings of each kind, as the authors state it. Each training is in two tables.
_CLAIMED = {_ALL_DENSE: 1911, _ALL_SPARSE: 708}

_LOSS = Metric("smooth_loss", "min", description="training loss at the end, smoothed")
_LAST_LOSS = Metric("loss", "min", description="training loss at the last step")
_SECONDS = Metric(
    "seconds",
    "min",
    "s",
    description="time of training: number of iterations, multiplied by their mean duration",
)
_FLOPS = Metric("flops", "min", "FLOP", description="6 N D; N counts the parameters that a token meets")
# The printed rates are off by 0.5% at most; neighbouring rates differ by 41%.
_ROUNDING = 0.05


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    tables = []
    for file, content in collection.contents(origin).items():
        frame = _frame(file, content)
        dense = "experts" not in frame
        for _, part in frame.groupby(["parameters" if dense else "experts", "tokens"]):
            tables.append(_table(file, *(_dense(part) if dense else _sparse(part)), part))
        tables.append(_table(file, *(_all_dense(frame) if dense else _all_sparse(frame)), frame))
    return tables


def true_rates(printed: Floats) -> Floats:
    """Learning rates as the powers of the square root of 2 that they stand for, to four digits.

    Raises InputError if a rate is not such a power.
    """
    halves = np.round(2 * np.log2(printed))
    if (np.abs(2 * np.log2(printed) - halves) > _ROUNDING).any():
        raise InputError("a learning rate is not a power of the square root of 2.")
    return np.array([float(f"{rate:.4g}") for rate in 2 ** (halves / 2)])


def _frame(name: str, content: bytes) -> pd.DataFrame:
    frame = csv_frame(content, name)
    frame["learning_rate"] = true_rates(frame["lr"].to_numpy(np.float64))
    active = frame["Na" if "Na" in frame else "N"].astype(np.float64)
    frame["flops"] = 6 * active * frame["D"]
    renamed = {"bs": "batch_size", "smooth loss": "smooth_loss", "D": "tokens", "N": "parameters"}
    return frame.rename(columns=renamed | {"moe_name": "experts", "total_time": "seconds"})


_Kind = tuple[str, str, tuple[Hyperparameter, ...], tuple[Metric, ...]]
"""Name and description of a table, the hyperparameters beside those that were tuned, and the metrics."""


def _dense(frame: pd.DataFrame) -> _Kind:
    first = frame.iloc[0]
    size, tokens = f"{first.parameters / 1e6:.0f}", f"{first.tokens / 1e9:g}"
    what = (
        f"dense, {size}M parameters (width {first.h:g}, {first.numl:g} layers, {first.numh:g} heads, "
        f"feed-forward {first.ffnh:g}), {tokens}B tokens"
    )
    return f"{NAME}-{size}m-{tokens}b", what, (), (_LOSS, _LAST_LOSS)


def _sparse(frame: pd.DataFrame) -> _Kind:
    experts, tokens = frame["experts"].iloc[0], f"{frame['tokens'].iloc[0] / 1e9:g}"
    what = f"mixture of experts, {experts.replace('in', ' in ')}, {tokens}B tokens"
    return f"{NAME}-{experts}-{tokens}b", what, (), (_LOSS, _LAST_LOSS, _SECONDS)


def _all_dense(frame: pd.DataFrame) -> _Kind:
    axes = grid_axis("parameters", frame["parameters"], "log"), grid_axis("tokens", frame["tokens"], "log")
    what = "dense, five models and their numbers of tokens"
    return _ALL_DENSE, what, axes, (_LOSS, _LAST_LOSS, _FLOPS)


def _all_sparse(frame: pd.DataFrame) -> _Kind:
    experts = Hyperparameter("experts", _EXPERTS, kind="categorical")
    axes = experts, grid_axis("tokens", frame["tokens"], "log")
    what = "mixture of experts, four kinds and four numbers of tokens"
    return _ALL_SPARSE, what, axes, (_LOSS, _LAST_LOSS, _SECONDS, _FLOPS)


def _table(
    file: str,
    name: str,
    what: str,
    axes: tuple[Hyperparameter, ...],
    metrics: tuple[Metric, ...],
    frame: pd.DataFrame,
) -> Table:
    tuned = (
        grid_axis("learning_rate", frame["learning_rate"], "log"),
        grid_axis("batch_size", frame["batch_size"], "log", "sequences"),
    )
    return framed_table(
        name,
        (*axes, *tuned),
        metrics,
        frame,
        objectives=("smooth_loss",),
        provenance=COLLECTION.provenance(
            f"Pre-trained language models, {what}",
            f"file {COLLECTION.folder}/{file}",
            citation="Li et al. 2025, arXiv 2503.04715: Predictable Scale: Part I, Step Law",
            measured="one training of each configuration; losses of diverged trainings, up to 11, are kept",
            changed="learning rates are the powers of the square root of 2 that the file rounds",
            sha256=COLLECTION.sha256[file],
        ),
        claims=COLLECTION.claims(**({"rows": _CLAIMED[name]} if name in _CLAIMED else {})),
        curves=_one_checkpoint(frame) if name in _CLAIMED else None,
    )


def _one_checkpoint(frame: pd.DataFrame) -> Curves:
    """The end of each training as a curve of one checkpoint, whose cost is 6 N D."""
    return Curves(
        "token",
        (_LOSS,),
        ("last",),
        np.arange(len(frame) + 1),
        frame["tokens"].to_numpy(np.float64),
        frame["flops"].to_numpy(np.float64),
        frame[["smooth_loss"]].to_numpy(np.float64),
        "FLOP",
        "tokens",
    )


COLLECTION = Collection(
    name=NAME,
    title="Step Law (2025): pre-trainings of language models over learning rate and batch size",
    tables=TABLES,
    rows=2 * sum(_CLAIMED.values()),
    licence="none: the authors state no licence, so ask them before you pass on the files or the tables",
    repository="step-law/steplaw",
    commit="32a8f4cc50247695fb56cc6c9117abdf67c97763",
    folder="data",
    sha256={
        "dense_lr_bs_loss.csv": "9e46181076c04d450294d75dfe6f72adc416e231e154a07b337e378f9410002c",
        "moe_lr_bs_loss.csv": "653d585244a7b227423007e8b796bc16d76f6d24eb87b1919b8f048a91897b92",
    },
    tables_from=_tables,
)
