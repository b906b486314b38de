"""The language models of Melis et al. (2018) under a parameter budget, for words and for characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.family import Architecture, Family, Job, Outcome, TrainingFailed
from hpobench_nmt.runner.lm.settings import EVALUATION_SETTINGS, METRICS, TRAINING_SETTINGS, missing
from hpobench_nmt.runner.settings import Setting

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.melis_model import MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import ModelShape
    from hpobench_nmt.runner.lm.trainer import TrainingSummary
    from hpobench_nmt.runner.lm.training_state import Checkpoints

_MOST_DROPPED = 0.95

# What the paper sets differently for words and for characters; 0 or "auto" in a spec asks for these.
AUTOMATIC: Mapping[str, Mapping[str, Any]] = {
    "word": {
        "embeddings": "shared",
        "batch_size": 64,
        "bptt": 35,
        "beta2": 0.999,
        "epsilon": 1e-9,
        "check_updates": 100,
    },
    "character": {
        "embeddings": "separate",
        "batch_size": 128,
        "bptt": 50,
        "beta2": 0.99,
        "epsilon": 1e-5,
        "check_updates": 400,
    },
}


def _dropout(name: str, default: float, what: str) -> Setting:
    return Setting(name, default, float, 0.0, _MOST_DROPPED, description=f"dropout of {what}")


def _by_unit(what: str, name: str) -> str:
    return (
        f"{what}; 0: {AUTOMATIC['word'][name]:g} for words, {AUTOMATIC['character'][name]:g} for characters"
    )


MODEL_SETTINGS = (
    Setting("cell", "lstm", str, choices=("lstm", "rhn", "nas"), description="the recurrent cell"),
    Setting("depth", 1, int, 1, 100, description="layers; of an RHN: processing steps per token"),
    Setting(
        "budget",
        10_000_000,
        int,
        1000,
        10**10,
        scale="log",
        unit="parameters",
        description="from which the hidden size is derived, met within 0.5%",
    ),
    Setting(
        "input_embedding_ratio",
        1.0,
        float,
        0.01,
        4.0,
        scale="log",
        description="embedding size over hidden size; at 1 there is no down-projection",
    ),
    Setting(
        "down_projection",
        "auto",
        str,
        choices=("auto", "yes", "no"),
        description="of the output to the embedding size; auto: where embeddings are shared",
    ),
    Setting(
        "embeddings",
        "auto",
        str,
        choices=("auto", "shared", "separate"),
        description="input and output embedding; auto: shared for words, separate for characters",
    ),
    Setting(
        "gates",
        "capped",
        str,
        choices=("capped", "tied", "untied"),
        description="input gate of the LSTM: at most 1 - f, equal to it, or its own",
    ),
    _dropout("dropout_input", 0.5, "embedded words, one mask per time step"),
    _dropout("dropout_layer", 0.0, "what goes from layer to layer, one mask per time step; not of an RHN"),
    _dropout("dropout_state", 0.25, "the recurrent state, one mask per sequence"),
    _dropout("dropout_output", 0.4, "the combined output and its projection, one mask per time step"),
    Setting(
        "state_dropout",
        "variational",
        str,
        choices=("variational", "recurrent", "recurrent-lamb"),
        description="dropout_state acts on the state that is read, or on the update of the memory, scaled as "
        "usual or as in the code of the paper (lamb)",
    ),
    Setting("learning_rate", 0.003, float, 0.0, 10.0, scale="log", description="of Adam, to begin with"),
    Setting(
        "weight_decay", 3e-6, float, 0.0, 1.0, scale="log", description="L2, in the gradient of the mean loss"
    ),
    Setting("beta1", 0.0, float, 0.0, 0.9999, description="of Adam"),
    Setting("beta2", 0.0, float, 0.0, 0.999999, description=_by_unit("of Adam", "beta2")),
    Setting("epsilon", 0.0, float, 0.0, 1.0, scale="log", description=_by_unit("of Adam", "epsilon")),
    Setting("clip", 0.3, float, 0.0, 1e6, scale="log", description="norm of the gradient; 0: not clipped"),
    Setting(
        "batch_size",
        0,
        int,
        0,
        100_000,
        scale="log",
        unit="streams",
        description=_by_unit("parallel streams", "batch_size"),
    ),
    Setting(
        "bptt",
        0,
        int,
        0,
        100_000,
        scale="log",
        unit="steps",
        description=_by_unit("length of a sequence", "bptt"),
    ),
    Setting("zero_state", 0.01, float, 0.0, 1.0, description="share of sequences that start from zeros"),
    Setting(
        "check_updates",
        0,
        int,
        0,
        10**9,
        unit="updates",
        description=_by_unit("between evaluations of dev (checks)", "check_updates"),
    ),
    Setting(
        "patience",
        30,
        int,
        1,
        10_000,
        unit="checks",
        description="without the best dev so far, before the learning rate drops",
    ),
    Setting("drop", 0.1, float, 0.0, 1.0, description="what the learning rate is then multiplied by"),
    Setting("drops", 2, int, 0, 100, description="of the learning rate; the next would end the training"),
    Setting("max_epochs", 500, int, 1, 100_000, unit="epochs", description="the end, converged or not"),
    *TRAINING_SETTINGS,
)


def resolved(settings: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """The settings with what is automatic filled in for a corpus of words or of characters."""
    chosen = dict(settings)
    for name, value in AUTOMATIC[unit].items():
        if chosen[name] in (0, "auto"):
            chosen[name] = value
    if chosen["down_projection"] == "auto":
        chosen["down_projection"] = "yes" if chosen["embeddings"] == "shared" else "no"
    return chosen


def fit(
    settings: Mapping[str, Any],
    corpus: TextCorpus,
    seed: int,
    device: str,
    checkpoints: Checkpoints | None = None,
) -> tuple[MelisModel, TrainingSummary]:
    """A trained model, and the course of its training; the checkpoints say where its state is saved.

    Raises:
        TrainingFailed: no sizes meet the budget; it diverged or learned nothing.
    """
    import torch

    from hpobench_nmt.runner.lm.language_model import seeds_of, set_up
    from hpobench_nmt.runner.lm.plateau_adam import train_with_adam

    where = set_up(device)
    chosen = resolved(settings, corpus.unit)
    of_model, of_data = seeds_of(seed)
    try:
        model = build(chosen, len(corpus.vocabulary), torch.Generator(where).manual_seed(of_model))
    except InputError as error:
        raise TrainingFailed(str(error)) from error
    return model, train_with_adam(model, corpus, chosen, of_data, checkpoints)


def build(settings: Mapping[str, Any], vocabulary: int, generator: Any) -> MelisModel:
    """A model with fresh weights, drawn from the torch.Generator, on its device.

    Args:
        settings: with what is automatic filled in.
        vocabulary: number of words.
        generator: of its weights and masks.

    Raises:
        InputError: no sizes meet the budget.
    """
    from hpobench_nmt.runner.lm.melis_model import Dropout, MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import solve_sizes

    shape = _shape(settings, vocabulary)
    dropout = Dropout(
        input=settings["dropout_input"],
        layer=settings["dropout_layer"],
        state=settings["dropout_state"],
        output=settings["dropout_output"],
        recurrent=settings["state_dropout"] != "variational",
        lamb=settings["state_dropout"] == "recurrent-lamb",
    )
    return MelisModel(
        shape,
        *solve_sizes(shape, settings["budget"], settings["input_embedding_ratio"]),
        dropout=dropout,
        zero_state=settings["zero_state"],
        generator=generator,
    )


def parameters(settings: Mapping[str, Any], vocabulary: int) -> int:
    """The number of parameters of a model; the arguments and errors are those of `build`."""
    from hpobench_nmt.runner.lm.parameter_budget import parameters_of_shape, solve_sizes

    shape = _shape(settings, vocabulary)
    sizes = solve_sizes(shape, settings["budget"], settings["input_embedding_ratio"])
    return parameters_of_shape(shape, *sizes)


def _shape(settings: Mapping[str, Any], vocabulary: int) -> ModelShape:
    """The model's architecture, from settings with what is automatic filled in."""
    from hpobench_nmt.runner.lm.parameter_budget import ModelShape

    return ModelShape(
        vocabulary=vocabulary,
        cell=settings["cell"],
        depth=settings["depth"],
        gates=settings["gates"],
        shared=settings["embeddings"] == "shared",
        projection=settings["down_projection"] == "yes" and settings["input_embedding_ratio"] != 1,
    )


