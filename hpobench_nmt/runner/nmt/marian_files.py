"""The files of a kept model of transformers (disk/kept_model.py has the folder, and model.json).

weights.pt                              every trained parameter by name: a dict that torch.save wrote
source.model, target.model              the subwords of each side, by sentencepiece
dev.translations, test.translations     one translation on each line, in the order of the corpus

No class or configuration of transformers is read from the folder. The model is made from the settings in
model.json.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hpobench_nmt.runner.disk.archives import put_weights, read_weights, save_tensors
from hpobench_nmt.runner.disk.kept_model import KeptModel, kept_file, write_translations
from hpobench_nmt.runner.family import Translated
from hpobench_nmt.runner.nmt.bpe import Bpe, read_bpe
from hpobench_nmt.runner.nmt.marian_decoding import translate_lines
from hpobench_nmt.runner.nmt.marian_model import build, parameters
from hpobench_nmt.runner.nmt.marian_numbers import UNKNOWN, encode, vocabulary_size
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.torch_training.repeatable import set_up

WEIGHTS = "weights.pt"
SUBWORDS = ("source.model", "target.model")


@dataclass(frozen=True, eq=False)
class KeptMarian:
    """A kept model: its settings, the subwords of each side, and its weights by name, of the right shapes."""

    settings: MarianSettings
    source: Bpe
    target: Bpe
    weights: Mapping[str, torch.Tensor]


def save_model(
    folder: Path, *, model: Any, subwords: tuple[bytes, bytes], translations: Mapping[str, Sequence[str]]
) -> None:
    """Write the files above into an empty folder; the subwords are sentencepiece's model of each side."""
    weights = {name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}
    save_tensors(folder / WEIGHTS, weights)
    for name, content in zip(SUBWORDS, subwords, strict=True):
        (folder / name).write_bytes(content)
    write_translations(folder, translations)


def read_model(folder: Path, about: KeptModel, settings: MarianSettings) -> KeptMarian:
    """The files above, checked.

    Raises InputError if one is missing, is damaged, or does not fit a model of these settings.
    """
    source, target = (read_bpe(kept_file(folder, about, name)) for name in SUBWORDS)
    path = kept_file(folder, about, WEIGHTS)
    weights = read_weights(path, parameters(settings, vocabulary_size(source), vocabulary_size(target)))
    return KeptMarian(settings, source, target, {name: tensor.clone() for name, tensor in weights.items()})


def translate(kept: KeptMarian, lines: Sequence[str], device: str) -> Translated:
    """Translate lines of tokens, with the beam and the batch size of the training's own decoding."""
    where = set_up(device)
    sizes = vocabulary_size(kept.source), vocabulary_size(kept.target)
    model = build(kept.settings, *sizes, torch.Generator(where))
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    put_weights(kept.weights, own, WEIGHTS)
    numbers = encode(kept.source, lines)
    subwords = sum(len(line) - 1 for line in numbers)
    outside = sum(line.count(UNKNOWN) for line in numbers)
    started = time.perf_counter()
    found = translate_lines(model, kept.source, kept.target, lines, kept.settings)
    return Translated(found, subwords, outside, time.perf_counter() - started)
