"""Decoder-only Transformer language models, from the GPT-2 of 2019 to the Llama of 2023."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.family import Architecture, Outcome, Unit
from hpobench_nmt.runner.lm.gpt_shape import Activation, GPTShape, Norm, Positions, shape_of_size
from hpobench_nmt.runner.lm.language_family import language_model_family, with_flops
from hpobench_nmt.runner.lm.settings import (
    METRICS,
    STATE_SIZE,
    EvaluationSettings,
    OptimizerName,
    OptimizerSettings,
    TrainingSettings,
    clip_norm,
    dropout,
)
from hpobench_nmt.runner.settings import Settings, setting, values_of

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.gpt_model import GPT
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule
    from hpobench_nmt.runner.lm.scheduled import Scheduled

_TRAIN_FLOPS, _BODY = "train_flops", "num_param_body"


@dataclass(frozen=True, kw_only=True)
class _Gpt(Settings):
    depth: int = setting(4, "number of blocks", 1, 200)
    width: int = setting(128, "size of the vectors, a multiple of heads; 0: computed from size", 0, 100_000)
    size: int = setting(
        0, "number of parameters without embeddings, which determines the width; 0: width is set instead",
        0, 10**11, scale="log",
    )  # fmt: skip
    heads: int = setting(4, "number of attention heads", 1, 1000)
    mlp_ratio: float = setting(4.0, "hidden width of a block's MLP, divided by width", 0.1, 100.0)
    norm: Norm = setting("rmsnorm", "normalisation")
    positions: Positions = setting("rotary", "encoding of positions")
    activation: Activation = setting("gelu", "activation of a block's MLP; swiglu has a third matrix")
    biases: bool = setting(False, "whether linear maps and LayerNorm have biases")
    tied: bool = setting(True, "whether input and output embedding share a matrix")
    dropout: float = dropout(0.1, "embedded tokens and of the output of each block")
    context: int = setting(
        128, "tokens in a window, an even number", 2, 1_000_000, scale="log", unit="tokens"
    )
    batch_size: int = setting(32, "windows in a batch", 1, 100_000, scale="log", unit="windows")
    tokens: int = setting(
        10_000_000, "tokens to train on; then the training ends", 1, 10**13, scale="log", unit="tokens"
    )
    learning_rate: float = setting(0.001, "highest learning rate", 0.0, 1e4, scale="log")
    optimizer: OptimizerName = setting("adamw", "update rule of training")
    weight_decay: float = setting(0.1, "decoupled, of matrices", 0.0, 100.0, scale="log")
    clip: float = clip_norm(1.0)
    checks: int = setting(10, "dev evaluations at most, evenly spaced", 1, 10_000)


@dataclass(frozen=True, kw_only=True)
class GptSettings(EvaluationSettings, TrainingSettings, OptimizerSettings, _Gpt):
    """Settings of one configuration."""

    @property
    def tokens_per_update(self) -> int:
        """The number of tokens that an update reads."""
        return self.batch_size * self.accumulate * self.context

    @property
    def updates(self) -> int:
        """The number of updates of the whole training."""
        return self.tokens // self.tokens_per_update


def shape_of(settings: GptSettings, vocabulary: int) -> GPTShape:
    """The architecture. Its width is set, or computed from `size`.

    Raises:
        InputError: no width gives about that size.
    """

    def of_width(width: int) -> GPTShape:
        return GPTShape(
            vocabulary=vocabulary,
            hidden=max(1, round(settings.mlp_ratio * width)),
            **values_of(GPTShape, settings) | {"width": width},
        )

    if settings.width:
        return of_width(settings.width)
    return shape_of_size(of_width, _step(settings), settings.size)


def _step(settings: GptSettings) -> int:
    """The width must be a multiple of this. Rotary positions turn pairs of numbers in each head."""
    return settings.heads * (2 if settings.positions == "rotary" else 1)


def build(settings: GptSettings, vocabulary: int, unit: Unit, generator: Any) -> GPT:
    """A model on the torch.Generator's device, with fresh weights drawn from it."""
    from hpobench_nmt.runner.lm.gpt_model import GPT

    return GPT(shape_of(settings, vocabulary), dropout=settings.dropout, generator=generator)


def parameters(settings: GptSettings, vocabulary: int, unit: Unit = "word") -> int:
    """The number of parameters of a model; a tied embedding counts once."""
    return shape_of(settings, vocabulary).parameters


def course(settings: GptSettings, unit: Unit, model: Any) -> tuple[Scheduled, TrainingSchedule]:
    """The optimiser and the schedule of a training."""
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule
    from hpobench_nmt.runner.lm.scheduled import scheduled

    optimiser = scheduled(settings, model, settings.updates)
    schedule = TrainingSchedule(
        batch_size=settings.batch_size,
        bptt=settings.context,
        vary=False,
        clip=settings.clip,
        max_updates=settings.updates,
        check_updates=-(-settings.updates // settings.checks),
        accumulate=settings.accumulate,
        precision=settings.precision,
        windows=True,
        dev_streams=1,  # windows do not depend on earlier text, so more streams would not be faster
    )
    return optimiser, schedule


def _check(settings: GptSettings) -> None:
    """Refuse settings that are wrong for every corpus."""
    if bool(settings.width) == bool(settings.size):
        raise InputError("set either width, or size with width = 0: width and size determine each other.")
    if settings.width % settings.heads:
        raise InputError(f"width {settings.width} is not a multiple of {settings.heads} heads.")
    if settings.width % _step(settings):
        raise InputError(
            f"width {settings.width}: with rotary positions it must be a multiple of {_step(settings)}, "
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
