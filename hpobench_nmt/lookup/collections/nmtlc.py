"""NMTLC: two tables of language models that were fine-tuned to translate (Zhang & Duh, AMTA 2024).

Six language models were fine-tuned with LoRA on a grid of rank, batch size and learning rate. The language
model is a categorical hyperparameter. The file stays with its authors (MIT licence,
github.com/Este1le/hpo_nmt). It is a pickle, read without unpickling (lookup/plain_pickle.py). It also has
models that were trained from scratch. Their learning curves are added to installed tables of nmthpo.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.validation import Finite, Whole, checked
from hpobench_nmt.lookup.collections import nmthpo
from hpobench_nmt.lookup.collections.collection import Collection, Origin
from hpobench_nmt.lookup.collections.nmtlc_curves import Settings, tuned_curves, with_curves
from hpobench_nmt.lookup.folder import load_folder
from hpobench_nmt.lookup.plain_pickle import read_plain_pickle
from hpobench_nmt.lookup.table import Table

NAME = "nmtlc"
FILE = "nmtlc.pkl"
PAIRS = ("zh-en", "fr-en")

# The file gives the family, the model dimension and the number of layers. They determine the name of the
# released model and its parameters in billions.
_LANGUAGE_MODELS = {
    ("bloomz", 1024, 24): ("bloomz-560m", 0.56),
    ("bloomz", 2048, 24): ("bloomz-1b7", 1.7),
    ("bloomz", 2560, 30): ("bloomz-3b", 3.0),
    ("xglm", 1024, 24): ("xglm-564M", 0.564),
    ("xglm", 2048, 24): ("xglm-1.7B", 1.7),
    ("xglm", 2048, 48): ("xglm-2.9B", 2.9),
}
_SIZES = dict(_LANGUAGE_MODELS.values())
_SPACE = Space(
    (
        Hyperparameter("language_model", tuple(_SIZES), kind="categorical"),
        Hyperparameter("lora_rank", (2, 16, 64), "log"),
        Hyperparameter("batch_size", (16, 32, 64), "log", "sentences"),
        Hyperparameter("learning_rate", (2e-5, 1e-4, 2e-4), "log"),
    )
)
_METRICS = (
    Metric("dev_bleu", "max", "BLEU", tolerance=0.5, description="best BLEU on the development set"),
    Metric("dev_ppl", "min", description="smallest perplexity on the development set"),
    Metric("checkpoints", "min", description="checkpoints until the training stopped by itself"),
)


class _Settings(msgspec.Struct, frozen=True):
    """Settings of a training. The file has other settings, which are constant for each language model."""

    initial_lr: Finite
    model_size: Whole
    ff_num_hidden: Whole
    num_layers: Whole
    batch_size: Whole
    r: Whole


class _Training(msgspec.Struct, frozen=True):
    task: Literal["scratch", "finetune"]
    dataset_name: str
    src: str
    trg: str
    basemodel: str
    hyperparams: _Settings
    perplexity_curve: list[Finite]
    perplexity_optimal: Finite
    bleu_curve: list[Finite] = msgspec.field(default_factory=list)
    bleu_optimal: Finite | None = None


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    """Both tables, and the installed tables of nmthpo, which get their learning curves."""
    (content,) = collection.contents(origin).values()
    entries = checked(read_plain_pickle(content, Path(FILE)), list[_Training], FILE)
    tuned = [entry for entry in entries if entry.task == "finetune"]
    scratch = [entry for entry in entries if entry.task == "scratch"]
    published = [_with_curves(target / name, scratch) for name in nmthpo.TABLES]
    return [_table(pair, tuned) for pair in PAIRS] + [table for table in published if table is not None]


def _with_curves(folder: Path, scratch: list[_Training]) -> Table | None:
    """A table of nmthpo with its curves; None if it is not installed, or another table has its name."""
    if not folder.is_dir():
        return None
    table = load_folder(folder)
    if table.claims.get("collection") != nmthpo.NAME:
        return None
    entries: dict[Settings, list[_Training]] = defaultdict(list)
    for entry in scratch:
        if f"{entry.src}-{entry.trg}" == table.name:
            h = entry.hyperparams
            entries[h.num_layers, h.model_size, h.ff_num_hidden, h.initial_lr].append(entry)
    return with_curves(table, entries)


def _table(pair: str, tuned: list[_Training]) -> Table:
    trainings = [t for t in tuned if t.dataset_name == pair]
    configs = list(map(_config, trainings))
    return Table(
        name=f"{NAME}-{pair}",
        hyperparameters=_SPACE.hyperparameters,
        metrics=_METRICS,
        configs=_SPACE.encode_all(configs),
        values=np.array(
            [[t.bleu_optimal, t.perplexity_optimal, len(t.perplexity_curve)] for t in trainings],
            dtype=np.float64,
        ),
        objectives=("dev_bleu",),
        provenance=COLLECTION.provenance(
            f"Language models fine-tuned with LoRA to translate, {pair}",
            f"file {COLLECTION.folder}/{FILE}",
            citation="Zhang and Duh, AMTA 2024: Best Practices of Successive Halving on Neural Machine "
            "Translation and Large Language Models",
            measured="one run of each configuration; times are not given",
            sha256=COLLECTION.sha256[FILE],
        ),
        claims=COLLECTION.claims(),
        curves=tuned_curves(
            [t.perplexity_curve for t in trainings],
            [t.bleu_curve for t in trainings],
            [_SIZES[str(config["language_model"])] for config in configs],
        ),
    )


def _config(training: _Training) -> dict[str, float | str]:
    settings = training.hyperparams
    model, _ = _LANGUAGE_MODELS[training.basemodel, settings.model_size, settings.num_layers]
    return {
        "language_model": model,
        "lora_rank": settings.r,
        "batch_size": settings.batch_size,
        "learning_rate": settings.initial_lr,
    }


COLLECTION = Collection(
    name=NAME,
    title="two of Zhang & Duh (2024): language models fine-tuned to translate; learning curves for nmthpo",
    tables=tuple(f"{NAME}-{pair}" for pair in PAIRS),
    rows=None,
    licence=nmthpo.COLLECTION.licence,
    repository=nmthpo.COLLECTION.repository,
    commit=nmthpo.COLLECTION.commit,
    folder="lc_datasets",
    sha256={FILE: "42ecab6a7f3c93c7697714cf1082318274e232e04d79bf4400bfc55d6a766eca"},
    tables_from=_tables,
)
