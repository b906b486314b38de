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

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.disk.archives import load_named_tensors, read_archive, save_tensors
from hpobench_nmt.runner.disk.kept_model import KeptModel, kept_file
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
    for part, lines in translations.items():
        text = "".join(line + "\n" for line in lines)
        (folder / f"{part}.translations").write_text(text, "utf-8", newline="\n")


def read_model(folder: Path, about: KeptModel, settings: MarianSettings) -> KeptMarian:
    """The files above, checked.

    Raises InputError if one is missing, is damaged, or does not fit a model of these settings.
    """
    source, target = (read_bpe(kept_file(folder, about, name)) for name in SUBWORDS)
    path = kept_file(folder, about, WEIGHTS)
    weights = read_archive(path, load_named_tensors)
    expected = parameters(settings, vocabulary_size(source), vocabulary_size(target))
    found = sum(tensor.numel() for tensor in weights.values())
    if found != expected:  # before memory is allocated for a model of these settings
        raise InputError(f"{path}: holds {found:,} numbers; a model of these settings has {expected:,}.")
    return KeptMarian(settings, source, target, {name: tensor.clone() for name, tensor in weights.items()})


def translate(kept: KeptMarian, lines: Sequence[str], device: str) -> Translated:
    """Translate lines of tokens, with the beam and the batch size of the training's own decoding."""
    where = set_up(device)
    sizes = vocabulary_size(kept.source), vocabulary_size(kept.target)
    model = build(kept.settings, *sizes, torch.Generator(where))
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    shapes = [{n: (t.dtype, t.shape) for n, t in each.items()} for each in (own, kept.weights)]
    if shapes[0] != shapes[1]:
        raise InputError(f"{WEIGHTS}: its tensors do not fit a model with these settings.")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(kept.weights[name])
    numbers = encode(kept.source, lines)
    subwords = sum(len(line) - 1 for line in numbers)
    outside = sum(line.count(UNKNOWN) for line in numbers)
    started = time.perf_counter()
    found = translate_lines(model, kept.source, kept.target, lines, kept.settings)
    return Translated(found, subwords, outside, time.perf_counter() - started)
