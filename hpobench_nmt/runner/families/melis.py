"""The language models of Melis et al. (2018) under a parameter budget, for words and for characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_family import language_model_family
from hpobench_nmt.runner.lm.settings import (
    EvaluationSettings,
    PlateauTrainingSettings,
    checks_to_drop,
    clip_norm,
    dropout,
    first_rate,
    most_epochs,
    rate_factor,
)
from hpobench_nmt.runner.settings import Settings, setting

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.melis_model import MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import ModelShape
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule

# Settings for which the paper has different values for words and for characters. In a spec, 0 or "auto"
# selects them. The paper does not have subwords, which get the values of words.
_AUTOMATIC = ("embeddings", "batch_size", "bptt", "beta2", "epsilon", "check_updates")
_BY_UNIT = {"word": ("shared", 64, 35, 0.999, 1e-9, 100), "character": ("separate", 128, 50, 0.99, 1e-5, 400)}
AUTOMATIC: Mapping[str, Mapping[str, Any]] = {
    unit: dict(zip(_AUTOMATIC, values, strict=True))
    for unit, values in (*_BY_UNIT.items(), ("subword", _BY_UNIT["word"]))
}


def _by_unit(what: str, name: str) -> str:
    words, characters = (AUTOMATIC[unit][name] for unit in ("word", "character"))
    return f"{what}; 0: {words:g} for words, {characters:g} for characters"


@dataclass(frozen=True, kw_only=True)
class _Melis(Settings):
    cell: Literal["lstm", "rhn", "nas"] = setting("lstm", "the recurrent cell")
    depth: int = setting(1, "number of layers; in an RHN, processing steps per token", 1, 100)
    budget: int = setting(
        10_000_000, "number of parameters, from which the hidden size is computed (within 0.5%)",
        1000, 10**10, scale="log", unit="parameters",
    )  # fmt: skip
    input_embedding_ratio: float = setting(
        1.0, "embedding size, divided by hidden size; with 1 there is no down-projection",
        0.01, 4.0, scale="log",
    )  # fmt: skip
    down_projection: Literal["auto", "yes", "no"] = setting(
        "auto", "projection of the output to the embedding size; auto: only if embeddings are shared"
    )
    embeddings: Literal["auto", "shared", "separate"] = setting(
        "auto", "whether input and output embedding are shared; auto: shared for words, separate for "
        "characters",
    )  # fmt: skip
    gates: Literal["capped", "tied", "untied"] = setting(
        "capped", "input gate of the LSTM: at most 1 - f, equal to 1 - f, or independent"
    )
    dropout_input: float = dropout(0.5, "embedded words, one mask per time step")
    dropout_layer: float = dropout(0.0, "connections between layers, one mask per time step; not in an RHN")
    dropout_state: float = dropout(0.25, "the recurrent state, one mask per sequence")
    dropout_output: float = dropout(0.4, "the combined output and its projection, one mask per time step")
    state_dropout: Literal["variational", "recurrent", "recurrent-lamb"] = setting(
        "variational", "dropout_state acts on the state that is read, or on the update of the memory, "
        "scaled as usual or as in the code of the paper (lamb)",
    )  # fmt: skip
    zero_state: float = setting(0.01, "share of sequences that start from zeros", 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class MelisSettings(EvaluationSettings, PlateauTrainingSettings, _Melis):
    """Settings of one configuration."""

    learning_rate: float = first_rate(0.003)
    weight_decay: float = setting(3e-6, "L2, in the gradient of the mean loss", 0.0, 1.0, scale="log")
    beta1: float = setting(0.0, "of Adam", 0.0, 0.9999)
    beta2: float = setting(0.0, _by_unit("of Adam", "beta2"), 0.0, 0.999999)
    epsilon: float = setting(0.0, _by_unit("of Adam", "epsilon"), 0.0, 1.0, scale="log")
    clip: float = clip_norm(0.3)
    batch_size: int = setting(
        0, _by_unit("parallel streams", "batch_size"), 0, 100_000, scale="log", unit="streams"
    )
    bptt: int = setting(0, _by_unit("length of a sequence", "bptt"), 0, 100_000, scale="log", unit="steps")
    check_updates: int = setting(
        0, _by_unit("updates between evaluations of dev (checks)", "check_updates"), 0, 10**9, unit="updates"
    )
    patience: int = checks_to_drop(30)
    drop: float = rate_factor(0.1)
    max_epochs: int = most_epochs(500)


def resolved(settings: MelisSettings, unit: Unit) -> MelisSettings:
    """The settings, with the values for this unit filled in where they are automatic."""
    of_unit = AUTOMATIC[unit].items()
    return replace(settings, **{k: v for k, v in of_unit if getattr(settings, k) in (0, "auto")})


def build(settings: MelisSettings, vocabulary: int, unit: Unit, generator: Any) -> MelisModel:
    """A model on the torch.Generator's device, with fresh weights drawn from it.

    Raises InputError if no sizes meet the budget.
    """
    from hpobench_nmt.runner.lm.melis_model import Dropout, MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import solve_sizes

    shape = _shape(settings, vocabulary, unit)
    rates = Dropout(
        input=settings.dropout_input,
        layer=settings.dropout_layer,
        state=settings.dropout_state,
        output=settings.dropout_output,
        recurrent=settings.state_dropout != "variational",
        lamb=settings.state_dropout == "recurrent-lamb",
        zero_state=settings.zero_state,
    )
    sizes = solve_sizes(shape, settings.budget, settings.input_embedding_ratio)
    return MelisModel(shape, *sizes, rates, generator)


def parameters(settings: MelisSettings, vocabulary: int, unit: Unit) -> int:
    """The number of parameters of a model. Raises the errors of `build`."""
    from hpobench_nmt.runner.lm.parameter_budget import parameters_of_shape, solve_sizes

    shape = _shape(settings, vocabulary, unit)
    return parameters_of_shape(shape, *solve_sizes(shape, settings.budget, settings.input_embedding_ratio))


def _shape(settings: MelisSettings, vocabulary: int, unit: Unit) -> ModelShape:
    """The architecture. It reads few settings, because a spec's check tries all combinations of them."""
    from hpobench_nmt.runner.lm.parameter_budget import ModelShape

    embeddings = settings.embeddings
    shared = embeddings == "shared" or (embeddings == "auto" and AUTOMATIC[unit]["embeddings"] == "shared")
    projection = settings.down_projection
    return ModelShape(
        vocabulary=vocabulary,
        cell=settings.cell,
        depth=settings.depth,
        gates=settings.gates,
        shared=shared,
        projection=(projection == "yes" or (projection == "auto" and shared))
        and settings.input_embedding_ratio != 1,
    )


