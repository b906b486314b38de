"""Settings of decoding one trained translation model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.nmt import marian_settings
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.settings import About, Settings
from hpobench_nmt.runner.torch_training.settings import ModelSeed

KEPT = 8
"""The number of last checkpoints whose weights are kept."""


@dataclass(frozen=True, kw_only=True)
class _Decoding(Settings):
    strategy: Annotated[
        Literal["beam", "mbr"], About("beam search, or the sample of least risk; see nmt/decoding.py")
    ] = "beam"
    averaged: Annotated[int, About("last checkpoints whose mean decodes", 1, KEPT, unit="checkpoints")] = 1
    limit: Annotated[
        float, About("largest length of a translation, divided by its source's; 5 subwords more", 0.1, 100)
    ] = 2.0
    no_repeat: Annotated[
        int, About("length of sequences that a translation has once at most; 0: any", 0, 100)
    ] = 0
    repetition_penalty: Annotated[
        float, About("factor against subwords that the translation has already", 1.0, 100.0)
    ] = 1.0
    samples: Annotated[int, About("samples of a sentence, of mbr", 1, 10_000, scale="log")] = 8
    temperature: Annotated[float, About("of the samples", 0.01, 100.0)] = 1.0
    top_p: Annotated[float, About("share of the probability that is sampled from", 0.01, 1.0)] = 1.0
    utility: Annotated[Literal["chrf", "bleu"], About("score of sentences, of mbr")] = "chrf"
    sentences: Annotated[
        int, About("number of first lines of dev and of test that are decoded; 0: all", low=0, on_grid=False)
    ] = 0
    model_seed: ModelSeed = 1


@dataclass(frozen=True, kw_only=True)
class DecodingSettings(MarianSettings, _Decoding):
    """Settings of one configuration."""


def check(settings: DecodingSettings) -> None:
    """Refuse impossible settings, with errors that name them."""
    marian_settings.check(settings)
    if settings.ema or settings.average > 1 or settings.workers > 1:
        raise InputError("a model to decode is trained without ema, average and workers: set averaged.")
