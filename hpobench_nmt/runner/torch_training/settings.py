"""Settings of every training with torch. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from hpobench_nmt.runner.settings import Settings, setting

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
"""Precisions of matrix products in training, see torch_training/precision.py."""


# Not on a grid: a replicate of a row with one seed would equal the row with the next seed.
seed_of_model = partial(
    setting, about="seed of the model; replicates have the next seeds", low=0, high=2**31, on_grid=False
)
"""The seed of a trained model that several configurations share."""


def about_precision(other: str) -> str:
    """The description of the setting precision. `other` is what always has 32 bits."""
    products = "precision of matrix products in training"
    return f"{products}, see torch_training/precision.py; {other} always has 32 bits"


@dataclass(frozen=True, kw_only=True)
class TimingSettings(Settings):
    """Settings of the clock."""

    exclusive_timing: Literal["gpu", "machine", "never"] = setting(
        "gpu", "where only one process at a time measures times, see torch_training/clock.py", on_grid=False
    )
