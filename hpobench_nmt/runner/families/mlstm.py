"""Multiplicative LSTMs of characters with normalised weights (Krause et al. 2016; 2018, section 7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_family import language_model_family
from hpobench_nmt.runner.lm.settings import (
    METRICS,
    DynamicUnits,
    EvaluationSettings,
    PlateauTrainingSettings,
    dropout,
)
from hpobench_nmt.runner.settings import About, Settings, values_of

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule


@dataclass(frozen=True, kw_only=True)
class _Mlstm(Settings):
    embedding_size: Annotated[int, About("of symbols", 1, 100_000)] = 400
    hidden_size: Annotated[int, About("number of units in the recurrent layer", 1, 100_000)] = 2800
    weight_norm: Annotated[bool, About("whether the recurrent layer's weights are normalised")] = True
    dropout_embedding: Annotated[float, dropout("embedded symbols, one mask per sequence")] = 0.5
    dropout_hidden: Annotated[
        float, dropout("hidden units, one mask per sequence, in the recurrence and the output")
    ] = 0.2


@dataclass(frozen=True, kw_only=True)
class MlstmSettings(EvaluationSettings, PlateauTrainingSettings, _Mlstm):
    """Settings of one configuration."""

    dynamic_units: DynamicUnits = 500  # Krause et al. (2018), section 7.3


def build(settings: MlstmSettings, vocabulary: int, unit: Unit, generator: Any) -> MLSTM:
    """A model on the torch.Generator's device, with fresh weights drawn from it."""
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM

    return MLSTM(vocabulary, **values_of(_Mlstm, settings), generator=generator)


def parameters(settings: MlstmSettings, vocabulary: int, unit: Unit = "character") -> int:
    """The number of parameters of a model."""
    embedding, hidden = settings.embedding_size, settings.hidden_size
    scales = 10 * hidden if settings.weight_norm else 0  # one for each row of the four matrices
    recurrent = 5 * hidden * (embedding + hidden) + 4 * hidden + scales
    return vocabulary * (embedding + hidden + 1) + recurrent


def course(settings: MlstmSettings, unit: Unit, model: Any) -> tuple[PlateauAdam, TrainingSchedule]:
    """The optimiser and the schedule of a training."""
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import schedule_of

    return PlateauAdam(model.parameters(), settings), schedule_of(settings, vary=False)


FAMILY = language_model_family(
    "mlstm",
    "multiplicative LSTM of characters",
    "Krause et al. 2016",
    MlstmSettings,
    Architecture(build, parameters, course),
    # Bits per character come first, because the first metric is the default objective of a spec.
    metrics=tuple(sorted(METRICS, key=lambda metric: "_bpc" not in metric.name)),
)
