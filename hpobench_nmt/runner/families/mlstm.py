"""Character models of Krause et al. (2016; 2018, section 7.3): a multiplicative LSTM, normalised weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hpobench_nmt.runner.family import Architecture, Family, Job, Outcome
from hpobench_nmt.runner.lm.settings import EVALUATION_SETTINGS, METRICS, TRAINING_SETTINGS, missing
from hpobench_nmt.runner.settings import Setting

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM
    from hpobench_nmt.runner.lm.trainer import TrainingSummary
    from hpobench_nmt.runner.lm.training_state import Checkpoints

_MOST_DROPPED = 0.95

MODEL_SETTINGS = (
    Setting("embedding_size", 400, int, 1, 100_000, description="of symbols"),
    Setting("hidden_size", 2800, int, 1, 100_000, description="units of the recurrent layer"),
    Setting("weight_norm", True, bool, description="whether the recurrent layer's weights are normalised"),
    Setting(
        "dropout_embedding",
        0.5,
        float,
        0.0,
        _MOST_DROPPED,
        description="dropout of embedded symbols, one mask per sequence",
    ),
    Setting(
        "dropout_hidden",
        0.2,
        float,
        0.0,
        _MOST_DROPPED,
        description="dropout of hidden units, one mask per sequence, for the recurrence and the output",
    ),
    Setting("learning_rate", 0.001, float, 0.0, 10.0, scale="log", description="of Adam, to begin with"),
    Setting("weight_decay", 0.0, float, 0.0, 1.0, scale="log", description="L2, in the gradient"),
    Setting("beta1", 0.9, float, 0.0, 0.9999, description="of Adam"),
    Setting("beta2", 0.999, float, 0.0, 0.999999, description="of Adam"),
    Setting("epsilon", 1e-8, float, 0.0, 1.0, scale="log", description="of Adam"),
    Setting("clip", 1.0, float, 0.0, 1e6, scale="log", description="norm of the gradient; 0: not clipped"),
    Setting("batch_size", 100, int, 1, 100_000, scale="log", unit="streams", description="parallel streams"),
    Setting("bptt", 200, int, 1, 100_000, scale="log", unit="steps", description="length of a sequence"),
    Setting("check_updates", 400, int, 1, 10**9, unit="updates", description="between dev evaluations"),
    Setting(
        "patience",
        5,
        int,
        1,
        10_000,
        unit="checks",
        description="without the best dev so far, before the learning rate drops",
    ),
    Setting("drop", 0.25, float, 0.0, 1.0, description="what the learning rate is then multiplied by"),
    Setting("drops", 2, int, 0, 100, description="of the learning rate; the next would end the training"),
    Setting("max_epochs", 100, int, 1, 100_000, unit="epochs", description="the end, converged or not"),
    *TRAINING_SETTINGS,
)

# 500 adapted units (Krause et al. 2018, section 7.3).
_OTHER_DEFAULTS = {"dynamic_units": 500}


def fit(
    settings: Mapping[str, Any],
    corpus: TextCorpus,
    seed: int,
    device: str,
    checkpoints: Checkpoints | None = None,
) -> tuple[MLSTM, TrainingSummary]:
    """A trained model, and the course of its training; the checkpoints say where its state is saved.

    Raises:
        TrainingFailed: it diverged or learned nothing.
    """
    import torch

    from hpobench_nmt.runner.lm.language_model import seeds_of, set_up
    from hpobench_nmt.runner.lm.plateau_adam import train_with_adam

    where = set_up(device)
    of_model, of_data = seeds_of(seed)
    model = build(settings, len(corpus.vocabulary), torch.Generator(where).manual_seed(of_model))
    return model, train_with_adam(model, corpus, settings, of_data, checkpoints)


def build(settings: Mapping[str, Any], vocabulary: int, generator: Any) -> MLSTM:
    """A model with fresh weights, drawn from the torch.Generator, on its device."""
    from hpobench_nmt.runner.lm.mlstm_model import MLSTM

    return MLSTM(
        vocabulary,
        embedding_size=settings["embedding_size"],
        hidden_size=settings["hidden_size"],
        dropout_embedding=settings["dropout_embedding"],
        dropout_hidden=settings["dropout_hidden"],
        normalised=settings["weight_norm"],
        generator=generator,
    )


def parameters(settings: Mapping[str, Any], vocabulary: int) -> int:
    """The number of parameters of a model."""
    embedding, hidden = settings["embedding_size"], settings["hidden_size"]
    scales = 10 * hidden if settings["weight_norm"] else 0  # one for each row of the four matrices
    recurrent = 5 * hidden * (embedding + hidden) + 4 * hidden + scales
    return int(vocabulary * (embedding + hidden + 1) + recurrent)


def _train(job: Job) -> Outcome:
    from hpobench_nmt.runner.lm.measure import train_and_measure

    return train_and_measure(job, fit)


FAMILY = Family(
    name="mlstm",
    corpus="text",
    settings=(
        *MODEL_SETTINGS,
        *(replace(s, default=_OTHER_DEFAULTS.get(s.name, s.default)) for s in EVALUATION_SETTINGS),
    ),
    # Bits per character first: what a spec that names no objective is after.
    metrics=tuple(sorted(METRICS, key=lambda metric: "_bpc" not in metric.name)),
    train=_train,
    missing=missing,
    architecture=Architecture(
        build=lambda settings, vocabulary, unit, generator: build(settings, vocabulary, generator),
        parameters=lambda settings, vocabulary, unit: parameters(settings, vocabulary),
    ),
)
