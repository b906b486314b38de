"""Settings and metrics that the families of language models share. Needs no torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.settings import Settings, setting
from hpobench_nmt.runner.torch_training.settings import Precision, TimingSettings, about_precision

Rule = Literal["sgd", "sgd-prior", "rms-prior", "rms-rms-prior", "sparse"]
"""Update rules of dynamic evaluation, see lm/dynamic.py."""
RULES: tuple[Rule, ...] = get_args(Rule)

OptimizerName = Literal["adamw", "sgd", "muon", "adafactor", "lion", "soap"]
"""Optimizers that follow a schedule, see lm/scheduled.py."""

DecayScale = Literal["elements", "tensors"]
"""The averages by which eq. 8 of Krause et al. (2018) scales the decay, see lm/dynamic.py."""
DECAY_SCALES: tuple[DecayScale, ...] = get_args(DecayScale)


def dropout(default: float, what: str) -> Any:
    """A rate of dropout."""
    return setting(default, f"dropout of {what}", 0.0, 0.95)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Settings of the training of every language model."""

    precision: Precision = setting("fp32", about_precision("evaluation"))
    accumulate: int = setting(
        1, "number of batches of batch_size streams, read one after the other, whose mean gradient makes "
        "an update; it needs the memory of one batch", 1, 10_000, unit="batches",
    )  # fmt: skip


streams = partial(setting, about="parallel streams", low=1, high=100_000, scale="log", unit="streams")
first_rate = partial(setting, about="initial learning rate of Adam", low=0.0, high=10.0, scale="log")
clip_norm = partial(
    setting, about="largest norm of the gradient; 0: not clipped", low=0.0, high=1e6, scale="log"
)
checks_to_drop = partial(
    setting, about="checks without a better dev loss before the rate drops", low=1, high=10_000, unit="checks"
)
rate_factor = partial(setting, about="factor of the learning rate at a drop", low=0.0, high=1.0)
most_epochs = partial(setting, about="maximum number of epochs", low=1, high=100_000, unit="epochs")


@dataclass(frozen=True, kw_only=True)
class PlateauSettings(Settings):
    """Settings of Adam with a learning rate that drops at plateaus of dev, see lm/plateau_adam.py."""

    learning_rate: float = first_rate(0.001)
    weight_decay: float = setting(0.0, "L2, in the gradient", 0.0, 1.0, scale="log")
    beta1: float = setting(0.9, "of Adam", 0.0, 0.9999)
    beta2: float = setting(0.999, "of Adam", 0.0, 0.999999)
    epsilon: float = setting(1e-8, "of Adam", 0.0, 1.0, scale="log")
    clip: float = clip_norm(1.0)
    batch_size: int = streams(100)
    bptt: int = setting(200, "length of a sequence", 1, 100_000, scale="log", unit="steps")
    check_updates: int = setting(400, "updates between dev evaluations", 1, 10**9, unit="updates")
    patience: int = checks_to_drop(5)
    drop: float = rate_factor(0.25)
    drops: int = setting(2, "number of drops of the learning rate; one more ends the training", 0, 100)
    max_epochs: int = most_epochs(100)


@dataclass(frozen=True, kw_only=True)
class PlateauTrainingSettings(TrainingSettings, PlateauSettings):
    """Settings of a training with that optimiser, of recurrent cells that are computed step by step."""

    compile: bool = setting(
        False, "whether torch.compile makes a few kernels of each time step in training, for GPUs; see "
        "lm/scanned_cells.py",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Settings):
    """Settings of an optimizer of torch whose learning rate follows a schedule, see lm/scheduled.py."""

    relative_rate: float = setting(
        0.0, "learning rate in multiples of the optimizer's usual one, instead of learning_rate; 0: "
        "learning_rate decides", 0.0, 1e4, scale="log",
    )  # fmt: skip
    warm_up: float = setting(0.05, "share of the updates in which the learning rate rises", 0.0, 1.0)
    decay: Literal["cosine", "wsd", "constant"] = setting(
        "cosine", "schedule of the learning rate after warm-up; wsd: constant, then linear at the end"
    )
    decay_share: float = setting(0.2, "share of the updates in which the rate falls, for wsd", 0.0, 1.0)
    final_share: float = setting(0.0, "share of the learning rate that remains at the end", 0.0, 1.0)
    beta1: float = setting(0.9, "of adamw, lion and soap", 0.0, 0.9999)
    beta2: float = setting(0.95, "of adamw, lion and soap", 0.0, 0.999999)
    epsilon: float = setting(1e-8, "of adamw and soap", 0.0, 1.0, scale="log")
    l2: float = setting(0.0, "L2 penalty of sgd, instead of weight_decay", 0.0, 1.0, scale="log")
    momentum: float = setting(0.95, "Nesterov's, of sgd and muon", 0.0, 0.9999)
    ns_steps: int = setting(5, "steps of Newton and Schulz, of muon", 1, 100)
    adam_rate: float = setting(
        1.0, "learning rate of what muon leaves to adamw (embeddings and vectors), divided by its own",
        0.0, 1e3, scale="log",
    )  # fmt: skip
    frequency: int = setting(10, "updates between new bases, of soap", 1, 10_000, scale="log", unit="updates")


@dataclass(frozen=True, kw_only=True)
class CacheSettings(Settings):
    """Settings of a neural cache."""

    cache_window: int = setting(2000, "neural cache; 0: none", 0, 100_000, unit="tokens")
    cache_theta: float = setting(0.5, "neural cache: flatness", 0.0, 1e3, scale="log")
    cache_lambda: float = setting(0.1, "share of the neural cache in the probability", 0.0, 0.99)


sparse_units = partial(
    setting, about="hidden units of a layer that the rule sparse adapts", low=1, high=100_000
)


