"""Settings of the translation models of the library transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.lm.settings import Precision, TimingSettings
from hpobench_nmt.runner.nmt.settings import TranslationSettings
from hpobench_nmt.runner.nmt.text_scores import check_tokenizer
from hpobench_nmt.runner.settings import About

Tied = Literal["none", "target", "all"]


@dataclass(frozen=True, kw_only=True)
class MarianSettings(TimingSettings, TranslationSettings):
    """Of one configuration."""

    vocabularies: Annotated[
        Literal["separate", "joint"], About("one of each side, or one that is learnt on both sides")
    ] = "separate"
    tied: Annotated[
        Tied, About("embeddings that are one matrix: target and output, or source as well (joint only)")
    ] = "target"
    norm: Annotated[
        Literal["pre", "post"],
        About("normalisation before each sublayer (transformers' M2M100) or after its sum (its Marian)"),
    ] = "pre"
    precision: Annotated[
        Precision, About("of matrix products in training, see lm/precision.py; decoding always has 32 bits")
    ] = "fp32"
    beta1: Annotated[float, About("of Adam", low=0.0, high=0.9999)] = 0.9
    beta2: Annotated[float, About("of Adam", low=0.0, high=0.999999)] = 0.999
    epsilon: Annotated[float, About("of Adam", low=0.0, high=1.0, scale="log")] = 1e-8
    weight_decay: Annotated[float, About("decoupled, of matrices", low=0.0, high=100.0, scale="log")] = 0.0
    clip: Annotated[float, About("norm of the gradient; 0: not clipped", low=0.0, high=1e6, scale="log")] = (
        0.0
    )
    ema: Annotated[
        float,
        About(
            "of the weights that are evaluated: decay of a moving average; 0: none", low=0.0, high=0.999999
        ),
    ] = 0.0
    average: Annotated[
        int,
        About("the last checkpoints whose mean is evaluated", low=1, high=1000, unit="checkpoints"),
    ] = 1
    length_penalty: Annotated[
        float, About("exponent of a translation's length, which divides its score", low=0.0, high=10.0)
    ] = 1.0


def check(settings: MarianSettings) -> None:
    """Refuse settings that no model can have, in their own words."""
    if settings.num_embed % settings.num_heads:
        raise InputError(
            f"num_embed {settings.num_embed} can't be divided among num_heads {settings.num_heads}: "
            "take a multiple."
        )
    if settings.num_embed % 2:
        raise InputError(f"num_embed {settings.num_embed} must be even: positions are sines and cosines.")
    if settings.stop_on == "bleu" and not settings.checkpoint_sentences:
        raise InputError("stop_on 'bleu' needs checkpoint_sentences: -1 for all of dev, or a number of them.")
    if settings.tied == "all" and settings.vocabularies == "separate":
        raise InputError('tied = "all" needs vocabularies = "joint": two vocabularies have no common matrix.')
    if settings.ema and settings.average > 1:
        raise InputError("ema and average > 1 are two averages of the same weights: choose one.")
    if settings.warmup > settings.max_updates:
        raise InputError(
            f"warmup {settings.warmup:,} is longer than the training (max_updates {settings.max_updates:,}): "
            "the rate would never be learning_rate."
        )
    check_tokenizer(settings.bleu_tokenizer)


def longest(settings: MarianSettings) -> int:
    """The most subwords of a text that a model reads or writes."""
    return 2 * settings.max_length + 16
