"""JSON files of a single object: SMAC3's run history, the state of `hb.minimize`, and HPO-B's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hpobench_nmt.core.space import Hyperparameter, Value
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.lookup.imports.cells import columns_of, objects
from hpobench_nmt.lookup.imports.headings import SECONDS
from hpobench_nmt.lookup.imports.reports import Steps, fold
from hpobench_nmt.lookup.imports.sweep import About, Choices, Column, Sweep, one_study

# 0 is a running trial, 1 a success; others crashed, or ran out of time or memory.
_STATES = {0: "unfinished", 1: "finished", "RUNNING": "unfinished", "SUCCESS": "finished"}


def read_object(content: Mapping[str, Any], path: Path, choices: Choices) -> Sweep | None:
    """The sweep of a file of one of these kinds; None if it is another object."""
    if isinstance(content.get("data"), list) and isinstance(content.get("configs"), dict):
        return _run_history(content, path)
    if {"space", "method", "events"} <= content.keys():
        return _minimized(checked(content, _State, str(path)), path)
    tables = {
        f"{space}/{task}": table
        for space, tasks in content.items()
        for task, table in (tasks.items() if isinstance(tasks, dict) else ())
        if isinstance(table, dict) and {"X", "y"} <= table.keys()
    }
    if tables:
        wanted = one_study(list(tables), choices.study, path, "table")
        return _hpo_b(tables[wanted], path, wanted.replace("/", "-"))
    return None


def _run_history(content: Mapping[str, Any], path: Path) -> Sweep:
    """The sweep of SMAC3: a trial has a configuration, an instance, a seed, a budget and a cost.

    Trials of one configuration, instance and seed with several budgets are one training and its curve.
    """
    data = content["data"]
    if not data or not all(isinstance(row, list) and len(row) in (10, 11) for row in data):
        raise InputError(
            f"{path}: SMAC3's run history of another version. Its trials have 10 or 11 values each."
        )
    costs = [row[4] if isinstance(row[4], list) else [row[4]] for row in data]
    named = [{f"cost_{k}" if len(cost) > 1 else "cost": v for k, v in enumerate(cost)} for cost in costs]
    columns, about = _settings([content["configs"][str(row[0])] for row in data])
    columns |= columns_of(named)
    about |= {name: About("metric", "what the study optimised", direction="min", objective=True) for name in
              columns_of(named)}  # fmt: skip
    columns |= columns_of([{"instance": r[1], "seed": r[2], "budget": r[3], SECONDS: r[5]} for r in data])
    about |= {
        "instance": About("aside"),
        "seed": About("seed"),
        "budget": About("aside", "the budget of a trial"),
    }
    about[SECONDS] = About("seconds", "the time of a trial", unit="s")
    states = objects([_STATES.get(row[-4], "failed") for row in data])
    sweep = _sweep("SMAC3's run history", path, path.stem, columns, about, states)
    if columns["budget"].dtype == object or len(np.unique(columns["budget"])) < 2:
        return sweep
    keys = [(str(row[0]), str(row[1]), str(row[2])) for row in data]
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    ids = np.array([number[key] for key in keys], dtype=np.int64)
    return fold(sweep, Steps(ids, columns["budget"], "budget"))


class _Event(msgspec.Struct, frozen=True):
    config: dict[str, Value]
    losses: list[float | None] | None = None
    violations: list[float | None] | None = None


class _State(msgspec.Struct, frozen=True):
    """What is read of a state of `hb.minimize` or `hb.Optimizer`, of any format."""

    space: list[Hyperparameter]
    objectives: int
    events: list[_Event]
    constraints: list[str] = []


def _minimized(state: _State, path: Path) -> Sweep:
    """The sweep of our own state: a training for each configuration that has losses, in their order."""
    told = [event for event in state.events if event.losses is not None]
    if not told:
        raise InputError(f"{path}: a state without a finished evaluation.")
    columns, about = _settings([event.config for event in told])
    for axis in state.space:
        about[f"config.{axis.name}"] = About(
            "hyperparameter", "in the space", name=axis.name, scale=axis.scale, unit=axis.unit, exact=axis
        )
    losses = ["loss"] if state.objectives == 1 else [f"loss_{k}" for k in range(state.objectives)]
    measured = [dict(zip(losses, event.losses or (), strict=True)) for event in told]
    columns |= columns_of(measured)
    about |= {name: About("metric", "a loss", direction="min", objective=True) for name in losses}
    excess = [dict(zip(state.constraints, event.violations or (), strict=False)) for event in told]
    columns |= columns_of(excess)
    about |= {name: About("metric", "a constraint", direction="min") for name in state.constraints}
    return _sweep("the state of hb.minimize", path, path.stem, columns, about)


def _hpo_b(table: Mapping[str, Any], path: Path, title: str) -> Sweep:
    """The sweep of one of HPO-B's tables, whose columns have no names. The values of y are maximised."""
    columns, about = _settings([{f"x{k}": x for k, x in enumerate(row)} for row in table["X"]])
    values = [row[0] if isinstance(row, list) else row for row in table["y"]]
    if len(values) != len(table["X"]):
        raise InputError(f"{path}: X has {len(table['X'])} rows, and y has {len(values)}.")
    columns |= columns_of([{"y": value} for value in values])
    about["y"] = About("metric", "HPO-B's values of y", direction="max", objective=True)
    return _sweep("HPO-B", path, title, columns, about)


def _settings(configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Column], dict[str, About]]:
    columns = {f"config.{name}": cells for name, cells in columns_of(configs).items()}
    about = {
        name: About("hyperparameter", "in a configuration", name=name.removeprefix("config."))
        for name in columns
    }
    return columns, about


def _sweep(
    kind: str, path: Path, title: str, columns: dict[str, Column], about: dict[str, About], states: Any = None
) -> Sweep:
    return Sweep(kind, path, title, columns, about, states, place=lambda row: f"trial {row}", typed=True)
