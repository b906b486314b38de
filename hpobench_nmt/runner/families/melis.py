"""The language models of Melis et al. (2018) under a parameter budget, for words and for characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_family import language_model_family
from hpobench_nmt.runner.lm.melis_settings import AUTOMATIC, MelisSettings, resolved

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.melis_model import MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import ModelShape
    from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam
    from hpobench_nmt.runner.lm.schedule import TrainingSchedule


def build(settings: MelisSettings, vocabulary: int, unit: Unit, generator: Any) -> MelisModel:
    """A model on the torch.Generator's device, with fresh weights drawn from it.

    Raises InputError if no sizes meet the budget.
    """
    from hpobench_nmt.runner.lm.melis_model import MelisModel
    from hpobench_nmt.runner.lm.parameter_budget import solve_sizes

    shape = _shape(settings, vocabulary, unit)
    sizes = solve_sizes(shape, settings.budget, settings.input_embedding_ratio)
    return MelisModel(shape, sizes, settings, generator)


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