def course(settings: MelisSettings, unit: Unit, model: Any) -> tuple[PlateauAdam, TrainingSchedule]:
    """The optimiser and the schedule of a training."""
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import schedule_of

    chosen = resolved(settings, unit)
    return PlateauAdam(model.parameters(), chosen), schedule_of(chosen, vary=False)


def _corpus_check(settings: MelisSettings, corpus: TextCorpus) -> None:
    """Refuse a parameter budget that no sizes meet with the corpus's vocabulary."""
    parameters(settings, len(corpus.vocabulary), corpus.unit)


def _check(settings: MelisSettings) -> None:
    """Refuse settings that are wrong for every corpus."""
    cell, ratio = settings.cell, settings.input_embedding_ratio
    if settings.embeddings == "shared" and settings.down_projection == "no" and ratio != 1:
        raise InputError(
            f"input_embedding_ratio {ratio:g}: shared embeddings without a down-projection have the hidden "
            "size, so it can only be 1. Set down_projection to 'auto', or embeddings to 'separate'."
        )
    if cell != "lstm" and settings.gates != "capped":
        raise InputError(f"gates {settings.gates!r} are for the LSTM cell; cell {cell!r} has its own gates.")
    if cell == "rhn" and settings.dropout_layer:
        raise InputError("dropout_layer: an RHN does not have dropout between layers; set it to 0.")


FAMILY = language_model_family(
    "melis",
    "LSTM, RHN and NAS cells under a parameter budget",
    "Melis et al. 2018",
    MelisSettings,
    Architecture(build, parameters, course),
    check=_check,
    corpus_check=_corpus_check,
)
