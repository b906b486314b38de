"""Settings and metrics that the families of language models share. Needs no torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.settings import About, Settings
from hpobench_nmt.runner.torch_training.settings import Precision, TimingSettings

Rule = Literal["sgd", "sgd-prior", "rms-prior", "rms-rms-prior", "sparse"]
"""Update rules of dynamic evaluation, see lm/dynamic.py."""
RULES: tuple[Rule, ...] = get_args(Rule)

OptimizerName = Literal["adamw", "sgd", "muon", "adafactor", "lion", "soap"]
"""Optimizers that follow a schedule, see lm/scheduled.py."""

DecayScale = Literal["elements", "tensors"]
"""The averages by which eq. 8 of Krause et al. (2018) scales the decay, see lm/dynamic.py."""
DECAY_SCALES: tuple[DecayScale, ...] = get_args(DecayScale)


def dropout(what: str) -> About:
    """A rate of dropout."""
    return About(f"dropout of {what}", 0.0, 0.95)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Settings of the training of every language model."""

    precision: Annotated[
        Precision,
        About(
            "precision of matrix products in training, see torch_training/precision.py; evaluation always "
            "has 32 bits"
        ),
    ] = "fp32"
    accumulate: Annotated[
        int,
        About(
            "number of batches of batch_size streams, read one after the other, whose mean gradient makes "
            "an update; it needs the memory of one batch",
            1, 10_000, unit="batches",
        ),
    ] = 1  # fmt: skip


Streams = Annotated[int, About("parallel streams", 1, 100_000, scale="log", unit="streams")]
LearningRate = Annotated[float, About("initial learning rate of Adam", 0.0, 10.0, scale="log")]
Clip = Annotated[float, About("largest norm of the gradient; 0: not clipped", 0.0, 1e6, scale="log")]
Patience = Annotated[
    int, About("checks without a better dev loss before the learning rate drops", 1, 10_000, unit="checks")
]
Drop = Annotated[float, About("factor by which the learning rate is then multiplied", 0.0, 1.0)]
MaxEpochs = Annotated[int, About("maximum number of epochs, converged or not", 1, 100_000, unit="epochs")]


@dataclass(frozen=True, kw_only=True)
class PlateauSettings(Settings):
    """Settings of Adam with a learning rate that drops at plateaus of dev, see lm/plateau_adam.py."""

    learning_rate: LearningRate = 0.001
    weight_decay: Annotated[float, About("L2, in the gradient", 0.0, 1.0, scale="log")] = 0.0
    beta1: Annotated[float, About("of Adam", 0.0, 0.9999)] = 0.9
    beta2: Annotated[float, About("of Adam", 0.0, 0.999999)] = 0.999
    epsilon: Annotated[float, About("of Adam", 0.0, 1.0, scale="log")] = 1e-8
    clip: Clip = 1.0
    batch_size: Streams = 100
    bptt: Annotated[int, About("length of a sequence", 1, 100_000, scale="log", unit="steps")] = 200
    check_updates: Annotated[int, About("updates between dev evaluations", 1, 10**9, unit="updates")] = 400
    patience: Patience = 5
    drop: Drop = 0.25
    drops: Annotated[
        int, About("number of drops of the learning rate; one more ends the training", 0, 100)
    ] = 2
    max_epochs: MaxEpochs = 100


