"""AlgoPerf v0.5 (MLCommons): training algorithms of the external tuning ruleset on translation and speech.

Each of the 11 algorithms was tried with 5 settings of its own hyperparameters, and each setting was trained 5
times, in studies 0 to 4. A row is the first of these trainings that has an evaluation, and the others are
replicates. A setting without any evaluation has no row. Each algorithm uses either JAX or PyTorch, so compare
seconds only within one framework.

The files stay with their authors (Apache-2.0, github.com/mlcommons/submissions_algorithms).
algoperf_files.py reads them. The hash of the trainings is the same for each source of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Direction, Metric
from hpobench_nmt.core.space import Hyperparameter, Space, Value
from hpobench_nmt.lookup.collections.algoperf_files import (
    COMMIT,
    LOGS,
    Training,
    check_trainings,
    downloaded_trainings,
    trainings_in,
)
from hpobench_nmt.lookup.collections.collection import Collection, Origin, replicates_of
from hpobench_nmt.lookup.curves import Curves, until_missing
from hpobench_nmt.lookup.download import DEFAULT_LIMITS
from hpobench_nmt.lookup.table import Table

NAME = "algoperf"


@dataclass(frozen=True)
class _Task:
    """A workload: its name upstream without the framework, its description, and facts about its trainings."""

    workload: str
    what: str
    metric: str
    direction: Direction
    loss: str
    configurations: int
    failed: int
    trainings: int


# The last three numbers are the settings that were tried, the settings without any evaluation, and the
# trainings with an evaluation.
_TASKS = {
    f"{NAME}-wmt": _Task("wmt", "WMT17 German-English transformer", "bleu", "max", "loss", 55, 0, 275),
    f"{NAME}-wmt-glu-tanh": _Task(
        "wmt_glu_tanh", "WMT17 transformer, GLU and tanh", "bleu", "max", "loss", 55, 5, 250
    ),
    f"{NAME}-conformer": _Task(
        "librispeech_conformer", "LibriSpeech Conformer", "wer", "min", "ctc_loss", 55, 0, 275
    ),
    f"{NAME}-conformer-layernorm": _Task(
        "librispeech_conformer_layernorm",
        "LibriSpeech Conformer, layer normalisation",
        "wer",
        "min",
        "ctc_loss",
        55,
        0,
        268,
    ),
    f"{NAME}-deepspeech": _Task(
        "librispeech_deepspeech", "LibriSpeech DeepSpeech", "wer", "min", "ctc_loss", 52, 0, 254
    ),
}
TABLES = tuple(_TASKS)

# The hyperparameters that differ between settings of an algorithm. The algorithm determines all others.
_ALGORITHM = "algorithm"
_CATEGORICAL = {"style", "disable_preconditioning", "use_momentum", "grafting_type", "use_nadam"}
_LOG = {"l2", "learning_rate", "one_minus_beta1", "one_minus_beta2", "weight_decay"}
_LOG |= {"warmup_factor", "warmup_steps_fraction"}


def _tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
    """The five tables. The address of the origin is that of an archive of the repository."""
    if origin.source is None:
        found = downloaded_trainings(origin.address, origin.limits)
    else:
        found = trainings_in(origin.source)
    check_trainings(found, origin.source or origin.address)
    return tables_of(found)


def tables_of(trainings: Sequence[Training]) -> list[Table]:
    """The tables of all workloads that have trainings."""
    by_table = {
        name: [training for training in trainings if training.workload == task.workload]
        for name, task in _TASKS.items()
    }
    return [_table(name, _TASKS[name], found) for name, found in by_table.items() if found]


def _table(name: str, task: _Task, trainings: Sequence[Training]) -> Table:
    settings: dict[tuple[str, int], list[Training]] = {}
    for training in trainings:
        if len(training.updates):
            settings.setdefault((training.algorithm, training.trial), []).append(training)
    rows = [several[0] for several in settings.values()]
    again = [training for several in settings.values() for training in several[1:]]
    axes = _axes(rows)
    space, metrics = Space(axes), _metrics(task)

    def codes(some: Sequence[Training]) -> Floats:
        return space.encode_all([{_ALGORITHM: t.algorithm, **t.settings} for t in some])

    return Table(
        name,
        axes,
        metrics,
        codes(rows),
        np.array([_values(task, training) for training in rows]),
        objectives=(metrics[0].name,),
        provenance=COLLECTION.provenance(
            f"AlgoPerf v0.5, external tuning: {task.what}",
            f"folder {LOGS}",
            citation="Dahl et al. 2023, arXiv 2306.07179: Benchmarking neural network training "
            "algorithms; Kasimbeg et al., ICLR 2025: Accelerating neural network training: an analysis of "
            "the AlgoPerf competition",
            measured="each row is the first study with an evaluation, and the seeds of replicates are the "
            "numbers of the other studies; seconds are times of training, without evaluations",
            frameworks="JAX: amos, baseline, caspr_adaptive, generalized_adam, nadamp; the others PyTorch",
            changed="the table has only hyperparameters that differ between settings of an algorithm; a "
            "curve ends where its loss is NaN",
        ),
        claims=COLLECTION.claims(
            configurations=task.configurations,
            failed=task.failed,
            complete=True,
            trainings=task.trainings,
        ),
        curves=_curves(task, rows),
        replicates=replicates_of(
            axes,
            metrics,
            [len(several) - 1 for several in settings.values()],
            codes(again),
            np.array([float(training.study) for training in again]),
            [_values(task, training) for training in again],
            _curves(task, again) if again else None,
        ),
    )


def _metrics(task: _Task) -> tuple[Metric, ...]:
    unit = "BLEU" if task.metric == "bleu" else ""
    return (
        Metric(
            f"validation_{task.metric}", task.direction, unit, description="the best value of all evaluations"
        ),
        Metric(f"test_{task.metric}", task.direction, unit, description="where validation is best"),
        Metric(f"validation_{task.loss}", "min", description="the smallest value of all evaluations"),
        Metric("seconds", "min", "s", description="time of training up to the last evaluation"),
    )


def _values(task: _Task, training: Training) -> list[float]:
    """The metrics of a training that has evaluations."""
    validation, test, loss = _columns(task, training)
    best = int(np.nanargmax(validation) if task.direction == "max" else np.nanargmin(validation))
    least = np.nan if np.isnan(loss).all() else np.nanmin(loss)
    return [validation[best], test[best], float(least), training.seconds[-1]]


def _columns(task: _Task, training: Training) -> tuple[Floats, Floats, Floats]:
    names = (f"validation/{task.metric}", f"test/{task.metric}", f"validation/{task.loss}")
    validation, test, loss = (training.measured[name] for name in names)
    return validation, test, loss


def _axes(rows: Sequence[Training]) -> tuple[Hyperparameter, ...]:
    """The algorithm, and the hyperparameters of all algorithms, each active where the algorithm has it."""
    values: dict[str, set[Value]] = {}
    having: dict[str, set[str]] = {}
    for training in rows:
        for name, value in training.settings.items():
            values.setdefault(name, set()).add(value)
            having.setdefault(name, set()).add(training.algorithm)
    algorithms = tuple(sorted({training.algorithm for training in rows}))
    axes = [Hyperparameter(_ALGORITHM, algorithms, kind="categorical")]
    for name in sorted(values):
        labels, everywhere = name in _CATEGORICAL, len(having[name]) == len(algorithms)
        axes.append(
            Hyperparameter(
                name,
                tuple(sorted(values[name], key=str if labels else None)),  # type: ignore[type-var,arg-type]
                "log" if name in _LOG else "linear",
                kind="categorical" if labels else "numeric",
                active_if=() if everywhere else ((_ALGORITHM, tuple(sorted(having[name]))),),
            )
        )
    return tuple(axes)


def _curves(task: _Task, rows: Sequence[Training]) -> Curves:
    metrics = _metrics(task)[:3]
    starts = np.cumsum([0, *(len(training.updates) for training in rows)])
    values = np.concatenate([np.column_stack(_columns(task, training)) for training in rows])
    kept = until_missing(starts, values)
    return Curves(
        "update",
        metrics,
        ("best", None, "best"),
        np.concatenate([[0], np.cumsum(kept)])[starts],
        np.concatenate([training.updates for training in rows])[kept],
        np.concatenate([training.seconds for training in rows])[kept],
        values[kept],
        "s",
        "updates",
    )


COLLECTION = Collection(
    name=NAME,
    title="AlgoPerf v0.5 (2024): training algorithms for transformers, Conformers and DeepSpeech",
    tables=TABLES,
    rows=sum(task.configurations - task.failed for task in _TASKS.values()),
    licence="Apache-2.0, of the authors' repository",
    repository="mlcommons/submissions_algorithms",
    commit=COMMIT,
    folder=LOGS,
    sha256={},  # of the trainings instead
    tables_from=_tables,
    # Limits of the archive of the whole repository. The files of these workloads take a few megabytes.
    limits=replace(DEFAULT_LIMITS, max_bytes=2**29, total_s=900.0),
    archive=f"https://codeload.github.com/mlcommons/submissions_algorithms/tar.gz/{COMMIT}",
    copy="a clone of github.com/mlcommons/submissions_algorithms, or the two files that were made of it",
)
