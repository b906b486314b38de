"""The files of a kept language model (disk/kept_model.py has the folder, and model.json).

weights.pt        every parameter by name, 32-bit floats: a dict that torch.save wrote
vocabulary.json   "unit", "word", "character" or "subword", and "tokens", the token of each number
tokens.npz        numbers of tokens, one stream each: `dev`, `test`, and the part of `train` for statistics
losses.npz        nats of every token except the first, float64, shape (N - 1,): `dev_static`, `test_static`,
                  and the same for `cache`, `dynamic` and `mc` (averaged dropout) if the training measured
                  them; not finite if the evaluation on test diverged
statistics.pt     sqrt(MS_g) of dynamic evaluation, a list of tensors; only if the training's rule needs it
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.validation import Strict, load_json
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.disk.archives import (
    load_arrays,
    load_tensor_list,
    put_weights,
    read_archive,
    read_weights,
    save_tensors,
)
from hpobench_nmt.runner.disk.kept_model import KeptModel, kept_file
from hpobench_nmt.runner.family import Architecture, Unit
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.settings import DynamicSettings
from hpobench_nmt.runner.torch_training.repeatable import set_up

WEIGHTS, VOCABULARY, TOKENS = "weights.pt", "vocabulary.json", "tokens.npz"
LOSSES, STATISTICS = "losses.npz", "statistics.pt"


class _Vocabulary(Strict, frozen=True):
    """The content of vocabulary.json."""

    unit: Unit
    tokens: list[str]

    def __post_init__(self) -> None:
        """Refuse a vocabulary that is empty or has a token twice."""
        if not self.tokens or len(set(self.tokens)) < len(self.tokens):
            raise InputError("tokens must hold each token once, and one at least.")


@dataclass(frozen=True, eq=False)
class KeptLanguageModel:
    """A kept language model on a device, ready for use.

    Its corpus holds only the part of train that gradient statistics are measured on. Its settings are those
    before tuning. The statistics are sqrt(MS_g) of dynamic evaluation, if the training's rule needs them.
    """

    about: KeptModel
    settings: DynamicSettings
    model: LanguageModel
    corpus: TextCorpus
    statistics: list[Tensor] | None


def save_language_model(
    folder: Path,
    *,
    model: LanguageModel,
    corpus: TextCorpus,
    settings: DynamicSettings,
    losses: Mapping[str, tuple[Floats, Floats]],
    statistics: Sequence[Tensor] | None,
) -> None:
    """Write the files above into an empty folder.

    The losses have nats per token of dev and test for each evaluation: "static", "mc", "cache" or "dynamic".
    The statistics are sqrt(MS_g), if the rule of the settings needs them.
    """
    save_tensors(folder / WEIGHTS, {name: p.detach().cpu() for name, p in model.named_parameters()})
    words = {"unit": corpus.unit, "tokens": corpus.vocabulary}
    (folder / VOCABULARY).write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    small = np.min_scalar_type(len(corpus.vocabulary))
    # Of train, only the tokens that statistics need, but at least two, as of every part.
    train = corpus.train[: max(2, settings.dynamic_statistics or len(corpus.train))]
    parts = {"train": train, "dev": corpus.dev, "test": corpus.test}
    # Any, because a type checker takes a keyword for savez's option allow_pickle, which came with NumPy 2.2.
    kept: dict[str, Any] = {part: tokens.astype(small) for part, tokens in parts.items()}
    np.savez(folder / TOKENS, **kept)
    arrays: dict[str, Any] = {
        f"{part}_{name}": nll
        for name, several in losses.items()
        for part, nll in zip(("dev", "test"), several, strict=True)
    }
    np.savez(folder / LOSSES, **arrays)
    if statistics is not None:
        save_tensors(folder / STATISTICS, [tensor.cpu() for tensor in statistics])


def read_language_model(
    folder: Path, about: KeptModel, architecture: Architecture[Any], settings: DynamicSettings, device: str
) -> KeptLanguageModel:
    """The files above, as a model of this architecture with these settings on the device.

    Raises InputError if a file is missing, is damaged, or does not fit such a model.
    """
    words = load_json(kept_file(folder, about, VOCABULARY), _Vocabulary, follow_link=False)
    path = kept_file(folder, about, WEIGHTS)
    shape = (settings, len(words.tokens), words.unit)
    weights = read_weights(path, architecture.parameters(*shape))
    where = set_up(device)
    model: LanguageModel = architecture.build(*shape, torch.Generator(where))
    put_weights(weights, dict(model.named_parameters()), path)
    corpus = _corpus(kept_file(folder, about, TOKENS), about, words)
    statistics = None
    if STATISTICS in about.files:
        path = kept_file(folder, about, STATISTICS)
        mapped = read_archive(path, load_tensor_list)
        kinds = [(torch.float32, shape) for shape in _shapes_of_statistics(model, settings)]
        if [(tensor.dtype, tuple(tensor.shape)) for tensor in mapped] != kinds:
            raise InputError(f"{path}: its tensors do not fit this model.")
        statistics = [tensor.to(where, copy=True) for tensor in mapped]
    return KeptLanguageModel(about, settings, model, corpus, statistics)


def _shapes_of_statistics(model: LanguageModel, settings: DynamicSettings) -> list[tuple[int, ...]]:
    if settings.dynamic_rule != "sparse":
        return [tuple(p.shape) for p in model.parameters()]
    return [(min(settings.dynamic_units, n),) * 2 for n in model.hidden_sizes]


def _corpus(path: Path, about: KeptModel, words: _Vocabulary) -> TextCorpus:
    arrays = read_archive(path, load_arrays)
    parts = {part: arrays.get(part, np.zeros(0)) for part in ("train", "dev", "test")}
    for part, tokens in parts.items():
        numbers = tokens.ndim == 1 and tokens.dtype.kind == "u" and tokens.size > 1
        if not numbers or tokens.max() >= len(words.tokens):
            raise InputError(f"{path}: {part} must be numbers of the vocabulary's tokens, two at least.")
    streams = {part: tokens.astype(np.int64) for part, tokens in parts.items()}
    name = str(about.corpus.get("name", ""))
    return TextCorpus(name, words.unit, tuple(words.tokens), **streams, provenance=about.provenance)
