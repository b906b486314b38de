"""A method chooses which configurations of a grid are trained (Zhang & Duh 2020, Figure 3)."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Constraint, parse_constraints
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.system.errors import InputError, RunError, check_known, warn
from hpobench_nmt.core.system.folders import remove_folder
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.runner.corpora import load_corpus
from hpobench_nmt.runner.specs.grid_checks import check_all
from hpobench_nmt.runner.specs.spec import Spec, describe
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.run import refuse_unfit_objectives
from hpobench_nmt.runner.training.train_row import Unfinished, train_and_record
from hpobench_nmt.runner.training.workspace import Workspace, clear_workspace
from hpobench_nmt.runner.tuning.journal import Journal, begun_with
from hpobench_nmt.runner.tuning.live_trainer import LiveTrainer, Room, TuningStep


def tune(
    workspace: Workspace,
    method: MethodFactory,
    name: str,
    identity: str,
    metrics: Sequence[Metric],
    lookups: int,
    seed: int,
    devices: Sequence[str],
    workers: int = 1,
    updates: tuple[int, int] | None = None,
    seconds: float = math.inf,
    told: Callable[[TuningStep], None] = lambda step: None,
    n_initial: int = 3,
    constraints: Sequence[Constraint] = (),
    prior: Floats | None = None,
    most: float = math.inf,
    repeats: bool = False,
) -> Trajectory:
    """Run the loop with real trainings. Every training that ends is recorded in the ledger.

    The same command resumes a run. Rows in the ledger are not trained again, and the method repeats its
    earlier choices. If several trainings run at a time, or are stopped early, a journal records the order in
    which they finished.

    Args:
        method, name, identity: the method, its name, and what changes if it would choose otherwise. A journal
            belongs to one identity.
        metrics: the objectives, from pick_metrics.
        lookups: maximum number of configurations to start, including the initial design. A method that stops
            trainings early then resumes the stopped trainings, until all have ended or the time is over.
        devices: devices to train on, in turn.
        updates: the number of updates after which trainings are first stopped, and the approximate number of
            a whole training. There is then no initial design. None: all trainings run to their end.
        seconds: maximum real time, without breaks between runs. With `updates`, trainings that still run then
            save their states and are ended. Without, they run to their end, and only the rest of the
            initial design is started.
        told: called with each step.
        constraints: from pick_constraints. core/constraints.py describes what the method learns about them. A
            metric that is only measured at the end of a training does not count against the row before.
        prior: how good each configuration is expected to be, as logarithms of weights, shape (N,).
        most: with `updates`, the updates of all trainings together, after which the search ends and the
            states of trainings that were stopped are removed. `lookups` then does not count.
        repeats: whether the method may request a configuration again. It is then trained with another seed,
            or the ledger's next replicate of it is used.

    Raises InputError if trainings cannot be stopped early, or not by these metrics.
    """
    spec = workspace.spec
    if updates is not None and not spec.family.pauses:
        raise InputError(f"trainings of family {spec.family.name!r} cannot be paused: leave out --updates.")
    refuse_unfit_objectives(spec, [metric.name for metric in metrics])
    if updates is not None:
        _refuse_without_checkpoints(workspace, metrics)
    lookups = spec.size if math.isfinite(most) else min(lookups, spec.size)
    first = [] if spec.start is None else [spec.start]
    n_initial = len(first) if updates else min(n_initial, lookups)
    resources = np.unique(np.geomspace(*updates, 12)) if updates else np.ones(1)
    resources.setflags(write=False)
    in_order = workers == 1 and updates is None and math.isinf(seconds)  # whole trainings, one at a time
    problem = Problem(
        spec.space.features(spec.configs),
        len(metrics),
        lookups,
        n_initial,
        spec.space,
        spec.configs,
        workers=workers,
        resources=resources,
        clock="lookups" if in_order else "cost",
        time=min(seconds, sys.float_info.max) if math.isfinite(most) else seconds,  # ends before infinity
        constraints=tuple(map(str, constraints)),
        prior=prior,
        again=repeats,
    )
    settings: dict[str, Any] = {
        "method": name,
        "fingerprint": identity,
        "metrics": [metric.name for metric in metrics],
        "grid": hashlib.sha256(np.ascontiguousarray(spec.configs).tobytes()).hexdigest(),
        "lookups": lookups,
        "workers": workers,
        "updates": updates,
        "seed": seed,
        **({"most": most} if math.isfinite(most) else {}),
        **({"repeats": "auto"} if repeats else {}),
    }
    if constraints:  # left out otherwise, so that journals of versions without constraints can be resumed
        settings["constraints"] = [str(each) for each in constraints]
    journal = None if in_order else Journal.of(workspace.folder, settings)
    if journal and not journal.path.exists():
        _warn_of_other_code(workspace.folder, settings)
    partial = updates is not None
    with (
        journal.held() if journal else nullcontext(),
        LiveTrainer(
            workspace, metrics, partial, devices, workers, journal, told, seconds, constraints, most
        ) as trainer,
    ):
        drawn = initial_rows(seed, spec.name, 0, spec.size, n_initial)
        initial = list(dict.fromkeys([*first, *drawn]))[:n_initial]
        rng = method_generator(seed, spec.name, name, 0)
        limits = trainer.violations if constraints else None
        trajectory = run_trial(problem, trainer, method, rng, initial, violations=limits)
    if trainer.spent:
        remove_folder(workspace.states)
    clear_workspace(workspace)  # not reached after an error, whose message may name a log
    return trajectory


def train_again(
    workspace: Workspace,
    trainings: Sequence[tuple[int, int]],
    metric: Metric,
    devices: Sequence[str],
    workers: int,
) -> list[float]:
    """The losses of replicates of rows, NaN if failed. They are trained unless the ledger has them.

    Raises RunError if a training could not be run.
    """
    processes, room, free = Processes(), Room(), SimpleQueue[str]()
    for worker in range(workers):
        free.put(devices[worker % len(devices)])

    def loss_of(training: tuple[int, int]) -> float:
        row, replicate = training
        device = free.get()
        try:
            done = room.trained(
                lambda last: train_and_record(workspace, row, replicate, device, processes, True, last)
            )
        finally:
            free.put(device)
        if isinstance(done, Unfinished):
            raise RunError(f"{describe(workspace.spec.configuration(row))}: {done.reason}")
        value = done.metrics.get(metric.name, math.nan)
        return float(Objective(metric.name, metric.direction).to_loss(value))

    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(loss_of, trainings))
        except BaseException:
            processes.stop()
            raise


def _refuse_without_checkpoints(workspace: Workspace, metrics: Sequence[Metric]) -> None:
    """Refuse metrics that the checkpoints of some configuration do not have, before anything is trained."""
    spec = workspace.spec
    if not (check := spec.family.checkpoint_check):
        return
    corpus = load_corpus(spec.corpus, spec.base, workspace.cache)
    for name in (metric.name for metric in metrics):

        def check_one(settings: Any, name: str = name) -> None:
            check(settings, corpus, name)

        for _, _, wrong in check_all(spec.grid, spec.settings, check_one):
            raise InputError(f"{spec.path}: trainings cannot be stopped early by {name} (--updates): {wrong}")


def _warn_of_other_code(folder: Path, settings: Mapping[str, Any]) -> None:
    """Warn if the folder has a journal that differs from these settings only in the method's code."""
    method = settings["method"]
    others = {key: value for key, value in settings.items() if key != "fingerprint"}
    begun = False
    with suppress(InputError):  # a damaged journal belongs to another search
        begun = begun_with(folder, method, others | {"constraints": settings.get("constraints")})
    if begun:
        warn(
            f"{folder}: {method} or its libraries may have changed since this search was started, so "
            f"it starts again with a new journal. Trainings in the ledger are not repeated."
        )


def pick_metrics(spec: Spec, names: Sequence[str]) -> list[Metric]:
    """The metrics to optimise: those named, or the spec's first objective.

    Raises InputError if the spec does not measure a metric, or if a metric is named twice.
    """
    known = {metric.name: metric for metric in spec.metrics}
    chosen = list(names) or [spec.objectives[0]]
    check_known("metric", chosen, known, f"({spec.path})")
    if len(set(chosen)) < len(chosen):
        raise InputError("the same objective twice.")
    return [known[name] for name in chosen]


def pick_constraints(spec: Spec, texts: Sequence[str]) -> list[Constraint]:
    """Constraints from texts such as "dev_cpu_time<=7", on metrics that trainings of the spec measure.

    Raises InputError if a text cannot be read, or names a metric that the family does not measure.
    """
    found = parse_constraints(texts, "--constraint")
    known = [metric.name for metric in spec.family.metrics]
    named = [each.metric for each in found]
    check_known("metric", named, known, f"(--constraint; family {spec.family.name!r})")
    return found
