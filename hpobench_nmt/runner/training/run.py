"""A run of `train`: its devices, all trainings that a spec needs, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.system.clusters import Backend, known_backend
from hpobench_nmt.core.system.errors import InputError, Notify
from hpobench_nmt.runner.corpora import corpus_report, filled_section, load_corpus
from hpobench_nmt.runner.devices import (
    cluster_device,
    device_name,
    find_devices,
    first_devices,
    mixed_devices,
)
from hpobench_nmt.runner.ledgers.ledger import Ledger, Record, read_ledger
from hpobench_nmt.runner.ledgers.plan import pending
from hpobench_nmt.runner.specs.grid_checks import check_all
from hpobench_nmt.runner.specs.spec import Spec, describe
from hpobench_nmt.runner.training import dispatch
from hpobench_nmt.runner.training.dispatch import Run
from hpobench_nmt.runner.training.workspace import Workspace, clear_workspace, open_workspace

Shard = tuple[int, int]
"""(i, n): the i-th of n equal parts of the trainings; (1, 1): all of them."""

Watch = Callable[[int], AbstractContextManager[tuple[dispatch.Progress | None, dispatch.OnRecord]]]
"""From a number of trainings: inside, the functions to call when a training has ended (dispatch.train)."""


@dataclass(frozen=True)
class Ended:
    """The content of the ledger after a run.

    Attributes:
        left: how many trainings are missing, including paused trainings.
        paused: how many trainings this run has paused.
        mixed: a warning if rows were trained on several models of GPU; else "".
    """

    done: tuple[Record, ...]
    failed: int
    left: int
    paused: int
    mixed: str


def open_run(
    spec: Spec,
    folder: Path,
    cache: Path,
    device: str = "auto",
    jobs: int | None = None,
    backend: Backend = "local",
    keep: bool = False,
    until: int | None = None,
) -> Run:
    """Choose the devices, and open the folder with `open_workspace`.

    `device` is the option --device, and `backend` is the argument of dispatch.train. By default there is one
    job per device or core.

    Raises:
        InputError: an error of refuse_in_vain; an unknown backend or device; a kind of device
            other than that of the ledger's rows; a cluster without a number of jobs; or an error of
            open_workspace.
        RunError: the folder cannot be written.
    """
    refuse_in_vain(spec)
    backend = known_backend(backend)
    if backend == "local":
        devices = first_devices(find_devices(device), gpus_a_training(spec))
    else:
        devices = [cluster_device(device, backend)]
        if not jobs:
            raise InputError(f"--backend {backend}: give the number of trainings at a time with --jobs.")
    workspace, ledger = open_workspace(spec, folder, cache, keep, until)
    if device == "auto":
        refuse_other_device(workspace.ledger, ledger, devices)
    mixed = ""
    if devices == ["cpu"] and ledger.records:
        # The rows of this run count as one.
        mixed = mixed_devices([*(r.device for r in ledger.records if r.status == "done"), device_name("cpu")])
    jobs = jobs or (int(joblib.cpu_count()) if devices == ["cpu"] else len(devices))
    return Run(workspace, devices, jobs, backend, mixed, ledger.corpus.get("caution", ""))


def train_rows(
    run: Run,
    rows: Sequence[int] | NDArray[np.intp],
    shard: Shard,
    limit: int | None,
    watch: Watch,
    notify: Notify,
) -> Ended:
    """Train these rows of the grid and the spec's replicates, if they are not recorded.

    Args:
        limit: maximum number of trainings; None: all.
        watch: makes the functions that are called when trainings end.
        notify: called with a line about each training that failed, was paused or has no record.

    Raises the RunError of dispatch.train.
    """
    spec, path, paused = run.workspace.spec, run.workspace.ledger, 0
    ledger = read_ledger(path)
    # The best rows are known only after all rows have been trained, and may then need further trainings.
    # Paused trainings are still missing, but are not resumed in this run.
    while not paused and (todo := pending(spec, ledger, rows, shard)[:limit]):
        with watch(len(todo)) as (progress, on_record):
            paused = dispatch.train(run, todo, progress, notify, on_record)
        ledger = read_ledger(path)
        limit = limit and limit - len(todo)
    done = tuple(record for record in ledger.records if record.status == "done")
    left = len(pending(spec, ledger, range(spec.size), shard))
    clear_workspace(run.workspace)  # not reached after an error, whose message may name a log
    # For a GPU this is not checked before the run, because its model's name would open CUDA in this process.
    mixed = mixed_devices(record.device for record in done) if run.devices != ["cpu"] else ""
    return Ended(done, len(ledger.records) - len(done), left, paused, mixed)


def corpus_and_infeasible(spec: Spec, cache: Path) -> tuple[list[str], list[str]]:
    """Lines about the corpus, and lines about configurations that it makes impossible.

    For instance, no sizes of a model may meet a parameter budget. The corpus is prepared if necessary.

    Raises:
        InputError: the corpus is wrong or missing.
        RunError: it cannot be prepared.
    """
    corpus = load_corpus(spec.corpus, spec.base, cache)
    report = corpus_report(spec.corpus, corpus)
    check = spec.family.corpus_check
    if check is None:
        return report, []
    wrong = check_all(spec.grid, spec.settings, lambda settings: check(settings, corpus))
    told = (({name: values[name] for name in names}, reason) for values, names, reason in wrong)
    return report, [f"{describe(values) or 'every configuration'}: {reason}" for values, reason in told]


def best_kept(workspace: Workspace, done: Sequence[Record]) -> tuple[int, Record | None]:
    """The number of these trainings with a kept model, and the best of them by the first objective."""
    kept = [record for record in done if workspace.model_folder(record.config, record.replicate).is_dir()]
    metric = next(m for m in workspace.spec.metrics if m.name == workspace.spec.objectives[0])
    measured = [record for record in kept if metric.name in record.metrics]
    if not measured:
        return len(kept), None
    best = min if metric.direction == "min" else max
    return len(kept), best(measured, key=lambda record: record.metrics[metric.name])


def gpus_a_training(spec: Spec) -> int:
    """The maximum number of GPUs of one training of a spec: the setting `workers` of translation."""
    return int(max(spec.grid.get("workers", (spec.fixed.get("workers", 1),))))


def refuse_in_vain(spec: Spec) -> None:
    """Raise InputError if trainings would not give what the spec asks for.

    Tables of ledgers that are complete can still be built, so this is not part of reading a spec.
    """
    refuse_unfit_objectives(spec, spec.objectives)
    if spec.replicates.same_seed and spec.family.shares_models:
        raise InputError(
            f"{spec.path}: family {spec.family.name!r} trains one model for each seed, so same_seed would "
            f"measure the same model again. Remove same_seed from [replicates]."
        )


def refuse_unfit_objectives(spec: Spec, objectives: Sequence[str]) -> None:
    """Raise InputError if one of these metrics is never measured, or cannot compare what the grid varies."""
    if spec.family.program:  # it has no corpus, and what it measures is known once it has run
        return
    section = filled_section(spec.corpus)
    for name in objectives:
        if reason := spec.family.never_measured(name, section):
            raise InputError(f"{spec.path}: no training on this corpus measures {name}: {reason}.")
        varied = [each for each in spec.family.cannot_rank.get(name, ()) if len(spec.grid.get(each, ())) > 1]
        if varied:
            other = next(m.name for m in spec.family.metrics if m.name not in spec.family.cannot_rank)
            raise InputError(
                f"{spec.path}: {name} cannot compare values of {' and '.join(varied)}, because they change "
                f"how it is measured. Use another objective, such as {other}, or move {varied[0]} to [fixed]."
            )


def refuse_other_device(path: Path, ledger: Ledger, devices: Sequence[str]) -> None:
    """Raise InputError if "auto" has found another kind of device than that of the ledger's rows.

    Times on different kinds of devices cannot be compared, and neither can the models that rows of dynamic
    evaluation share.
    """
    now = devices[0].partition(":")[0]
    for record in ledger.records:
        if record.device and not record.device.startswith(now):
            raise InputError(
                f"{path}: has rows trained on {record.device!r}, but --device auto finds {now!r}. To mix "
                f"them in one table anyway, use --device {now}."
            )
