"""SMAC3's run history: `runhistory.json`, whose objects are over several lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.cells import columns_of
from hpobench_nmt.lookup.imports.headings import SECONDS
from hpobench_nmt.lookup.imports.reports import fold
from hpobench_nmt.lookup.imports.sweep import Column, Role, Sweep

_KIND = "SMAC3's run history"
# 0 is a running trial, 1 a success; others crashed, or ran out of time or memory.
_STATES = {0: "unfinished", 1: "finished", "RUNNING": "unfinished", "SUCCESS": "finished"}


def is_runhistory(content: Mapping[str, Any] | None) -> bool:
    """Whether an object of JSON is such a run history."""
    return (
        content is not None
        and isinstance(content.get("data"), list)
        and isinstance(content.get("configs"), dict)
    )


def read_runhistory(content: Mapping[str, Any], path: Path) -> Sweep:
    """The sweep of a run history: a trial has a configuration, an instance, a seed, a budget and a cost.

    Trials of one configuration, instance and seed with several budgets are one training and its curve.
    """
    data = content["data"]
    if not data or not all(isinstance(row, list) and len(row) in (10, 11) for row in data):
        raise InputError(f"{path}: {_KIND} of another version. Its trials have 10 or 11 values each.")
    configs = [content["configs"][str(row[0])] for row in data]
    settings = {f"config.{name}": cells for name, cells in columns_of(configs).items()}
    roles: dict[str, Role] = dict.fromkeys(settings, "hyperparameter")
    costs = columns_of([{f"cost_{k}": v for k, v in enumerate(row[4])} if isinstance(row[4], list)
                        else {"cost": row[4]} for row in data])  # fmt: skip
    roles |= dict.fromkeys(costs, "metric")
    more = columns_of(
        [{"instance": row[1], "seed": row[2], "budget": row[3], SECONDS: row[5]} for row in data]
    )
    roles |= {"instance": "aside", "seed": "seed", "budget": "aside", SECONDS: "seconds"}
    states: Column = np.empty(len(data), dtype=object)
    states[:] = [_STATES.get(row[-4], "failed") for row in data]
    sweep = Sweep(
        _KIND, path, path.stem, {**settings, **costs, **more}, roles,
        {column: column.removeprefix("config.") for column in settings},
        {**dict.fromkeys(settings, "in a configuration"), "budget": "the budget of a trial"},
        tuple(costs), dict.fromkeys(costs, "min"), {}, states, place=lambda row: f"trial {row}", typed=True,
    )  # fmt: skip
    budgets = more["budget"]
    if budgets.dtype == object or len(np.unique(budgets)) < 2:
        return sweep
    keys = [(str(row[0]), str(row[1]), str(row[2])) for row in data]
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return fold(sweep, np.array([number[key] for key in keys], dtype=np.int64), budgets, "budget")
