"""AWD-LSTM and AWD-QRNN language models (Merity et al. 2018), with neural cache and dynamic evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.family import Architecture, Outcome, Unit
from hpobench_nmt.runner.lm.awd_lstm_settings import AwdLstmSettings, ModelSettings
from hpobench_nmt.runner.lm.language_family import language_model_family, with_flops
from hpobench_nmt.runner.lm.settings import METRICS, STATE_SIZE
from hpobench_nmt.runner.settings import values_of

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
    from hpobench_nmt.runner.lm.ntasgd import NTASGD
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule


def build(settings: ModelSettings, vocabulary: int, unit: Unit, generator: Any) -> AWDLSTM:
    """A model on the torch.Generator's device, with fresh weights drawn from it."""
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM

    return AWDLSTM(vocabulary, settings, generator)


def parameters(settings: ModelSettings, vocabulary: int, unit: Unit = "word") -> int:
    """The number of parameters of a model; the embedding, tied to the output layer, counts once."""
    embedding = settings.embedding_size
    units = [*[settings.hidden_size] * (settings.layers - 1), embedding]
    sizes = list(zip([embedding, *units], units, strict=False))
    if settings.cell == "qrnn":
        recurrent = sum(3 * n * (m * (1 if layer else 2) + 1) for layer, (m, n) in enumerate(sizes))
    else:
        recurrent = sum(4 * n * (m + n + 2) for m, n in sizes)
    return vocabulary * (embedding + 1) + recurrent


def course(settings: ModelSettings, unit: Unit, model: Any) -> tuple[NTASGD, TrainingSchedule]:
    """The optimiser and the schedule of a training."""
    from hpobench_nmt.runner.lm.ntasgd import NTASGD
    from hpobench_nmt.runner.lm.schedule import schedule_of

    return NTASGD(list(model.parameters()), **values_of(NTASGD, settings)), schedule_of(settings, vary=True)


def course_with_budget(settings: AwdLstmSettings, unit: Unit, model: Any) -> tuple[Any, TrainingSchedule]:
    """The optimiser and the schedule of a training, which has a budget of tokens unless it is NT-ASGD."""
    from hpobench_nmt.runner.lm.schedule import schedule_of
    from hpobench_nmt.runner.lm.scheduled import scheduled

    if settings.optimizer == "nt-asgd":
        return course(settings, unit, model)
    often = -(-settings.updates // settings.checks)
    schedule = schedule_of(settings, vary=False, max_updates=settings.updates, check_updates=often)
    return scheduled(settings, model, settings.updates), schedule


def _check_budget(settings: AwdLstmSettings) -> None:
    check(settings)
    if settings.optimizer != "nt-asgd" and not settings.updates:
        tokens = "batch_size x accumulate x bptt"
        raise InputError(f"tokens {settings.tokens:,} are too few for one update ({tokens}).")


def check(settings: ModelSettings) -> None:
    """Refuse settings that are wrong for every corpus."""
    if settings.zoneout and settings.cell != "qrnn":
        raise InputError("zoneout is only for the QRNN: set cell to 'qrnn', or zoneout to 0.")


ARCHITECTURE = Architecture(build, parameters, course)


def _costed(settings: AwdLstmSettings, corpus: TextCorpus, outcome: Outcome) -> Outcome:
    """A parameter costs 6 operations per token: 2 in the forward pass and 4 in the backward pass."""
    flops = 6 * parameters(settings, len(corpus.vocabulary))
    return with_flops(outcome, lambda point: round(point["epoch"] * len(corpus.train)), flops)


FAMILY = language_model_family(
    "awd-lstm",
    'AWD-LSTM, or AWD-QRNN (`cell = "qrnn"`), with neural cache and dynamic evaluation',
    "Merity et al. 2018, Bradbury et al. 2017",
    AwdLstmSettings,
    Architecture(build, parameters, course_with_budget),
    metrics=(*METRICS, STATE_SIZE),
    check=_check_budget,
    costed=_costed,
)
