"""The files of a kept Sockeye model (disk/kept_model.py has the folder, and model.json).

config, version, params.best            as Sockeye wrote them; params.best has the best checkpoint
vocab.src.0.json, vocab.trg.0.json      Sockeye's vocabularies
source.model, target.model              the subwords of each side, by sentencepiece
dev.translations, test.translations     one translation on each line, in the order of the corpus
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.validation import Natural, load_json
from hpobench_nmt.runner.disk.archives import load_named_tensors, read_archive
from hpobench_nmt.runner.disk.kept_model import KeptModel, kept_file, write_translations
from hpobench_nmt.runner.nmt.bpe import Bpe, read_bpe
from hpobench_nmt.runner.nmt.settings import SockeyeSettings

CONFIG, PARAMETERS = "config", "params.best"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "vocab.src.0.json", "vocab.trg.0.json"
SOCKEYE_FILES = (CONFIG, "version", SOURCE_VOCABULARY, TARGET_VOCABULARY, PARAMETERS)
_SUBWORDS = ("source.model", "target.model")
_LONGER = 2  # marks that Sockeye adds to the longest training sentence


@dataclass(frozen=True, eq=False)
class KeptTranslationModel:
    """A kept Sockeye model: its folder, whose files were checked, and the subwords of each side.

    `known` has the subwords in its source vocabulary.
    """

    folder: Path
    about: KeptModel
    settings: SockeyeSettings
    source: Bpe
    target: Bpe
    known: frozenset[str]


def save_translation_model(
    folder: Path, model: Path, prepared: Path, translations: Mapping[str, Sequence[str]]
) -> None:
    """Write the files above into an empty folder, from the folders of Sockeye's training and its corpus."""
    for name in SOCKEYE_FILES:
        shutil.copyfile(model / name, folder / name)  # params.best is a link
    for name in _SUBWORDS:
        shutil.copyfile(prepared / name, folder / name)
    write_translations(folder, translations)


def read_translation_model(folder: Path, about: KeptModel, settings: SockeyeSettings) -> KeptTranslationModel:
    """The files above, checked, so that Sockeye can load them.

    Raises InputError if one is missing, is damaged, or does not fit a model of these settings.
    """
    paths = {name: kept_file(folder, about, name) for name in (*SOCKEYE_FILES, *_SUBWORDS)}
    sizes = []
    for name in (SOURCE_VOCABULARY, TARGET_VOCABULARY):
        words = load_json(paths[name], dict[str, Natural], follow_link=False)
        if sorted(words.values()) != list(range(len(words))):
            raise InputError(f"{paths[name]}: its numbers must be 0, 1, 2, …, each once.")
        sizes.append(words)
    _check_config(paths[CONFIG], settings, *map(len, sizes))
    _check_parameters(paths[PARAMETERS], settings, *map(len, sizes))
    source, target = (read_bpe(paths[name]) for name in _SUBWORDS)
    return KeptTranslationModel(folder, about, settings, source, target, frozenset(sizes[0]))


def _check_config(path: Path, settings: SockeyeSettings, source: int, target: int) -> None:
    """Refuse sizes that differ from the settings and vocabularies: Sockeye allocates memory by this file."""
    import yaml

    reader: Any = yaml

    class Loader(reader.SafeLoader):  # type: ignore[misc]
        """Reads Sockeye's own kinds of values as mappings and lists."""

    # Nested merges can take memory without bound, and Sockeye does not write merges.
    Loader.flatten_mapping = lambda loader, node: None
    Loader.add_multi_constructor("!", lambda loader, tag, node: loader.construct_mapping(node, deep=True))
    tuples = "tag:yaml.org,2002:python/tuple"
    Loader.add_constructor(tuples, lambda loader, node: loader.construct_sequence(node, deep=True))
    try:
        config = reader.load(read_bytes(path, follow_link=False), Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{path}: cannot be used: {type(error).__name__}.") from None
    longest = settings.max_length + _LONGER
    transformer = {
        "model_size": settings.num_embed,
        "feed_forward_num_hidden": settings.num_hidden,
        "attention_heads": settings.num_heads,
        "num_layers": settings.num_layers,
        "depth_key_value": settings.num_embed,
    }
    expected: dict[tuple[str, ...], int] = {("vocab_source_size",): source, ("vocab_target_size",): target}
    for part, size in (("source", source), ("target", target)):
        expected[f"config_embed_{part}", "vocab_size"] = size
        expected[f"config_embed_{part}", "num_embed"] = settings.num_embed
    for part in ("encoder", "decoder"):
        expected |= {(f"config_{part}", name): value for name, value in transformer.items()}
    for keys, value in expected.items():
        if (found := _inside(config, keys)) != value:
            raise InputError(f"{path}: {'.'.join(keys)} is {found!r:.40}, where the model's is {value}.")
    for part in ("encoder", "decoder"):
        for side in ("source", "target"):
            found = _inside(config, (f"config_{part}", f"max_seq_len_{side}"))
            if not isinstance(found, int) or not 0 < found <= longest:
                raise InputError(f"{path}: config_{part}.max_seq_len_{side} is not 1 to {longest:,}.")


def _inside(config: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        config = config.get(key) if isinstance(config, dict) else None
    return config


def _check_parameters(path: Path, settings: SockeyeSettings, source: int, target: int) -> None:
    """Refuse a file with fewer numbers than such a model's attention, feed-forward layers and embeddings."""
    size, hidden = settings.num_embed, settings.num_hidden
    layers = settings.num_layers * (12 * size**2 + 4 * size * hidden)
    least = layers + size * (source + target)
    found = sum(tensor.numel() for tensor in read_archive(path, load_named_tensors).values())
    if found < least:
        raise InputError(f"{path}: holds {found:,} numbers; a model of these settings has {least:,} or more.")
