"""Decoder-only Transformer language models, from the GPT-2 of 2019 to the Llama of 2023."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.family import Architecture, Outcome, Unit
from hpobench_nmt.runner.lm.gpt_settings import GptSettings
from hpobench_nmt.runner.lm.gpt_shape import shape_of, step_of
from hpobench_nmt.runner.lm.language_family import language_model_family, with_flops
from hpobench_nmt.runner.lm.settings import METRICS, STATE_SIZE

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.gpt_model import GPT
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule
    from hpobench_nmt.runner.lm.scheduled import Scheduled

_TRAIN_FLOPS, _BODY = "train_flops", "num_param_body"


def build(settings: GptSettings, vocabulary: int, unit: Unit, generator: Any) -> GPT:
    """A model on the torch.Generator's device, with fresh weights drawn from it."""
    from hpobench_nmt.runner.lm.gpt_model import GPT

    return GPT(shape_of(settings, vocabulary), generator)


def parameters(settings: GptSettings, vocabulary: int, unit: Unit = "word") -> int:
    """The number of parameters of a model; a tied embedding counts once."""
    return shape_of(settings, vocabulary).parameters


def course(settings: GptSettings, unit: Unit, model: Any) -> tuple[Scheduled, TrainingSchedule]:
    """The optimiser and the schedule of a training."""
    from hpobench_nmt.runner.lm.schedule import schedule_of
    from hpobench_nmt.runner.lm.scheduled import scheduled

    schedule = schedule_of(
        settings,
        bptt=settings.context,
        vary=False,
        max_updates=settings.updates,
        check_updates=-(-settings.updates // settings.checks),
        windows=True,
        dev_streams=1,  # windows do not depend on earlier text, so more streams would not be faster
    )
    return scheduled(settings, model, settings.updates), schedule


def _check(settings: GptSettings) -> None:
    """Refuse settings that are wrong for every corpus."""
    if bool(settings.width) == bool(settings.size):
        raise InputError("set either width, or size with width = 0: width and size determine each other.")
    if settings.width % settings.heads:
        raise InputError(f"width {settings.width} is not a multiple of {settings.heads} heads.")
    if settings.width % step_of(settings):
        raise InputError(
            f"width {settings.width}: with rotary positions it must be a multiple of {step_of(settings)}, "
            f"which is twice the number of heads."
        )
    if settings.context % 2:
        raise InputError(f"context {settings.context} must be even, because dev is read in half windows.")
    if not settings.updates:
        raise InputError(
            f"tokens {settings.tokens:,} are too few for one update, which reads "
            f"{settings.tokens_per_update:,} (batch_size x accumulate x context)."
        )
    if settings.dynamic_rule == "sparse":
        raise InputError(
            "dynamic_rule 'sparse' adapts recurrent states, which a gpt does not have. Use another rule."
        )
    shape_of(settings, 2)


def _corpus_check(settings: GptSettings, corpus: TextCorpus) -> None:
    """Refuse a corpus that is shorter than two windows for each stream."""
    streams = settings.batch_size * settings.accumulate
    if len(corpus.train) // streams < 2 * settings.context:
        raise InputError(
            f"train has {len(corpus.train):,} tokens; batch_size {streams} (with accumulate) and context "
            f"{settings.context} need {2 * streams * settings.context:,}, two windows a stream."
        )


def _costed(settings: GptSettings, corpus: TextCorpus, outcome: Outcome) -> Outcome:
    """The outcome with its cost in floating-point operations (lm/gpt_shape.py)."""
    shape, tokens = shape_of(settings, len(corpus.vocabulary)), settings.tokens_per_update
    found = with_flops(outcome, lambda point: point["update"] * tokens, shape.flops)
    if outcome.paused:
        return found
    cost = {_BODY: float(shape.body), _TRAIN_FLOPS: found.curve[-1]["flops"]}
    return replace(found, metrics={**found.metrics, **cost})


FAMILY = language_model_family(
    "gpt",
    "decoder-only Transformer of words, subwords or characters",
    "Radford et al. 2019, Touvron et al. 2023",
    GptSettings,
    Architecture(build, parameters, course),
    metrics=(
        *METRICS,
        STATE_SIZE,
        Metric(_BODY, "min", "parameters", description="parameters without embeddings and output biases"),
        Metric(_TRAIN_FLOPS, "min", "FLOPs", description="floating-point operations of training"),
    ),
    check=_check,
    corpus_check=_corpus_check,
    costed=_costed,
)