@dataclass(frozen=True, kw_only=True)
class DynamicSettings(Settings):
    """Settings of dynamic evaluation."""

    dynamic_rule: Rule | Literal["none"] = setting("rms-rms-prior", "dynamic evaluation: update rule")
    dynamic_learning_rate: float = setting(1e-4, "dynamic evaluation: eta", 0.0, 1e3, scale="log")
    dynamic_decay: float = setting(0.005, "dynamic evaluation: lambda", 0.0, 1.0, scale="log")
    dynamic_epsilon: float = setting(1e-4, "dynamic evaluation: stabilisation", 0.0, 1e3, scale="log")
    dynamic_segment: int = setting(
        0, "dynamic evaluation: the segment length n; 0: 5 for words, 20 for characters, as in the paper",
        0, 10_000, unit="tokens",
    )  # fmt: skip
    dynamic_batch: int = setting(20, "number of parallel streams in a batch for MS_g", 1, 10_000, scale="log")
    dynamic_units: int = sparse_units(100)
    dynamic_statistics: int = setting(
        200_000, "number of training tokens on which MS_g is measured; 0: all", low=0, unit="tokens"
    )
    dynamic_decay_scale: DecayScale = setting(
        "elements", "dynamic evaluation: the unit of lambda, which is the mean RMS gradient of all "
        "parameters (elements, as in the paper) or the mean of the tensors' means (tensors, as in its "
        "code)",
    )  # fmt: skip
    dynamic_horizon: int = setting(
        0, "dynamic evaluation: number of tokens after which eta has fallen linearly to 0; 0: eta is "
        "constant", 0, 10**10, unit="tokens",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(DynamicSettings, CacheSettings, TimingSettings):
    """Settings of everything that is measured of a trained model."""

    tuning_tokens: int = setting(
        5000, "number of first dev tokens on which cache_theta, cache_lambda, dynamic_learning_rate and "
        "dynamic_decay are tuned, starting from their values; 0: not tuned", low=0, unit="tokens",
    )  # fmt: skip
    mc_masks: int = setting(
        0, "number of dropout masks over which probabilities are averaged in a separate evaluation of dev "
        "and test; 0: no such evaluation", 0, 10**6,
    )  # fmt: skip
    mc_steps: int = setting(
        35, "length of a sequence in that evaluation, for masks that hold for a whole sequence",
        1, 10**6, unit="steps",
    )  # fmt: skip


CLOCK = "processor time on a CPU, wall clock on a CUDA device"

_EVALUATIONS = (
    ("", "static"),
    ("_cache", "with a neural cache"),
    ("_dynamic", "with dynamic evaluation"),
    ("_mc", "averaged over dropout masks"),
)

COUNT_METRICS = (
    Metric(
        "num_param", "min", "parameters", description="number of parameters; a tied parameter counts once"
    ),
    Metric("memory", "min", "MB", description="peak resident memory of the process"),
    Metric("gpu_memory", "min", "MB", description="peak memory of tensors on the CUDA device"),
)

STATE_SIZE = Metric(
    "state_size", "min", "numbers", description="numbers in the optimizer's state for each parameter"
)

PHASE_METRICS = (
    Metric(
        "train_gpu_memory", "min", "MB", description="gpu_memory of training, including its dev evaluations"
    ),
    Metric(
        "eval_gpu_memory", "min", "MB", description="gpu_memory of everything that is measured after training"
    ),
)

TRAINING_METRICS = (
    Metric("train_time", "min", "s", description=f"training without the dev evaluations: {CLOCK}"),
    Metric("num_updates", "min", "updates", description="updates until convergence or max_epochs"),
)


def losses_in(evaluations: Iterable[tuple[str, str]]) -> tuple[Metric, ...]:
    """The losses of dev and test in some kinds of evaluation, each a suffix of names and a description."""
    return tuple(
        Metric(f"{part}_{name}{suffix}", "min", unit, description=f"{part} {what}, {how}")
        for name, unit, what in (
            ("ppl", "", "perplexity per token"),
            ("ppl_word", "", "perplexity per word, if tokens are subwords"),
            ("bpc", "bits/character", "cross-entropy"),
        )
        for suffix, how in evaluations
        for part in ("dev", "test")
    )


# Of each loss, the units of tokens with which it is measured (lm/measure.py).
_UNITS = {"ppl_word": ("subword",), "ppl": ("word", "subword"), "bpc": ("character", "subword")}


def never_measured(metric: str, corpus: Mapping[str, Any]) -> str:
    """Why no training has this metric on a corpus with these options, and what to use; "" if it can."""
    unit = corpus.get("unit", "character")  # enwik8 has no such option
    part, _, loss = metric.partition("_")
    for name, units in _UNITS.items():
        if loss == name or loss.startswith(f"{name}_"):
            right = f"{part}_{'bpc' if unit == 'character' else 'ppl'}{loss.removeprefix(name)}"
            return "" if unit in units else f"its tokens are {unit}s. Use the objective {right}"
    return ""


METRICS = (
    *losses_in(_EVALUATIONS),
    Metric("eval_time", "min", "s", description=f"static evaluation of dev: {CLOCK}"),
    Metric("cache_time", "min", "s", description=f"evaluation of dev with a neural cache: {CLOCK}"),
    Metric("dynamic_time", "min", "s", description=f"dynamic evaluation of dev: {CLOCK}"),
    Metric("mc_time", "min", "s", description=f"evaluation of dev averaged over dropout masks: {CLOCK}"),
    *TRAINING_METRICS,
    *COUNT_METRICS,
    *PHASE_METRICS,
)


def missing() -> str:
    """The command that installs the packages of language models, or "" if they are installed."""
    return "" if importlib.util.find_spec("torch") else "pip install 'hpobench-nmt[train]'"
