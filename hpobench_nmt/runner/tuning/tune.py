"""A method picks configurations of a grid one by one, and each is trained (Zhang & Duh 2020, Figure 3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Constraint, parse_constraints
from hpobench_nmt.core.errors import InputError, RunError, unknown
from hpobench_nmt.core.loop import run_trial
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.simulation import Event
from hpobench_nmt.core.timed_loop import run_timed_trial
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.methods import of_objectives
from hpobench_nmt.runner.ledgers.ledger import Record, training_key
from hpobench_nmt.runner.ledgers.ledger_tail import recorded
from hpobench_nmt.runner.specs.spec import Spec, describe
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.train_row import Unfinished, train_and_record
from hpobench_nmt.runner.training.workspace import Workspace, clear_workspace
from hpobench_nmt.runner.tuning.live_trainer import Journal, LiveTrainer, refuse_unmeasured

ToldOfEvent = Callable[[int, Event, Floats, Floats, bool], None]


@dataclass(frozen=True)
class TuningStep:
    """One look-up of a tuning run.

    Attributes:
        number: from 1.
        record: its record in the ledger.
        known: whether the ledger held it already.
        losses: of the record, NaN if the training failed.
        violations: by how much it misses each constraint, shape (c,), NaN if that was not measured.
    """

    number: int
    record: Record
    known: bool
    losses: Floats
    violations: Floats


def tune(
    workspace: Workspace,
    method: NamedMethod,
    metrics: Sequence[Metric],
    lookups: int,
    seed: int,
    device: str,
    n_initial: int = 3,
    told: Callable[[TuningStep], None] = lambda step: None,
    constraints: Sequence[Constraint] = (),
) -> Trajectory:
    """Run the loop with training as the look-up. Everything trained goes to the ledger.

    The same command goes on where it was: rows that the ledger holds are not trained again, so a method
    that was stopped takes the same way back to where it was.

    Args:
        workspace: the spec and its ledger.
        method: picks the configurations.
        metrics: the metrics to optimise, from pick_metrics.
        lookups: the most configurations to train, the initial design included.
        seed: of the initial design and the method.
        device: to train on.
        n_initial: size of the initial design.
        told: called after every look-up.
        constraints: from pick_constraints; core/constraints.py says what the method is told of them.
    """
    spec = workspace.spec
    lookups = min(lookups, spec.size)
    n_initial = min(n_initial, lookups)
    problem = _problem(spec, metrics, lookups, n_initial, constraints)
    processes = Processes()
    violations: dict[int, Floats] = {}
    ended: list[Record] = []

    def evaluate(row: int) -> Floats:
        key = training_key(spec.configuration(row), 0)
        known = recorded(workspace.ledger, key) is not None
        record = train_and_record(workspace, row, 0, device, processes)
        if isinstance(record, Unfinished) and record.kind == "again":
            record = train_and_record(workspace, row, 0, device, processes, last=True)
        if isinstance(record, Unfinished):
            raise RunError(f"{describe(spec.configuration(row))}: {record.reason}")
        ended.append(record)
        refuse_unmeasured(metrics, ended)
        losses = np.array([_loss(record, metric) for metric in metrics])
        violations[row] = np.array([each.missed_by(record.metrics) for each in constraints])
        told(TuningStep(len(ended), record, known, losses, violations[row]))
        return losses

    try:
        initial = initial_rows(seed, spec.name, 0, spec.size, n_initial)
        rng = method_generator(seed, spec.name, method.name, 0)
        limits = violations.__getitem__ if constraints else None
        trajectory = run_trial(problem, evaluate, method.load(), rng, initial, violations=limits)
    finally:
        processes.stop()
    clear_workspace(workspace)  # not after an error, whose message may name a log
    return trajectory


def _problem(
    spec: Spec, metrics: Sequence[Metric], lookups: int, n_initial: int, constraints: Sequence[Constraint]
) -> Problem:
    """What a method sees of a spec, with one worker and no clock."""
    features = spec.space.features(spec.configs)
    limits = tuple(map(str, constraints))
    return Problem(features, len(metrics), lookups, n_initial, spec.space, spec.configs, constraints=limits)


def tune_in_parallel(
    workspace: Workspace,
    method: NamedMethod,
    metrics: Sequence[Metric],
    lookups: int,
    seed: int,
    devices: Sequence[str],
    workers: int,
    updates: tuple[int, int] | None = None,
    seconds: float = math.inf,
    told: ToldOfEvent = lambda number, event, losses, violations, new: None,
    n_initial: int = 3,
    constraints: Sequence[Constraint] = (),
) -> Trajectory:
    """Several trainings at a time, in real time, which a method may stop on the way and go on with later.

    The same command goes on where it was: see hpobench_nmt.runner.tuning.live_trainer.

    Args:
        workspace, method, metrics, seed: as for `tune`.
        lookups: the most configurations to begin. A method that stops trainings early then goes on with
            those that it has stopped, until all have ended or the time is over.
        devices: to train on, in turns.
        workers: how many trainings run at a time.
        updates: after how many updates trainings are stopped first, and how many make a whole one, roughly;
            None: all go to their end. With it there is no initial design.
        seconds: the most real time, without breaks between runs. What runs then is paused where it was.
        told: called after each training that finishes, with how many have, the event, the losses of the row's
            best checkpoint, by how much it misses each constraint (NaN where that is not measured), and
            whether it is new (False: it finished before a kill).
        n_initial: size of the initial design.
        constraints: from pick_constraints. A metric that is only measured at the end of a training is not
            held against the row before.
    """
    spec = workspace.spec
    if updates is not None and not spec.family.pauses:
        raise InputError(f"trainings of family {spec.family.name!r} cannot be paused: leave out --updates.")
    lookups = min(lookups, spec.size)
    n_initial = 0 if updates else min(n_initial, lookups)
    resources = np.unique(np.geomspace(*updates, 12)) if updates else np.ones(1)
    resources.setflags(write=False)
    problem = replace(
        _problem(spec, metrics, lookups, n_initial, constraints),
        workers=workers,
        resources=resources,
        clock="cost",
        time=seconds,
    )
    settings: dict[str, Any] = {
        "method": method.name,
        "fingerprint": method.fingerprint,
        "metrics": [metric.name for metric in metrics],
        "grid": hashlib.sha256(np.ascontiguousarray(spec.configs).tobytes()).hexdigest(),
        "lookups": lookups,
        "workers": workers,
        "updates": updates,
        "seed": seed,
    }
    if constraints:  # without them, a journal of a version that knew none goes on
        settings["constraints"] = [str(each) for each in constraints]
    count = 0

    def tell(event: Event, losses: Floats, violations: Floats, new: bool) -> None:
        nonlocal count
        count += 1
        told(count, event, losses, violations, new)

    journal = Journal.of(workspace.folder, settings)
    partial = updates is not None
    with (
        journal.held(),
        LiveTrainer(
            workspace, metrics, partial, devices, workers, journal, tell, seconds, constraints
        ) as trainer,
    ):
        initial = initial_rows(seed, spec.name, 0, spec.size, n_initial)
        rng = method_generator(seed, spec.name, method.name, 0)
        limits = trainer.violations if constraints else None
        trajectory = run_timed_trial(problem, trainer, method.load(), rng, initial, violations=limits)
    clear_workspace(workspace)  # not after an error, whose message may name a log
    return trajectory


def pick_metrics(spec: Spec, names: Sequence[str], method: NamedMethod) -> list[Metric]:
    """The metrics to optimise: those named, or the spec's first objective.

    Raises:
        InputError: the spec does not measure one, one is there twice, or the method is not for that many.
    """
    known = {metric.name: metric for metric in spec.metrics}
    chosen = list(names) or [spec.objectives[0]]
    for name in chosen:
        if name not in known:
            raise unknown("metric", name, known, f"({spec.path})")
    if len(set(chosen)) < len(chosen):
        raise InputError("the same objective twice.")
    if method.objectives and len(chosen) not in method.objectives:
        right = of_objectives(method.objectives)
        raise InputError(f"method {method.name} is for {right}, not {len(chosen)}.")
    return [known[name] for name in chosen]


def pick_constraints(spec: Spec, texts: Sequence[str]) -> list[Constraint]:
    """The constraints of texts such as "dev_cpu_time<=7", on metrics that trainings of the spec measure.

    Raises:
        InputError: one cannot be read, or is on a metric that the family does not measure.
    """
    found = parse_constraints(texts, "--constraint")
    known = [metric.name for metric in spec.family.metrics]
    for each in found:
        if each.metric not in known:
            raise unknown("metric", each.metric, known, f"(--constraint; family {spec.family.name!r})")
    return found


def _loss(record: Record, metric: Metric) -> float:
    value = float(record.metrics.get(metric.name, np.nan))
    return Objective(metric.name, metric.direction).to_loss(value)
