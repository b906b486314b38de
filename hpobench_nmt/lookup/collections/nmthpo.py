"""The six published tables of Zhang & Duh (2020): Transformers for translation, trained with Sockeye.

The files stay with their authors (MIT licence, github.com/Este1le/hpo_nmt). This module fetches them, checks
them against known hashes, and turns them into table folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Scale
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.collection import Collection, Origin
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.disk.rows import values_of
from hpobench_nmt.lookup.table import Table

NAME = "nmthpo"
TABLES = ("zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en")
# The endings of the files of a table.
_PARTS = ("hyps", "evals", "fronts")
_LOW_RESOURCE = ("sw-en", "so-en")
_LAYERS = {"sw-en": (1.0, 2.0, 4.0, 6.0), "so-en": (1.0, 2.0, 4.0)}

_METRICS = (
    Metric("dev_bleu", "max", "BLEU", tolerance=0.5, description="BLEU on the development set"),
    Metric(
        "dev_gpu_time", "min", "s", description="wall-clock time of decoding the development set on a GPU"
    ),
    Metric("dev_ppl", "min", description="perplexity on the development set"),
    Metric("num_updates", "min", description="updates until convergence"),
    Metric("gpu_memory", "min", "MB", missing=0.0, description="GPU memory in training"),
    Metric("num_param", "min", description="number of parameters"),
)


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    """The tables, with the learning curves (nmtlc) that installed tables have."""
    contents = collection.contents(origin)
    return [_with_known_curves(_table(name, contents), target / name) for name in TABLES]


def _table(name: str, contents: Mapping[str, bytes]) -> Table:
    hyps, evals, fronts = (_numbers(contents[f"{name}.{part}"]) for part in _PARTS)
    return Table(
        name=name,
        hyperparameters=_search_space(name),
        metrics=_METRICS,
        configs=hyps,
        values=np.column_stack(list(map(values_of, _METRICS, evals.T))),
        objectives=("dev_bleu", "dev_gpu_time"),
        provenance=COLLECTION.provenance(
            f"Transformer NMT systems, {name}",
            f"folder {COLLECTION.folder}",
            citation="Zhang and Duh, TACL 2020: Reproducible and Efficient Benchmarks for Hyperparameter "
            "Optimization of Neural Machine Translation Systems",
            measured="Sockeye 1 Transformers trained to convergence, one run of each configuration, GPU",
            **{f"sha256_{part}": COLLECTION.sha256[f"{name}.{part}"] for part in _PARTS},
        ),
        claims=COLLECTION.claims(
            front=np.flatnonzero(fronts[:, 0]).tolist(), front_objectives=["dev_bleu", "dev_gpu_time"]
        ),
    )


def _with_known_curves(table: Table, folder: Path) -> Table:
    """The table with the learning curves of the table in the folder, if that table has the same rows."""
    try:
        old = load_folder(folder)
    except InputError:  # no table is installed, or it is damaged and will be replaced
        return table
    return replace(table, curves=old.curves) if old.sha256 == table.sha256 else table


def _search_space(name: str) -> tuple[Hyperparameter, ...]:
    """The space in Table 1 of the paper, with the scales of the authors' own scaled files."""
    bpe: tuple[float, ...] = (10_000.0, 30_000.0, 50_000.0)
    bpe_scale: Scale = "linear"
    if name in _LOW_RESOURCE:
        bpe, bpe_scale = tuple(1000.0 * 2**i for i in range(6)), "log"
    return (
        Hyperparameter("bpe_symbols", bpe, bpe_scale, "merge operations"),
        Hyperparameter("num_layers", _LAYERS.get(name, (2.0, 4.0))),
        Hyperparameter("num_embed", (256.0, 512.0, 1024.0), "log"),
        Hyperparameter("num_hidden", (1024.0, 2048.0)),
        Hyperparameter("num_heads", (8.0, 16.0)),
        Hyperparameter("learning_rate", (0.0003, 0.0006, 0.001)),
    )


def _numbers(content: bytes) -> NDArray[np.float64]:
    return np.loadtxt(BytesIO(content), ndmin=2)


COLLECTION = Collection(
    name=NAME,
    title="the six of Zhang & Duh (2020): Transformers for translation",
    tables=TABLES,
    rows=2245,  # the number of systems in all six tables together, according to the authors' README
    licence="MIT, copyright (c) 2020 Xuan Zhang",
    repository="Este1le/hpo_nmt",
    commit="7bd0a402b332a6fdea8bdfeabb0271afa5c5be1f",
    folder="datasets",
    sha256={
        "en-ja.hyps": "cdfd7c8c1bf3e3eac16bca04ad9b1f5c5755e2a5170a06edc3d074ae2a481798",
        "ja-en.hyps": "df4a452ceabb9134f4c469778d14de2f6333e92b175cce21d9f9ade194beead6",
        "ru-en.hyps": "0a96d2b1f10e4a22721cc81befa7b2cf875b761da23ced4c0ac0085be29fbd76",
        "so-en.hyps": "0564b44e795d22b6a8f660bd6672e210fa544b0cacf03b913cbec50d95e93d7e",
        "sw-en.hyps": "e2642bc6f6ed6afe060e13fe699fa2dcd569f5311ee72eea55db87e37f25b725",
        "zh-en.hyps": "4ce4f95cf0ccf0beb6ff36b19be2ba98070bb05c7dfc49cb44f882314a2dfd73",
        "en-ja.evals": "1385c842ae3f6a7f3ee8b5cb554f81f707a4f7502f7806e048bc46c36a3157d5",
        "ja-en.evals": "6e3cb9be3d2cc097fe1fcbe8e5b15c933a5195684ec5a86e0a57ae921de24866",
        "ru-en.evals": "1ddeb9a42d8dad6340d83ba427d375e66f1b2c030360877b6963180ee559f3ab",
        "so-en.evals": "4e95d872c15a0af35a1b7672ae979c794c9022ee1b53c821d7a8b646dd023bb7",
        "sw-en.evals": "a2be8d462a621948afe782e2ad398a8832c98c26d8ca5992357af9278e0f1d4f",
        "zh-en.evals": "4b09d2f5f593f8ff70de7ccf2e7990584282a2fb204142c31dec2d2e506983f2",
        "en-ja.fronts": "4f5a8aac712fa4a92fb2002016d813d8ec92d7249b3b0703e5df3786454279b8",
        "ja-en.fronts": "a7d6ce4fb738e74ac0d760ae8de2fc3a2838b8c5b516b4a62053a9ac1421fd27",
        "ru-en.fronts": "343f660fd7e0278371eddac0b8e0a9b0771f79c8f5aed3ed1eeb1c67c64a9c65",
        "so-en.fronts": "2b43e6c7db304583e1202aebd52d6e04ddaa2c0456fecf4072637d9a61923dbf",
        "sw-en.fronts": "2a5af69d2b2d7f8b87034f611b87bc3eb32c2050996841bde9368a148c8a37fe",
        "zh-en.fronts": "584ce4e05fb5e85339971b7bf55edad6bb7a933d28259f09d31609c7d47e8c71",
    },
    tables_from=_tables,
)
