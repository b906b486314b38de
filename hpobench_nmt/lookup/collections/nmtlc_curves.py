"""The learning curves of NMTLC: those of its own tables, and those of the six tables of NMTHPO.

The models that were trained from scratch are the systems of NMTHPO, but the file does not say which row each
one is: the number of attention heads is missing. A row's curve is the only one whose layers, embedding,
hidden size, learning rate and, to the digits that the row has, least perplexity agree: 1,903 of the 1,983
rows have one. There, a checkpoint is 2,000 updates: the rows' num_updates say so, but for one row.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

UPDATES = 2000
"""A checkpoint of a model that was trained from scratch, in updates."""
# The rows' perplexities have two digits after the point.
_ROUNDING = 0.006

Settings = tuple[float, float, float, float]
"""Layers, embedding, hidden size and learning rate."""


class Trained(Protocol):
    """What is needed of an entry of the file."""

    @property
    def perplexity_curve(self) -> Sequence[float]:
        """On dev, at each checkpoint."""

    @property
    def perplexity_optimal(self) -> float:
        """The least of them."""


def with_curves(table: Table, entries: Mapping[Settings, Sequence[Trained]]) -> Table:
    """A published table of NMTHPO with curves, from the models of its language pair by their settings."""
    axes = [h.name for h in table.hyperparameters]
    columns = [axes.index(name) for name in ("num_layers", "num_embed", "num_hidden", "learning_rate")]
    fitting = [
        [e for e in entries.get(_settings(config), ()) if abs(e.perplexity_optimal - ppl) <= _ROUNDING]
        for config, ppl in zip(table.configs[:, columns].tolist(), table.column("dev_ppl"), strict=True)
    ]
    claimed: dict[int, int] = defaultdict(int)
    for found in fitting:
        if len(found) == 1:
            claimed[id(found[0])] += 1
    curves = [
        list(found[0].perplexity_curve) if len(found) == 1 and claimed[id(found[0])] == 1 else []
        for found in fitting
    ]
    steps = np.concatenate([UPDATES * np.arange(1.0, len(curve) + 1) for curve in curves])
    return dataclasses.replace(
        table,
        curves=Curves(
            "update",
            (Metric("dev_ppl", "min"),),
            ("best",),
            np.cumsum([0, *map(len, curves)]),
            steps,
            steps,
            np.concatenate([np.array(curve) for curve in curves])[:, None],
            "updates",
            "updates",
        ),
    )


def _settings(config: Sequence[float]) -> Settings:
    layers, embed, hidden, rate = config
    return layers, embed, hidden, rate


def tuned_curves(
    perplexities: Sequence[Sequence[float]], bleu: Sequence[Sequence[float]], sizes: Sequence[float]
) -> Curves:
    """The curves of language models that were fine-tuned: on dev at each checkpoint, one per row.

    The file gives no times, so the cost of a checkpoint is the size of the row's model, in billions of
    parameters.
    """
    lengths = list(map(len, perplexities))
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    values = [np.concatenate([np.array(curve) for curve in curves]) for curves in (bleu, perplexities)]
    return Curves(
        "checkpoints",
        (Metric("dev_bleu", "max", "BLEU"), Metric("dev_ppl", "min")),
        ("best", "best"),
        np.cumsum([0, *lengths]),
        steps,
        steps * np.repeat(np.asarray(sizes), lengths),
        np.column_stack(values),
        "checkpoints x billion parameters",
    )
