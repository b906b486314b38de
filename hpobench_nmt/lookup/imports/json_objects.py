"""JSON files of a single object: SMAC3's run history, the state of `hb.minimize`, and HPO-B's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.space import Hyperparameter, Value
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.lookup.imports.cells import columns_of, objects
from hpobench_nmt.lookup.imports.headings import SECONDS
from hpobench_nmt.lookup.imports.reports import fold, step_of
from hpobench_nmt.lookup.imports.sweep import About, Choices, Sweep, one_study

# 0 is a running trial, 1 a success; others crashed, or ran out of time or memory.
_STATES = {0: "unfinished", 1: "finished", "RUNNING": "unfinished", "SUCCESS": "finished"}
_Record = dict[str, Any]


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
    if not tables:
        return None
    wanted = one_study(list(tables), choices.study, path, "table")
    rows, values = tables[wanted]["X"], tables[wanted]["y"]
    if len(values) != len(rows):
        raise InputError(f"{path}: X has {len(rows)} rows, and y has {len(values)}.")
    configs = [{f"x{k}": x for k, x in enumerate(row)} for row in rows]
    sweep = _sweep("HPO-B", path, configs, "y", values, "max")
    return replace(sweep, title=wanted.replace("/", "-"), studies=True)


def _run_history(content: Mapping[str, Any], path: Path) -> Sweep:
    """The sweep of SMAC3: a trial has a configuration, an instance, a seed, a budget and a cost.

    Trials of one configuration, instance and seed with several budgets are one training and its curve.
    """
    data = content["data"]
    if not data or not all(isinstance(row, list) and len(row) in (10, 11) for row in data):
        raise InputError(
            f"{path}: SMAC3's run history of another version. Its trials have 10 or 11 values each."
        )
    keys = {"config": 0, "instance": 1, "seed": 2, "budget": 3, SECONDS: 5}
    others = {"instance": About("aside"), "seed": About("seed"), "budget": About("aside", "of a trial")}
    others |= {"config": About("identity"), SECONDS: About("seconds", "the time of a trial", unit="s")}
    configs, costs = [content["configs"][str(row[0])] for row in data], [row[4] for row in data]
    more = [{key: row[place] for key, place in keys.items()} for row in data]
    sweep = _sweep("SMAC3's run history", path, configs, "cost", costs, "min", more, others)
    sweep = replace(sweep, states=objects([_STATES.get(row[-4], "failed") for row in data]))
    found = step_of(sweep, ["config", "instance", "seed"], ["budget"])
    return sweep if found is None or len(np.unique(found.steps)) < 2 else fold(sweep, found)


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
    others = {
        f"config.{axis.name}": About(
            "hyperparameter", "in the space", name=axis.name, scale=axis.scale, unit=axis.unit, exact=axis
        )
        for axis in state.space
    } | {name: About("metric", "a constraint", direction="min") for name in state.constraints}
    excess = [dict(zip(state.constraints, event.violations or (), strict=False)) for event in told]
    configs, losses = [event.config for event in told], [event.losses for event in told]
    return _sweep("the state of hb.minimize", path, configs, "loss", losses, "min", excess, others)


def _sweep(
    kind: str, path: Path, configs: Sequence[_Record], name: str, values: Sequence[Any], way: Direction,
    more: Sequence[_Record] = (), others: Mapping[str, About] = MappingProxyType({}),
) -> Sweep:  # fmt: skip
    """The sweep of configurations, of the objective or objectives of this name, and of more columns."""
    lists = [value if isinstance(value, list) else [value] for value in values]
    named = [{f"{name}_{k}" if len(each) > 1 else name: v for k, v in enumerate(each)} for each in lists]
    settings = columns_of([{f"config.{key}": value for key, value in config.items()} for config in configs])
    objectives = columns_of(named)
    chosen = "in a configuration"
    about = {c: About("hyperparameter", chosen, name=c.removeprefix("config.")) for c in settings}
    about |= {c: About("metric", "an objective", direction=way, objective=True) for c in objectives}
    return Sweep(
        kind, path, path.stem, {**columns_of(more), **settings, **objectives}, {**about, **others},
        place=lambda row: f"trial {row}", typed=True,
    )  # fmt: skip
