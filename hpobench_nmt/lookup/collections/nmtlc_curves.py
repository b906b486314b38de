"""The learning curves of NMTLC, for its own tables and for the six tables of NMTHPO.

The models that were trained from scratch are the systems of NMTHPO. The file does not state the row of a
model, because the number of attention heads is missing. So a row gets a curve only if exactly one curve
agrees with it in layers, embedding, hidden size, learning rate and, to the digits that the row has, lowest
perplexity, and if no other row fits that curve. Of the 1,983 rows, 1,903 get a curve. A checkpoint of these
curves is 2,000 updates. The num_updates of all rows but one confirm this.
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
"""The updates per checkpoint of a model that was trained from scratch."""
# The rows' perplexities are rounded to two decimals.
_ROUNDING = 0.006

Settings = tuple[float, float, float, float]
"""Layers, embedding, hidden size and learning rate."""


class Trained(Protocol):
    """The part of an entry of the file that is needed here."""

    @property
    def perplexity_curve(self) -> Sequence[float]:
        """Perplexity on dev at each checkpoint."""

    @property
    def perplexity_optimal(self) -> float:
        """The lowest perplexity of the curve."""


def with_curves(table: Table, entries: Mapping[Settings, Sequence[Trained]]) -> Table:
    """A published table of NMTHPO with curves, given the models of its language pair by their settings."""
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
    """The curves of fine-tuned language models: BLEU and perplexity on dev at each checkpoint of each row.

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
