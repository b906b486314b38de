"""A method picks configurations of a grid one by one, and each is trained (Zhang & Duh 2020, Figure 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.core.errors import InputError, RunError, unknown
from hpobench_nmt.core.loop import run_trial
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.methods import counts
from hpobench_nmt.runner.ledger import Record, training_key
from hpobench_nmt.runner.ledger_tail import recorded
from hpobench_nmt.runner.processes import Processes
from hpobench_nmt.runner.spec import Spec, describe
from hpobench_nmt.runner.train_row import Unfinished, train_and_record
from hpobench_nmt.runner.workspace import Workspace, clear_workspace


@dataclass(frozen=True)
class TuningStep:
    """One look-up of a tuning run.

    Attributes:
        number: from 1.
        record: its record in the ledger.
        known: whether the ledger held it already.
        losses: the values that the method was given, NaN if the training failed.
    """

    number: int
    record: Record
    known: bool
    losses: NDArray[np.float64]


def tune(
    workspace: Workspace,
    method: NamedMethod,
    metrics: Sequence[Metric],
    lookups: int,
    seed: int,
    device: str,
    n_initial: int = 3,
    told: Callable[[TuningStep], None] = lambda step: None,
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
    """
    spec = workspace.spec
    lookups = min(lookups, spec.size)
    n_initial = min(n_initial, lookups)
    space = Space(spec.axes)
    problem = Problem(space.features(spec.configs), len(metrics), lookups, n_initial, space, spec.configs)
    processes = Processes()
    steps = 0

    def evaluate(row: int) -> NDArray[np.float64]:
        nonlocal steps
        steps += 1
        key = training_key(spec.configuration(row), 0)
        known = recorded(workspace.ledger, key) is not None
        record = train_and_record(workspace, row, 0, device, processes)
        if isinstance(record, Unfinished) and record.kind == "again":
            record = train_and_record(workspace, row, 0, device, processes, last=True)
        if isinstance(record, Unfinished):
            raise RunError(f"{describe(spec.configuration(row))}: {record.reason}")
        losses = np.array([_loss(record, metric) for metric in metrics])
        told(TuningStep(steps, record, known, losses))
        return losses

    try:
        initial = initial_rows(seed, spec.name, 0, spec.size, n_initial)
        rng = method_generator(seed, spec.name, method.name, 0)
        trajectory = run_trial(problem, evaluate, method.load(), rng, initial)
    finally:
        processes.stop()
    clear_workspace(workspace)  # not after an error, whose message may name a log
    return trajectory


def pick_metrics(spec: Spec, names: Sequence[str], method: NamedMethod) -> list[Metric]:
    """The metrics to optimise: those named, or the spec's first objective.

    Raises:
        InputError: the spec does not measure one, or the method is not for that many.
    """
    known = {metric.name: metric for metric in spec.metrics}
    chosen = list(names) or [spec.objectives[0]]
    for name in chosen:
        if name not in known:
            raise unknown("metric", name, known, f"({spec.path})")
    if method.objectives and len(chosen) not in method.objectives:
        right = counts(method.objectives)
        raise InputError(f"method {method.name} is for {right} objectives, not {len(chosen)}.")
    return [known[name] for name in chosen]


def _loss(record: Record, metric: Metric) -> float:
    value = float(record.metrics.get(metric.name, np.nan))
    return Objective(metric.name, metric.direction).to_loss(value)
