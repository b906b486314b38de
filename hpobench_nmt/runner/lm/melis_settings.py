"""Settings of the language models of Melis et al. (2018). Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpobench_nmt.runner.family import Unit
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
