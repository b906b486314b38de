"""Settings of decoder-only Transformers. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.runner.lm.settings import (
    EvaluationSettings,
    OptimizerName,
    OptimizerSettings,
    TrainingSettings,
    clip_norm,
    dropout,
)
from hpobench_nmt.runner.settings import Settings, setting


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
    norm: Literal["rmsnorm", "layernorm"] = setting("rmsnorm", "normalisation")
    positions: Literal["rotary", "learnt"] = setting("rotary", "encoding of positions")
    activation: Literal["gelu", "swiglu"] = setting(
        "gelu", "activation of a block's MLP; swiglu has a third matrix"
    )
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
