"""Translation: encoder-decoder Transformers of the library transformers, trained by our own loop.

A spec of the family `sockeye` also works with this family if it does not set `amp`, `tf32` or `decode_dtype`.
The settings have the same names and meanings, and so have the metrics. `dev_bpc` is added.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpobench_nmt.runner.disk.kept_model import KeptModel
from hpobench_nmt.runner.family import Family, Job, Outcome, Translated, Translator
from hpobench_nmt.runner.nmt.marian_corpus import checkpoint_check, corpus_check
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings, check
from hpobench_nmt.runner.nmt.metrics import BITS, CANNOT_RANK, METRICS

_PACKAGES = ("torch", "transformers", "sacrebleu", "sentencepiece")


def missing() -> str:
    """The command that installs missing packages, or ""."""
    absent = [package for package in _PACKAGES if importlib.util.find_spec(package) is None]
    return "pip install 'hpobench-nmt[train,marian]'" if absent else ""


def train(job: Job[MarianSettings]) -> Outcome:
    """Train, translate dev and test, and score."""
    from hpobench_nmt.runner.nmt.marian_measure import train_and_measure

    return train_and_measure(job)


def _read(folder: Path, about: KeptModel, settings: MarianSettings) -> Any:
    from hpobench_nmt.runner.nmt.marian_files import read_model

    return read_model(folder, about, settings)


def _translate(kept: Any, lines: Sequence[str], device: str) -> Translated:
    from hpobench_nmt.runner.nmt.marian_files import translate

    return translate(kept, lines, device)


FAMILY = Family(
    name="marian",
    models="transformers for translation, of the library transformers",
    source="Vaswani et al. 2017",
    corpus="parallel",
    settings=MarianSettings,
    metrics=(*METRICS, BITS),
    train=train,
    check=check,
    corpus_check=corpus_check,
    cannot_rank=CANNOT_RANK,
    checkpoint_check=checkpoint_check,
    missing=missing,
    translator=Translator(_read, _translate),
)
