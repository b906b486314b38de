"""A method picks which configurations of a grid are trained (Zhang & Duh 2020, Figure 3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.core.constraints import Constraint, parse_constraints
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import of_objectives
from hpobench_nmt.runner.specs.spec import Spec
from hpobench_nmt.runner.training.workspace import Workspace, clear_workspace
from hpobench_nmt.runner.tuning.journal import Journal
from hpobench_nmt.runner.tuning.live_trainer import LiveTrainer, TuningStep


def tune(
    workspace: Workspace,
    method: NamedMethod,
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
) -> Trajectory:
    """Run the loop with real trainings. Everything that ends goes to the ledger.

    The same command resumes where it was: rows that the ledger holds are not trained again, so a method that
    was stopped takes the same way back. Where several trainings run at a time, or stop on the way, a journal
    says in which order they finished.

    Args:
        metrics: to optimise, from pick_metrics.
        lookups: the most configurations to start, the initial design included. A method that stops trainings
            early then resumes those that it has stopped, until all have ended or the time is over.
        devices: to train on, in turns.
        updates: after how many updates trainings are stopped first, and how many make a whole one, roughly;
            None: all run to their end. With it there is no initial design.
        seconds: the most real time, without breaks between runs. What runs then is paused where it was.
        constraints: from pick_constraints; core/constraints.py says what the method is told of them. A metric
            that is only measured at the end of a training is not held against the row before.
    """
    spec = workspace.spec
    if updates is not None and not spec.family.pauses:
        raise InputError(f"trainings of family {spec.family.name!r} cannot be paused: leave out --updates.")
    lookups = min(lookups, spec.size)
    n_initial = 0 if updates else min(n_initial, lookups)
    resources = np.unique(np.geomspace(*updates, 12)) if updates else np.ones(1)
    resources.setflags(write=False)
    in_order = workers == 1 and updates is None and math.isinf(seconds)  # one whole training after the other
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
        time=seconds,
        constraints=tuple(map(str, constraints)),
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
    if constraints:  # a journal of a version that knew no constraints is resumed without them
        settings["constraints"] = [str(each) for each in constraints]
    journal = None if in_order else Journal.of(workspace.folder, settings)
    partial = updates is not None
    with (
        journal.held() if journal else nullcontext(),
        LiveTrainer(
            workspace, metrics, partial, devices, workers, journal, told, seconds, constraints
        ) as trainer,
    ):
        initial = initial_rows(seed, spec.name, 0, spec.size, n_initial)
        rng = method_generator(seed, spec.name, method.name, 0)
        limits = trainer.violations if constraints else None
        trajectory = run_trial(problem, trainer, method.load(), rng, initial, violations=limits)
    clear_workspace(workspace)  # not after an error, whose message may name a log
    return trajectory


def pick_metrics(spec: Spec, names: Sequence[str], method: NamedMethod) -> list[Metric]:
    """The metrics to optimise: those named, or the spec's first objective.

    Raises InputError if the spec does not measure one, one is there twice, or the method is for fewer.
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

    Raises InputError if one cannot be read, or is on a metric that the family does not measure.
    """
    found = parse_constraints(texts, "--constraint")
    known = [metric.name for metric in spec.family.metrics]
    for each in found:
        if each.metric not in known:
            raise unknown("metric", each.metric, known, f"(--constraint; family {spec.family.name!r})")
    return found