_OF_SIZE = (
    "cell",
    "depth",
    "gates",
    "embeddings",
    "down_projection",
    "budget",
    "input_embedding_ratio",
)


def _corpus_check(settings: Mapping[str, Any], corpus: TextCorpus) -> None:
    """Refuse a parameter budget that no sizes meet with the corpus's vocabulary."""
    # Read by name: what is not read need not be tried in every combination.
    read = {name: settings[name] for name in _OF_SIZE}
    chosen = resolved(dict.fromkeys(AUTOMATIC[corpus.unit], 0) | read, corpus.unit)
    parameters(chosen, len(corpus.vocabulary))


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse what no corpus can make sense of."""
    cell, ratio = settings["cell"], settings["input_embedding_ratio"]
    if settings["embeddings"] == "shared" and settings["down_projection"] == "no" and ratio != 1:
        raise InputError(
            f"input_embedding_ratio {ratio:g}: shared embeddings without a down-projection have the hidden "
            "size, so it can only be 1. Set down_projection to 'auto', or embeddings to 'separate'."
        )
    if cell != "lstm" and settings["gates"] != "capped":
        raise InputError(f"gates {settings['gates']!r} are of the LSTM cell; cell {cell!r} has its own.")
    if cell == "rhn" and settings["dropout_layer"]:
        raise InputError("dropout_layer: an RHN has no dropout between layers; set it to 0.")


def _train(job: Job) -> Outcome:
    from hpobench_nmt.runner.lm.measure import train_and_measure

    return train_and_measure(job, fit)


FAMILY = Family(
    name="melis",
    corpus="text",
    settings=(*MODEL_SETTINGS, *EVALUATION_SETTINGS),
    metrics=METRICS,
    train=_train,
    check=_check,
    corpus_check=_corpus_check,
    missing=missing,
    architecture=Architecture(
        build=lambda settings, vocabulary, unit, generator: build(
            resolved(settings, unit), vocabulary, generator
        ),
        parameters=lambda settings, vocabulary, unit: parameters(resolved(settings, unit), vocabulary),
    ),
)
