"""Settings of multiplicative LSTMs. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from hpobench_nmt.runner.lm.settings import EvaluationSettings, PlateauTrainingSettings, dropout, sparse_units
from hpobench_nmt.runner.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class _Mlstm(Settings):
    embedding_size: int = setting(400, "of symbols", 1, 100_000)
    hidden_size: int = setting(2800, "number of units in the recurrent layer", 1, 100_000)
    weight_norm: bool = setting(True, "whether the recurrent layer's weights are normalised")
    dropout_embedding: float = dropout(0.5, "embedded symbols, one mask per sequence")
    dropout_hidden: float = dropout(
        0.2, "hidden units, one mask per sequence, in the recurrence and the output"
    )


@dataclass(frozen=True, kw_only=True)
class MlstmSettings(EvaluationSettings, PlateauTrainingSettings, _Mlstm):
    """Settings of one configuration."""

    dynamic_units: int = sparse_units(500)  # Krause et al. (2018), section 7.3
