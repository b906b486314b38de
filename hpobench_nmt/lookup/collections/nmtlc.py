"""NMTLC: two tables of language models that were fine-tuned to translate (Zhang & Duh, AMTA 2024).

Six language models were fine-tuned with LoRA on a grid of rank, batch size and learning rate. The language
model is a categorical hyperparameter. The file stays with its authors (MIT licence,
github.com/Este1le/hpo_nmt). It is a pickle, read without unpickling (plain_pickle.py). It also has
models that were trained from scratch. Their learning curves are added to installed tables of nmthpo.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.validation import Finite, Whole, checked
from hpobench_nmt.lookup.collections import nmthpo
from hpobench_nmt.lookup.collections.collection import Collection, Origin
from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import load_folder
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
# The updates per checkpoint of a model that was trained from scratch.
_UPDATES = 2000
# The perplexities of nmthpo's rows are rounded to two decimals.
_ROUNDING = 0.006
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
    entries: dict[tuple[float, ...], list[_Training]] = defaultdict(list)
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
        curves=_tuned_curves(
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


def with_curves(table: Table, entries: Mapping[tuple[float, ...], Sequence[_Training]]) -> Table:
    """A published table of NMTHPO with curves, given the models of its language pair by their settings.

    The file does not state the row of a model, because the number of attention heads is missing. So a row
    gets a curve only if exactly one curve agrees with it in layers, embedding, hidden size, learning rate
    and, to the digits that the row has, lowest perplexity, and if no other row fits that curve. Of the 1,983
    rows, 1,903 get a curve. The num_updates of all rows but one confirm that a checkpoint is 2,000 updates.
    """
    axes = [h.name for h in table.hyperparameters]
    columns = [axes.index(name) for name in ("num_layers", "num_embed", "num_hidden", "learning_rate")]
    fitting = [
        [e for e in entries.get(tuple(config), ()) if abs(e.perplexity_optimal - ppl) <= _ROUNDING]
        for config, ppl in zip(table.configs[:, columns].tolist(), table.column("dev_ppl"), strict=True)
    ]
    claimed: dict[int, int] = defaultdict(int)
    for found in fitting:
        if len(found) == 1:
            claimed[id(found[0])] += 1
    curves = [
        list(found[0].perplexity_curve) if len(found) == 1 and claimed[id(found[0])] == 1 else []
        for found in fitting
    ]
    steps = np.concatenate([_UPDATES * np.arange(1.0, len(curve) + 1) for curve in curves])
    return replace(
        table,
        curves=Curves(
            "update",
            (Metric("dev_ppl", "min"),),
            ("best",),
            np.cumsum([0, *map(len, curves)]),
            steps,
            steps,
            np.concatenate([np.array(curve) for curve in curves])[:, None],
            "updates",
            "updates",
        ),
    )


def _tuned_curves(
    perplexities: Sequence[Sequence[float]], bleu: Sequence[Sequence[float]], sizes: Sequence[float]
) -> Curves:
    """The curves of fine-tuned language models: BLEU and perplexity on dev at each checkpoint of each row.

    The file gives no times, so the cost of a checkpoint is the size of the row's model, in billions of
    parameters.
    """
    lengths = list(map(len, perplexities))
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    values = [np.concatenate([np.array(curve) for curve in curves]) for curves in (bleu, perplexities)]
    return Curves(
        "checkpoints",
        (Metric("dev_bleu", "max", "BLEU"), Metric("dev_ppl", "min")),
        ("best", "best"),
        np.cumsum([0, *lengths]),
        steps,
        steps * np.repeat(np.asarray(sizes), lengths),
        np.column_stack(values),
        "checkpoints x billion parameters",
    )


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
