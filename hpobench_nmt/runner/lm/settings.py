"""Settings and metrics that the families of language models share. Needs no torch."""

from __future__ import annotations

import importlib.util

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.settings import Setting

RULES = ("sgd", "sgd-prior", "rms-prior", "rms-rms-prior", "sparse")
"""Update rules of dynamic evaluation, see lm/dynamic.py."""

PRECISIONS = ("fp32", "bf16", "fp16")
"""Of matrix products in training, see lm/precision.py."""

DECAY_SCALES = ("elements", "tensors")
"""The averages by which eq. 8 of Krause et al. (2018) scales the decay, see lm/dynamic.py."""

TRAINING_SETTINGS = (
    Setting(
        "precision",
        "fp32",
        str,
        choices=PRECISIONS,
        description="of matrix products in training, see lm/precision.py; evaluation always has 32 bits",
    ),
    Setting(
        "accumulate",
        1,
        int,
        1,
        10_000,
        unit="batches",
        description="of batch_size streams, read one after the other, whose mean gradient makes an update: "
        "the memory of one batch, the effective batch of all",
    ),
)

DYNAMIC_SETTINGS = (
    Setting(
        "dynamic_learning_rate", 1e-4, float, 0.0, 1e3, scale="log", description="dynamic evaluation: eta"
    ),
    Setting("dynamic_decay", 0.005, float, 0.0, 1.0, scale="log", description="dynamic evaluation: lambda"),
    Setting(
        "dynamic_epsilon", 1e-4, float, 0.0, 1e3, scale="log", description="dynamic evaluation: stabilisation"
    ),
    Setting(
        "dynamic_segment",
        0,
        int,
        0,
        10_000,
        unit="tokens",
        description="dynamic evaluation: n; 0: 5 for words, 20 for characters, as in the paper",
    ),
    Setting(
        "dynamic_batch", 20, int, 1, 10_000, scale="log", description="parallel streams of a batch of MS_g"
    ),
    Setting(
        "dynamic_units",
        100,
        int,
        1,
        100_000,
        description="hidden units of each layer that rule sparse adapts",
    ),
    Setting(
        "dynamic_statistics",
        200_000,
        int,
        0,
        description="training tokens that MS_g is measured on; 0: all",
        unit="tokens",
    ),
    Setting(
        "dynamic_decay_scale",
        "elements",
        str,
        choices=DECAY_SCALES,
        description="dynamic evaluation: lambda is in units of the mean RMS gradient of all parameters "
        "(elements, as in the paper) or of the mean of the tensors' means (tensors, as in its code)",
    ),
    Setting(
        "dynamic_horizon",
        0,
        int,
        0,
        10**10,
        unit="tokens",
        description="dynamic evaluation: tokens after which eta has fallen linearly to 0; 0: it is constant",
    ),
)

MC_SETTINGS = (
    Setting(
        "mc_masks",
        0,
        int,
        0,
        10**6,
        description="dropout masks over which probabilities are averaged at evaluation, each a reading of "
        "dev and test; 0: no such evaluation",
    ),
    Setting(
        "mc_steps",
        35,
        int,
        1,
        10**6,
        unit="steps",
        description="of a sequence: how long masks of whole sequences hold in that evaluation",
    ),
)

EVALUATION_SETTINGS = (
    Setting("cache_window", 2000, int, 0, 100_000, unit="tokens", description="neural cache; 0: none"),
    Setting("cache_theta", 0.5, float, 0.0, 1e3, scale="log", description="neural cache: flatness"),
    Setting("cache_lambda", 0.1, float, 0.0, 0.99, description="neural cache: its share of the probability"),
    Setting(
        "dynamic_rule",
        "rms-rms-prior",
        str,
        choices=(*RULES, "none"),
        description="dynamic evaluation: update rule",
    ),
    *DYNAMIC_SETTINGS,
    Setting(
        "tuning_tokens",
        5000,
        int,
        0,
        unit="tokens",
        description="first dev tokens on which cache_theta, cache_lambda, dynamic_learning_rate and "
        "dynamic_decay are tuned, starting from their values; 0: they are used as they are",
    ),
    *MC_SETTINGS,
)

CLOCK = "processor time on a CPU, wall clock on a CUDA device"

_EVALUATIONS = (
    ("", "static"),
    ("_cache", "with a neural cache"),
    ("_dynamic", "with dynamic evaluation"),
    ("_mc", "averaged over dropout masks"),
)

COUNT_METRICS = (
    Metric("num_param", "min", "parameters", description="parameters; a tied one counts once"),
    Metric("memory", "min", "MB", description="most memory that the process held (resident)"),
    Metric("gpu_memory", "min", "MB", description="most memory that tensors held on the CUDA device"),
)

TRAINING_METRICS = (
    Metric("train_time", "min", "s", description=f"training without the dev evaluations: {CLOCK}"),
    Metric("num_updates", "min", "updates", description="updates until convergence or max_epochs"),
)

METRICS = (
    *(
        Metric(f"{part}_ppl{suffix}", "min", description=f"{part} perplexity a token, {how}")
        for suffix, how in _EVALUATIONS
        for part in ("dev", "test")
    ),
    *(
        Metric(f"{part}_bpc{suffix}", "min", "bits/character", description=f"{part} cross-entropy, {how}")
        for suffix, how in _EVALUATIONS
        for part in ("dev", "test")
    ),
    Metric("eval_time", "min", "s", description=f"static evaluation of dev: {CLOCK}"),
    Metric("cache_time", "min", "s", description=f"evaluation of dev with a neural cache: {CLOCK}"),
    Metric("dynamic_time", "min", "s", description=f"dynamic evaluation of dev: {CLOCK}"),
    Metric("mc_time", "min", "s", description=f"evaluation of dev averaged over dropout masks: {CLOCK}"),
    *TRAINING_METRICS,
    *COUNT_METRICS,
)


def missing() -> str:
    """The command that installs what the language models need, or "" where it is there."""
    return "" if importlib.util.find_spec("torch") else "pip install 'hpobench-nmt[train]'"
