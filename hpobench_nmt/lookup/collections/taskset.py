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
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.lookup.collections.collection import Collection, grid_axis, install, published_file
from hpobench_nmt.lookup.curves import Curves, until_missing
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits
from hpobench_nmt.lookup.table import Table

NAME = "taskset"
COMMIT = "de44b74030a7d4bb37467add431e6fac19cd357a"
_FOLDER = "data/taskset"
ADDRESS = f"https://raw.githubusercontent.com/releaunifreiburg/DPL/{COMMIT}/{_FOLDER}"
LICENCE = "Apache-2.0, of the DPL repository"

# Each table's file, and the SHA-256 of the authors' file.
_FILES = {
    "lstm128-patch128": (
        "patch128_LSTM128_bs64",
        "c52d49dfb308cfca66c02f67f89aa880ccb9f04c38ace31e18db1e58898e8c03",
    ),
    "gru64-avg": (
        "patch32_GRU64_avg_bs128",
        "d3650db950bf292d52972db69fe3bfd7d2588d68b7b40f5c496977e8ebab11bc",
    ),
    "irnn64-relu-avg": (
        "patch32_IRNN64_relu_avg_bs128",
        "5ae8c7fbea5f4fa5a63920767be50467bcf1647421d8b64595a5420fc1c4b7b2",
    ),
    "irnn64-relu-last": (
        "patch32_IRNN64_relu_last_bs128",
        "2e82adc0fed36722e6ef38e4a3ab54d77e8495ce7482f35389000e29da5ac010",
    ),
    "lstm128-e128": (
        "patch32_LSTM128_E128_bs128",
        "11891b4d02be630145f4ff6537bc77c2d83f517a448f1bd3c181fa67ebc59c07",
    ),
    "lstm128": (
        "patch32_LSTM128_bs128",
        "08a52b1102b6b010ece9fa5549b2b16b0e782aca3fbd8119b4c0447fa9d72558",
    ),
    "vrnn128-tanh": (
        "patch32_VRNN128_tanh_bs128",
        "838d8716451d0ce1626450739d68d3e26561f0b5891bd939e07a7bf2e438eb2b",
    ),
    "vrnn64-tanh-avg": (
        "patch32_VRNN64_tanh_avg_bs128",
        "b81762ce3cc0e56e0146853abc809189a3eff1c756cf7a9c4bdb1f64c79084c5",
    ),
}
SHA256 = {f"FixedTextRNNClassification_imdb_{file}.json": digest for file, digest in _FILES.values()}
TABLES = tuple(f"{NAME}-{short}" for short in _FILES)
_CONFIGURATIONS = 1000

_UPDATES = 200
"""The updates from one checkpoint to the next."""
_PARTS = ("valid", "test", "train")
_METRICS = tuple(Metric(f"{part}_loss", "min", description="cross-entropy at the end") for part in _PARTS)
_LIMITS = replace(DEFAULT_LIMITS, max_bytes=16 * 2**20)


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


def fetch(
    target: Path, source: Path | None = None, address: str = "", limits: Limits = _LIMITS
) -> list[Path]:
    """Install the eight tables, all or none; see Fetch."""
    contents = [
        published_file(file, sha256, source, address or ADDRESS, limits, _FOLDER)
        for file, sha256 in SHA256.items()
    ]
    pairs = zip(TABLES, SHA256, contents, strict=True)
    return install(NAME, [_table(name, file, content) for name, file, content in pairs], target)


COLLECTION = Collection(
    name=NAME,
    title="eight text classifiers of TaskSet (2020): recurrent networks over eight settings of Adam",
    tables=TABLES,
    licence=LICENCE,
    address=ADDRESS,
    files="`data/taskset` of a clone of github.com/releaunifreiburg/DPL, its files gzipped or not",
    fetch=fetch,
)


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
        provenance={
            "title": f"TaskSet, a text classifier on IMDB: {file.removesuffix('.json')}",
            "source": f"github.com/releaunifreiburg/DPL, file {_FOLDER}/{file}, commit {COMMIT}",
            "licence": LICENCE,
            "citation": "Metz et al. 2020, arXiv 2002.11887: Using a thousand optimization tasks to learn "
            "hyperparameter search strategies; Kadra et al., NeurIPS 2023: Scaling laws for hyperparameter "
            "optimization",
            "measured": "one curve of each configuration, without seconds and seeds; the source does not "
            "state whether a curve is a mean over seeds",
            "changed": "beta1 and beta2 are given as 1 - beta1 and 1 - beta2, whose logarithm was drawn; a "
            "curve ends at its first NaN",
            "sha256": SHA256[file],
        },
        claims={
            "collection": NAME,
            "collection_tables": len(TABLES),
            "collection_rows": len(TABLES) * _CONFIGURATIONS,
            "rows": _CONFIGURATIONS,
        },
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
    columns = {
        field: np.array([getattr(training.hp, field) for training in trainings])
        for field in _Settings.__struct_fields__
    }
    return {
        f"one_minus_{field}" if field.startswith("beta") else field: 1 - column
        if field.startswith("beta")
        else column
        for field, column in columns.items()
    }


def _curves(losses: Floats) -> Curves:
    n_rows, n_checkpoints, n_metrics = losses.shape
    starts = np.arange(n_rows + 1) * n_checkpoints
    values = losses.reshape(-1, n_metrics)
    kept = until_missing(starts, values)
    # If one loss is NaN, the training has diverged, whatever the other losses are.
    diverged = np.asarray(np.isnan(values).any(axis=1))
    values = np.where(diverged[:, None], np.nan, values)[kept]
    updates = np.tile(_UPDATES * np.arange(float(n_checkpoints)), n_rows)[kept]
    lengths = kept.reshape(n_rows, n_checkpoints).sum(axis=1)
    return Curves(
        "update",
        _METRICS,
        ("last",) * n_metrics,
        np.concatenate([[0], np.cumsum(lengths)]),
        updates,
        updates,
        values,
        "updates",
        "updates",
    )
