"""AWD-LSTM and AWD-QRNN language models (Merity et al. 2018), with neural cache and dynamic evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.family import Architecture, Family, Job, Outcome
from hpobench_nmt.runner.lm.settings import EVALUATION_SETTINGS, METRICS, TRAINING_SETTINGS, missing
from hpobench_nmt.runner.settings import Setting

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
    from hpobench_nmt.runner.lm.trainer import TrainingSummary
    from hpobench_nmt.runner.lm.training_state import Checkpoints

_MOST_DROPPED = 0.95


def _dropout(name: str, default: float, what: str) -> Setting:
    return Setting(name, default, float, 0.0, _MOST_DROPPED, description=f"dropout of {what}")


MODEL_SETTINGS = (
    Setting(
        "cell", "lstm", str, choices=("lstm", "qrnn"), description="of the recurrent layers, see lm/qrnn.py"
    ),
    Setting("layers", 3, int, 1, 20, description="recurrent layers"),
    Setting("embedding_size", 400, int, 1, 100_000, description="of words, and of the last layer (tied)"),
    Setting("hidden_size", 1150, int, 1, 100_000, description="of every layer but the last"),
    _dropout("dropout_input", 0.4, "embedded words, one mask per sequence"),
    _dropout("dropout_hidden", 0.25, "what goes from layer to layer, one mask per sequence"),
    _dropout("dropout_output", 0.4, "the last layer's output, one mask per sequence"),
    _dropout("dropout_embedding", 0.1, "whole words"),
    _dropout(
        "weight_drop", 0.5, "single hidden-to-hidden weights (QRNN: all weights), one mask per sequence"
    ),
    _dropout("zoneout", 0.0, "updates of the memory of a QRNN, one mask per time step"),
    Setting("alpha", 2.0, float, 0.0, 1e3, description="activation regularisation (AR)"),
    Setting("beta", 1.0, float, 0.0, 1e3, description="temporal activation regularisation (TAR)"),
    Setting("learning_rate", 30.0, float, 0.0, 1e4, scale="log", description="of a sequence of bptt steps"),
    Setting("weight_decay", 1.2e-6, float, 0.0, 1.0, scale="log", description="L2 penalty"),
    Setting("batch_size", 20, int, 1, 100_000, scale="log", unit="streams", description="parallel streams"),
    Setting("bptt", 70, int, 1, 100_000, scale="log", unit="steps", description="mean length of a sequence"),
    Setting("clip", 0.25, float, 0.0, 1e6, scale="log", description="norm of the gradient; 0: not clipped"),
    Setting(
        "averaging_window",
        5,
        int,
        0,
        1000,
        unit="checks",
        description="averaging starts when dev is worse than the best of all but the last n checks",
    ),
    Setting("patience", 5, int, 1, 1000, unit="checks", description="without improvement, once averaging"),
    Setting(
        "min_improvement", 0.0, float, 0.0, 10.0, unit="nats", description="of the dev loss, for patience"
    ),
    Setting(
        "fine_tune",
        False,
        bool,
        description="after convergence, train again from the averaged weights, averaging from the start",
    ),
    Setting("max_epochs", 500, int, 1, 100_000, unit="epochs", description="the end, converged or not"),
    Setting(
        "checks_per_epoch", 1, int, 1, 1000, description="dev evaluations per pass over the training data"
    ),
    Setting(
        "check_updates",
        0,
        int,
        0,
        10**9,
        unit="updates",
        description="between dev evaluations, in place of checks_per_epoch; 0: that decides",
    ),
    *TRAINING_SETTINGS,
)


def fit(
    settings: Mapping[str, Any],
    corpus: TextCorpus,
    seed: int,
    device: str,
    checkpoints: Checkpoints | None = None,
) -> tuple[AWDLSTM, TrainingSummary]:
    """A trained model, and the course of its training; the checkpoints say where its state is saved.

    Raises:
        TrainingFailed: it diverged or learned nothing.
    """
    import torch

    from hpobench_nmt.runner.lm.language_model import seeds_of, set_up
    from hpobench_nmt.runner.lm.ntasgd import NTASGD
    from hpobench_nmt.runner.lm.trainer import TrainingSchedule, train

    where = set_up(device)
    of_model, of_data = seeds_of(seed)
    model = build(settings, len(corpus.vocabulary), torch.Generator(where).manual_seed(of_model))
    optimiser = NTASGD(
        list(model.parameters()),
        learning_rate=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        window=settings["averaging_window"],
        patience=settings["patience"],
        min_improvement=settings["min_improvement"],
        fine_tune=settings["fine_tune"],
    )
    schedule = TrainingSchedule(
        batch_size=settings["batch_size"],
        bptt=settings["bptt"],
        vary=True,
        clip=settings["clip"],
        max_epochs=settings["max_epochs"],
        checks_per_epoch=settings["checks_per_epoch"],
        check_updates=settings["check_updates"],
        accumulate=settings["accumulate"],
        precision=settings["precision"],
    )
    lengths = torch.Generator().manual_seed(of_data)
    return model, train(model, corpus.train, corpus.dev, optimiser, schedule, lengths, checkpoints)


def build(settings: Mapping[str, Any], vocabulary: int, generator: Any) -> AWDLSTM:
    """A model with fresh weights, drawn from the torch.Generator, on its device."""
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM, Regularisation

    return AWDLSTM(
        vocabulary,
        layers=settings["layers"],
        embedding_size=settings["embedding_size"],
        hidden_size=settings["hidden_size"],
        regularisation=Regularisation(
            input=settings["dropout_input"],
            hidden=settings["dropout_hidden"],
            output=settings["dropout_output"],
            embedding=settings["dropout_embedding"],
            weight=settings["weight_drop"],
            zoneout=settings["zoneout"],
            alpha=settings["alpha"],
            beta=settings["beta"],
        ),
        generator=generator,
        cell=settings["cell"],
    )


def parameters(settings: Mapping[str, Any], vocabulary: int) -> int:
    """The number of parameters of a model; the embedding, tied to the output layer, counts once."""
    embedding, hidden, layers = (settings[name] for name in ("embedding_size", "hidden_size", "layers"))
    units = [*[hidden] * (layers - 1), embedding]
    sizes = list(zip([embedding, *units], units, strict=False))
    if settings["cell"] == "qrnn":
        recurrent = sum(3 * n * (m * (1 if layer else 2) + 1) for layer, (m, n) in enumerate(sizes))
    else:
        recurrent = sum(4 * n * (m + n + 2) for m, n in sizes)
    return int(vocabulary * (embedding + 1) + recurrent)


def check(settings: Mapping[str, Any]) -> None:
    """Refuse what no corpus can make sense of."""
    if settings["zoneout"] and settings["cell"] != "qrnn":
        raise InputError("zoneout is of the QRNN: set cell to 'qrnn', or zoneout to 0.")


ARCHITECTURE = Architecture(
    build=lambda settings, vocabulary, unit, generator: build(settings, vocabulary, generator),
    parameters=lambda settings, vocabulary, unit: parameters(settings, vocabulary),
)


def _train(job: Job) -> Outcome:
    from hpobench_nmt.runner.lm.measure import train_and_measure

    return train_and_measure(job, fit)


FAMILY = Family(
    name="awd-lstm",
    corpus="text",
    settings=(*MODEL_SETTINGS, *EVALUATION_SETTINGS),
    metrics=METRICS,
    train=_train,
    check=check,
    missing=missing,
    architecture=ARCHITECTURE,
)
