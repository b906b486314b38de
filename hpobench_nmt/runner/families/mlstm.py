"""Multiplicative LSTMs of characters with normalised weights (Krause et al. 2016; 2018, section 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_family import language_model_family
from hpobench_nmt.runner.lm.mlstm_settings import MlstmSettings
from hpobench_nmt.runner.lm.settings import METRICS

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule


def build(settings: MlstmSettings, vocabulary: int, unit: Unit, generator: Any) -> MLSTM:
    """A model on the torch.Generator's device, with fresh weights drawn from it."""
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM

    return MLSTM(vocabulary, settings, generator)


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
