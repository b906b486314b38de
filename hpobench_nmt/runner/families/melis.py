"""The language models of Melis et al. (2018) under a parameter budget, for words and for characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_family import language_model_family
from hpobench_nmt.runner.lm.settings import (
    Clip,
    Drop,
    EvaluationSettings,
    LearningRate,
    MaxEpochs,
    Patience,
    PlateauTrainingSettings,
    dropout,
)
from hpobench_nmt.runner.settings import About, Settings

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
    cell: Annotated[Literal["lstm", "rhn", "nas"], About("the recurrent cell")] = "lstm"
    depth: Annotated[int, About("number of layers; in an RHN, processing steps per token", 1, 100)] = 1
    budget: Annotated[
        int,
        About(
            "number of parameters, from which the hidden size is computed (within 0.5%)",
            1000, 10**10, scale="log", unit="parameters",
        ),
    ] = 10_000_000  # fmt: skip
    input_embedding_ratio: Annotated[
        float,
        About(
            "embedding size, divided by hidden size; with 1 there is no down-projection",
            0.01, 4.0, scale="log",
        ),
    ] = 1.0  # fmt: skip
    down_projection: Annotated[
        Literal["auto", "yes", "no"],
        About("projection of the output to the embedding size; auto: only if embeddings are shared"),
    ] = "auto"
    embeddings: Annotated[
        Literal["auto", "shared", "separate"],
        About(
            "whether input and output embedding are shared; auto: shared for words, separate for characters"
        ),
    ] = "auto"
    gates: Annotated[
        Literal["capped", "tied", "untied"],
        About("input gate of the LSTM: at most 1 - f, equal to 1 - f, or independent"),
    ] = "capped"
    dropout_input: Annotated[float, dropout("embedded words, one mask per time step")] = 0.5
    dropout_layer: Annotated[
        float, dropout("connections between layers, one mask per time step; not in an RHN")
    ] = 0.0
    dropout_state: Annotated[float, dropout("the recurrent state, one mask per sequence")] = 0.25
    dropout_output: Annotated[
        float, dropout("the combined output and its projection, one mask per time step")
    ] = 0.4
    state_dropout: Annotated[
        Literal["variational", "recurrent", "recurrent-lamb"],
        About(
            "dropout_state acts on the state that is read, or on the update of the memory, scaled as usual "
            "or as in the code of the paper (lamb)"
        ),
    ] = "variational"
    zero_state: Annotated[float, About("share of sequences that start from zeros", 0.0, 1.0)] = 0.01


@dataclass(frozen=True, kw_only=True)
class MelisSettings(EvaluationSettings, PlateauTrainingSettings, _Melis):
    """Settings of one configuration."""

    learning_rate: LearningRate = 0.003
    weight_decay: Annotated[float, About("L2, in the gradient of the mean loss", 0.0, 1.0, scale="log")] = (
        3e-6
    )
    beta1: Annotated[float, About("of Adam", 0.0, 0.9999)] = 0.0
    beta2: Annotated[float, About(_by_unit("of Adam", "beta2"), 0.0, 0.999999)] = 0.0
    epsilon: Annotated[float, About(_by_unit("of Adam", "epsilon"), 0.0, 1.0, scale="log")] = 0.0
    clip: Clip = 0.3
    batch_size: Annotated[
        int, About(_by_unit("parallel streams", "batch_size"), 0, 100_000, scale="log", unit="streams")
    ] = 0
    bptt: Annotated[
        int, About(_by_unit("length of a sequence", "bptt"), 0, 100_000, scale="log", unit="steps")
    ] = 0
    check_updates: Annotated[
        int,
        About(
            _by_unit("updates between evaluations of dev (checks)", "check_updates"),
            0, 10**9, unit="updates",
        ),
    ] = 0  # fmt: skip
    patience: Patience = 30
    drop: Drop = 0.1
    max_epochs: MaxEpochs = 500


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
