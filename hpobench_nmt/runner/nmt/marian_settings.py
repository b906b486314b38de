"""Settings of the translation models of the library transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.nmt.settings import TranslationSettings, check_translation
from hpobench_nmt.runner.settings import setting
from hpobench_nmt.runner.torch_training.settings import Precision, TimingSettings, about_precision

Tied = Literal["none", "target", "all"]


@dataclass(frozen=True, kw_only=True)
class MarianSettings(TimingSettings, TranslationSettings):
    """Settings of one configuration."""

    vocabularies: Literal["separate", "joint"] = setting(
        "separate", "one for each side, or one that is learned on both sides"
    )
    tied: Tied = setting(
        "target", "embeddings that share a matrix: target and output, or also source (joint only)"
    )
    norm: Literal["pre", "post"] = setting(
        "pre", "normalisation before each sublayer (as in M2M100 of transformers) or after its sum (as in "
        "its Marian)",
    )  # fmt: skip
    precision: Precision = setting("fp32", about_precision("decoding"))
    beta1: float = setting(0.9, "of Adam", 0.0, 0.9999)
    beta2: float = setting(0.999, "of Adam", 0.0, 0.999999)
    epsilon: float = setting(1e-8, "of Adam", 0.0, 1.0, scale="log")
    weight_decay: float = setting(0.0, "decoupled, of matrices", 0.0, 100.0, scale="log")
    clip: float = setting(0.0, "largest norm of the gradient; 0: not clipped", 0.0, 1e6, scale="log")
    ema: float = setting(
        0.0, "decay of a moving average of the weights, which is evaluated; 0: none", low=0.0, high=0.999999
    )
    average: int = setting(
        1, "number of last checkpoints whose mean is evaluated", 1, 1000, unit="checkpoints"
    )
    length_penalty: float = setting(
        1.0, "exponent of the length of a translation, by which its score is divided", 0.0, 10.0
    )


def check(settings: MarianSettings) -> None:
    """Refuse impossible settings, with errors that name them."""
    check_translation(settings)
    if settings.tied == "all" and settings.vocabularies == "separate":
        raise InputError(
            'tied = "all" needs vocabularies = "joint", because two vocabularies cannot share a matrix.'
        )
    if settings.ema and settings.average > 1:
        raise InputError("ema and average > 1 both average the same weights: set only one of them.")
    if settings.warmup > settings.max_updates:
        raise InputError(
            f"warmup {settings.warmup:,} is longer than the training (max_updates "
            f"{settings.max_updates:,}), so the rate would never reach learning_rate."
        )


def longest(settings: MarianSettings) -> int:
    """The largest number of subwords of a text that a model reads or writes."""
    return 2 * settings.max_length + 16
