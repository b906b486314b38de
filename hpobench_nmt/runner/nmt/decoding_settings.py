"""Settings of decoding one trained translation model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.nmt import marian_settings
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.settings import Settings, setting
from hpobench_nmt.runner.torch_training.settings import seed_of_model

KEPT = 8
"""The number of last checkpoints whose weights are kept."""


@dataclass(frozen=True, kw_only=True)
class _Decoding(Settings):
    strategy: Literal["beam", "mbr"] = setting(
        "beam", "beam search, or the sample of least risk; see nmt/decoding.py"
    )
    averaged: int = setting(1, "last checkpoints whose mean decodes", 1, KEPT, unit="checkpoints")
    limit: float = setting(
        2.0, "largest length of a translation, divided by its source's; 5 subwords more", 0.1, 100
    )
    no_repeat: int = setting(0, "length of sequences that a translation has once at most; 0: any", 0, 100)
    repetition_penalty: float = setting(
        1.0, "factor against subwords that the translation has already", 1.0, 100.0
    )
    samples: int = setting(8, "samples of a sentence, of mbr", 1, 10_000, scale="log")
    temperature: float = setting(1.0, "of the samples", 0.01, 100.0)
    top_p: float = setting(1.0, "share of the probability that is sampled from", 0.01, 1.0)
    utility: Literal["chrf", "bleu"] = setting("chrf", "score of sentences, of mbr")
    sentences: int = setting(
        0, "number of first lines of dev and of test that are decoded; 0: all", low=0, on_grid=False
    )
    model_seed: int = seed_of_model(1)


@dataclass(frozen=True, kw_only=True)
class DecodingSettings(MarianSettings, _Decoding):
    """Settings of one configuration."""


def check(settings: DecodingSettings) -> None:
    """Refuse impossible settings, with errors that name them."""
    marian_settings.check(settings)
    if settings.ema or settings.average > 1 or settings.workers > 1:
        raise InputError("a model to decode is trained without ema, average and workers: set averaged.")
