"""A table as a problem of NePS: `pip install neural-pipeline-search hpobench-nmt`.

NePS has no ordinals. Numbers and ordered labels are therefore their positions on the grid, as integers, and
categories stay categories. A configuration without a row gets the value of the nearest row.

    neps.run(pipeline_of("lohelp-de-en"), space_of("lohelp-de-en"), root_directory="found",
             total_evaluations_to_spend=30)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neps

import hpobench_nmt as hb


def space_of(name: str) -> neps.PipelineSpace:
    """The search space of a table. Inactive hyperparameters have a value that does not count."""
    axes: dict[str, Any] = {}
    for axis in hb.load_table(name).space:
        ordered = axis.kind != "categorical" and len(axis.values) > 1
        axes[axis.name] = (
            neps.Integer(0, len(axis.values) - 1)
            if ordered
            else neps.Categorical(tuple(range(len(axis.values))))
        )
    return type("Space", (neps.PipelineSpace,), axes)()


def config_of(name: str, positions: dict[str, int]) -> dict[str, Any]:
    """The configuration at these positions, without inactive hyperparameters."""
    config: dict[str, Any] = {}
    for axis in hb.load_table(name).space.parents_first:
        if all(config.get(parent) in values for parent, values in axis.active_if):
            config[axis.name] = axis.values[positions[axis.name]]
    return config


def pipeline_of(name: str, metric: str | None = None) -> Callable[..., float]:
    """The function that NePS minimises."""
    table = hb.load_table(name)
    loss = table.function([metric or table.main_metric], "nearest")
    return lambda **positions: float(loss(config_of(name, positions)))
