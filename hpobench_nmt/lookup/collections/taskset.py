"""TaskSet (Metz et al. 2020): recurrent networks that classify texts, trained with 1,000 settings of Adam.

The files stay with the authors of github.com/releaunifreiburg/DPL, which has 12 of TaskSet's tasks. Eight of
these tasks are tables here. The settings were drawn at random, so they do not form a grid. All tasks have the
same 1,000 settings. Losses of trainings that diverge reach 1e34 or become NaN. A curve ends at its first NaN
here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.collection import Collection, Origin, grid_axis
from hpobench_nmt.lookup.curves import Curves, Own, until_missing
from hpobench_nmt.lookup.download import DEFAULT_LIMITS
from hpobench_nmt.lookup.table import Table

NAME = "taskset"
# The file of each table, and the hashes of the files in the same order.
_FILES = {
    f"{NAME}-lstm128-patch128": "FixedTextRNNClassification_imdb_patch128_LSTM128_bs64.json",
    f"{NAME}-gru64-avg": "FixedTextRNNClassification_imdb_patch32_GRU64_avg_bs128.json",
    f"{NAME}-irnn64-relu-avg": "FixedTextRNNClassification_imdb_patch32_IRNN64_relu_avg_bs128.json",
    f"{NAME}-irnn64-relu-last": "FixedTextRNNClassification_imdb_patch32_IRNN64_relu_last_bs128.json",
    f"{NAME}-lstm128-e128": "FixedTextRNNClassification_imdb_patch32_LSTM128_E128_bs128.json",
    f"{NAME}-lstm128": "FixedTextRNNClassification_imdb_patch32_LSTM128_bs128.json",
    f"{NAME}-vrnn128-tanh": "FixedTextRNNClassification_imdb_patch32_VRNN128_tanh_bs128.json",
    f"{NAME}-vrnn64-tanh-avg": "FixedTextRNNClassification_imdb_patch32_VRNN64_tanh_avg_bs128.json",
}
_SHA256 = (
    "c52d49dfb308cfca66c02f67f89aa880ccb9f04c38ace31e18db1e58898e8c03",
    "d3650db950bf292d52972db69fe3bfd7d2588d68b7b40f5c496977e8ebab11bc",
    "5ae8c7fbea5f4fa5a63920767be50467bcf1647421d8b64595a5420fc1c4b7b2",
    "2e82adc0fed36722e6ef38e4a3ab54d77e8495ce7482f35389000e29da5ac010",
    "11891b4d02be630145f4ff6537bc77c2d83f517a448f1bd3c181fa67ebc59c07",
    "08a52b1102b6b010ece9fa5549b2b16b0e782aca3fbd8119b4c0447fa9d72558",
    "838d8716451d0ce1626450739d68d3e26561f0b5891bd939e07a7bf2e438eb2b",
    "b81762ce3cc0e56e0146853abc809189a3eff1c756cf7a9c4bdb1f64c79084c5",
)
_CONFIGURATIONS = 1000

_UPDATES = 200
"""The updates from one checkpoint to the next."""
_PARTS = ("valid", "test", "train")
_METRICS = tuple(Metric(f"{part}_loss", "min", description="cross-entropy at the end") for part in _PARTS)


class _Losses(msgspec.Struct, frozen=True):
    loss: list[float | None]


class _Settings(msgspec.Struct, frozen=True):
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    l1: float
    l2: float
    linear_decay: float
    exponential_decay: float


class _Training(msgspec.Struct, frozen=True):
    hp: _Settings
    train: _Losses
    valid: _Losses
    test: _Losses


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    contents = collection.contents(origin)
    return [_table(name, file, contents[file]) for name, file in _FILES.items()]


def _table(name: str, file: str, content: bytes) -> Table:
    trainings = _read(file, content)
    losses = np.array(
        [[getattr(training, part).loss for part in _PARTS] for training in trainings], dtype=np.float64
    ).transpose(0, 2, 1)  # (trainings, checkpoints, metrics)
    settings = _settings(trainings)
    return Table(
        name,
        tuple(grid_axis(key, column.tolist(), "log") for key, column in settings.items()),
        _METRICS,
        np.column_stack(list(settings.values())),
        losses[:, -1],
        objectives=("valid_loss",),
        provenance=COLLECTION.provenance(
            f"TaskSet, a text classifier on IMDB: {file.removesuffix('.json')}",
            f"file {COLLECTION.folder}/{file}",
            citation="Metz et al. 2020, arXiv 2002.11887: Using a thousand optimization tasks to learn "
            "hyperparameter search strategies; Kadra et al., NeurIPS 2023: Scaling laws for hyperparameter "
            "optimization",
            measured="one curve of each configuration, without seconds and seeds; the source does not "
            "state whether a curve is a mean over seeds",
            changed="beta1 and beta2 are given as 1 - beta1 and 1 - beta2, whose logarithm was drawn; a "
            "curve ends at its first NaN",
            sha256=COLLECTION.sha256[file],
        ),
        claims=COLLECTION.claims(rows=_CONFIGURATIONS),
        curves=_curves(losses),
    )


def _read(file: str, content: bytes) -> list[_Training]:
    try:
        # msgspec refuses NaN, which Python writes into JSON.
        return msgspec.json.decode(content.replace(b"NaN", b"null"), type=list[_Training])
    except msgspec.MsgspecError as error:
        raise InputError(f"{file}: {error}.") from None


def _settings(trainings: list[_Training]) -> dict[str, Floats]:
    """The hyperparameters' columns by name, each positive."""
    found: dict[str, Floats] = {}
    for field in _Settings.__struct_fields__:
        column = np.array([getattr(training.hp, field) for training in trainings])
        if field.startswith("beta"):
            found[f"one_minus_{field}"] = 1 - column
        else:
            found[field] = column
    return found


def _curves(losses: Floats) -> Curves:
    n_rows, n_checkpoints, n_metrics = losses.shape
    # If one loss is NaN, the training has diverged, whatever the other losses are.
    values = np.where(np.isnan(losses).any(axis=2, keepdims=True), np.nan, losses).reshape(-1, n_metrics)
    starts = np.arange(n_rows + 1) * n_checkpoints
    kept = until_missing(starts, values)
    updates = np.tile(_UPDATES * np.arange(float(n_checkpoints)), n_rows)[kept]
    starts = np.concatenate([[0], np.cumsum(kept)])[starts]
    own: tuple[Own, ...] = ("last",) * n_metrics
    return Curves("update", _METRICS, own, starts, updates, updates, values[kept], "updates", "updates")


COLLECTION = Collection(
    name=NAME,
    title="eight text classifiers of TaskSet (2020): recurrent networks over eight settings of Adam",
    tables=tuple(_FILES),
    rows=len(_FILES) * _CONFIGURATIONS,
    licence="Apache-2.0, of the DPL repository",
    repository="releaunifreiburg/DPL",
    commit="de44b74030a7d4bb37467add431e6fac19cd357a",
    folder="data/taskset",
    sha256=dict(zip(_FILES.values(), _SHA256, strict=True)),
    tables_from=_tables,
    limits=replace(DEFAULT_LIMITS, max_bytes=16 * 2**20),
    copy="`data/taskset` of a clone of github.com/releaunifreiburg/DPL, its files gzipped or not",
)
