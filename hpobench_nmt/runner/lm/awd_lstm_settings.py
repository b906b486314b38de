"""Settings of AWD-LSTM and AWD-QRNN language models. Needs no torch."""

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
    most_epochs,
    streams,
)
from hpobench_nmt.runner.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class _AwdLstm(Settings):
    cell: Literal["lstm", "qrnn"] = setting("lstm", "kind of the recurrent layers, see lm/qrnn.py")
    layers: int = setting(3, "recurrent layers", 1, 20)
    embedding_size: int = setting(400, "size of word embeddings, and of the last layer (tied)", 1, 100_000)
    hidden_size: int = setting(1150, "size of every layer except the last", 1, 100_000)
    dropout_input: float = dropout(0.4, "embedded words, one mask per sequence")
    dropout_hidden: float = dropout(0.25, "connections between layers, one mask per sequence")
    dropout_output: float = dropout(0.4, "the last layer's output, one mask per sequence")
    dropout_embedding: float = dropout(0.1, "whole words")
    weight_drop: float = dropout(
        0.5, "single hidden-to-hidden weights (QRNN: all weights), one mask per sequence"
    )
    zoneout: float = dropout(0.0, "updates of a QRNN's memory (zoneout), one mask per time step")
    alpha: float = setting(2.0, "activation regularisation (AR)", 0.0, 1e3)
    beta: float = setting(1.0, "temporal activation regularisation (TAR)", 0.0, 1e3)
    learning_rate: float = setting(30.0, "learning rate for a sequence of bptt steps", 0.0, 1e4, scale="log")
    weight_decay: float = setting(1.2e-6, "L2 penalty", 0.0, 1.0, scale="log")
    batch_size: int = streams(20)
    bptt: int = setting(70, "mean length of a sequence", 1, 100_000, scale="log", unit="steps")
    clip: float = clip_norm(0.25)
    averaging_window: int = setting(
        5, "averaging starts when the dev loss is worse than the best of all checks except the last n",
        0, 1000, unit="checks",
    )  # fmt: skip
    patience: int = setting(
        5, "checks without improvement after averaging has started", 1, 1000, unit="checks"
    )
    min_improvement: float = setting(
        0.0, "smallest drop of the dev loss that counts, for patience", 0.0, 10.0, unit="nats"
    )
    fine_tune: bool = setting(
        False, "after convergence, train again from the averaged weights, with averaging from the start"
    )
    max_epochs: int = most_epochs(500)
    checks_per_epoch: int = setting(1, "dev evaluations per pass over the training data", 1, 1000)
    check_updates: int = setting(
        0, "updates between dev evaluations, instead of checks_per_epoch; 0: checks_per_epoch decides",
        0, 10**9, unit="updates",
    )  # fmt: skip
    dev_streams: int = setting(
        10, "streams that dev is cut into at a check; with 1, checks measure the same as the end does",
        1, 1000, unit="streams",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelSettings(TrainingSettings, _AwdLstm):
    """Settings of the model and its training."""


@dataclass(frozen=True, kw_only=True)
class AwdLstmSettings(EvaluationSettings, OptimizerSettings, ModelSettings):
    """Settings of one configuration."""

    optimizer: Literal["nt-asgd"] | OptimizerName = setting(
        "nt-asgd", "update rule of training; all but nt-asgd follow a schedule over a budget of tokens"
    )
    tokens: int = setting(
        10_000_000, "tokens to train on, unless nt-asgd", 1, 10**13, scale="log", unit="tokens"
    )
    checks: int = setting(10, "dev evaluations at most, evenly spaced, unless nt-asgd", 1, 10_000)

    @property
    def updates(self) -> int:
        """The number of updates of a training with a budget."""
        return self.tokens // (self.batch_size * self.accumulate * self.bptt)