@dataclass(frozen=True, kw_only=True)
class PlateauTrainingSettings(TrainingSettings, PlateauSettings):
    """Settings of a training with that optimiser, of recurrent cells that are computed step by step."""

    compile: Annotated[
        bool,
        About(
            "whether torch.compile makes a few kernels of each time step in training, for GPUs; see "
            "lm/scanned_cells.py"
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Settings):
    """Settings of an optimizer of torch whose learning rate follows a schedule, see lm/scheduled.py."""

    relative_rate: Annotated[
        float,
        About(
            "learning rate in multiples of the optimizer's usual one, instead of learning_rate; "
            "0: learning_rate decides",
            0.0, 1e4, scale="log",
        ),
    ] = 0.0  # fmt: skip
    warm_up: Annotated[float, About("share of the updates in which the learning rate rises", 0.0, 1.0)] = 0.05
    decay: Annotated[
        Literal["cosine", "wsd", "constant"],
        About("schedule of the learning rate after warm-up; wsd: constant, then linear at the end"),
    ] = "cosine"
    decay_share: Annotated[
        float, About("share of the updates in which the rate falls, for wsd", 0.0, 1.0)
    ] = 0.2
    final_share: Annotated[float, About("share of the learning rate that remains at the end", 0.0, 1.0)] = 0.0
    beta1: Annotated[float, About("of adamw, lion and soap", 0.0, 0.9999)] = 0.9
    beta2: Annotated[float, About("of adamw, lion and soap", 0.0, 0.999999)] = 0.95
    epsilon: Annotated[float, About("of adamw and soap", 0.0, 1.0, scale="log")] = 1e-8
    l2: Annotated[float, About("L2 penalty of sgd, instead of weight_decay", 0.0, 1.0, scale="log")] = 0.0
    momentum: Annotated[float, About("Nesterov's, of sgd and muon", 0.0, 0.9999)] = 0.95
    ns_steps: Annotated[int, About("steps of Newton and Schulz, of muon", 1, 100)] = 5
    adam_rate: Annotated[
        float,
        About(
            "learning rate of what muon leaves to adamw (embeddings and vectors), divided by its own",
            0.0, 1e3, scale="log",
        ),
    ] = 1.0  # fmt: skip
    frequency: Annotated[
        int, About("updates between new bases, of soap", 1, 10_000, scale="log", unit="updates")
    ] = 10


@dataclass(frozen=True, kw_only=True)
class CacheSettings(Settings):
    """Settings of a neural cache."""

    cache_window: Annotated[int, About("neural cache; 0: none", 0, 100_000, unit="tokens")] = 2000
    cache_theta: Annotated[float, About("neural cache: flatness", 0.0, 1e3, scale="log")] = 0.5
    cache_lambda: Annotated[float, About("share of the neural cache in the probability", 0.0, 0.99)] = 0.1


DynamicUnits = Annotated[
    int, About("number of hidden units in each layer that the rule sparse adapts", 1, 100_000)
]


@dataclass(frozen=True, kw_only=True)
class DynamicSettings(Settings):
    """Settings of dynamic evaluation."""

    dynamic_rule: Annotated[Rule | Literal["none"], About("dynamic evaluation: update rule")] = (
        "rms-rms-prior"
    )
    dynamic_learning_rate: Annotated[float, About("dynamic evaluation: eta", 0.0, 1e3, scale="log")] = 1e-4
    dynamic_decay: Annotated[float, About("dynamic evaluation: lambda", 0.0, 1.0, scale="log")] = 0.005
    dynamic_epsilon: Annotated[float, About("dynamic evaluation: stabilisation", 0.0, 1e3, scale="log")] = (
        1e-4
    )
    dynamic_segment: Annotated[
        int,
        About(
            "dynamic evaluation: the segment length n; 0: 5 for words, 20 for characters, as in the paper",
            0, 10_000, unit="tokens",
        ),
    ] = 0  # fmt: skip
    dynamic_batch: Annotated[
        int, About("number of parallel streams in a batch for MS_g", 1, 10_000, scale="log")
    ] = 20
    dynamic_units: DynamicUnits = 100
    dynamic_statistics: Annotated[
        int, About("number of training tokens on which MS_g is measured; 0: all", low=0, unit="tokens")
    ] = 200_000
    dynamic_decay_scale: Annotated[
        DecayScale,
        About(
            "dynamic evaluation: the unit of lambda, which is the mean RMS gradient of all parameters "
            "(elements, as in the paper) or the mean of the tensors' means (tensors, as in its code)"
        ),
    ] = "elements"
    dynamic_horizon: Annotated[
        int,
        About(
            "dynamic evaluation: number of tokens after which eta has fallen linearly to 0; 0: eta is "
            "constant",
            0, 10**10, unit="tokens",
        ),
    ] = 0  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(DynamicSettings, CacheSettings, TimingSettings):
    """Settings of everything that is measured of a trained model."""

    tuning_tokens: Annotated[
        int,
        About(
            "number of first dev tokens on which cache_theta, cache_lambda, dynamic_learning_rate and "
            "dynamic_decay are tuned, starting from their values; 0: not tuned",
            low=0, unit="tokens",
        ),
    ] = 5000  # fmt: skip
    mc_masks: Annotated[
        int,
        About(
            "number of dropout masks over which probabilities are averaged in a separate evaluation of dev "
            "and test; 0: no such evaluation",
            0, 10**6,
        ),
    ] = 0  # fmt: skip
    mc_steps: Annotated[
        int,
        About(
            "length of a sequence in that evaluation, for masks that hold for a whole sequence",
            1, 10**6, unit="steps",
        ),
    ] = 35  # fmt: skip


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
