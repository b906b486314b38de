"""What the rows of a table should beat: the result of a simpler model of another kind on the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.core.system.validation import Finite, Strict

if TYPE_CHECKING:
    from hpobench_nmt.lookup.table import Table


class Baseline(Strict, frozen=True):
    """A baseline: its name, its value of a metric of the table, and how the value was computed."""

    name: str
    metric: str
    value: Finite
    how: str


def baseline_of(claims: Mapping[str, Any]) -> Baseline | None:
    """The baseline among a table's claims, if there is one."""
    claimed = claims.get("baseline")
    return None if claimed is None else msgspec.convert(claimed, Baseline)


def rows_that_beat(table: Table, baseline: Baseline) -> int:
    """The number of rows with a better value of the baseline's metric."""
    objective = table.objective(baseline.metric)
    losses = objective.to_loss(table.column(objective.metric))
    return int((losses < objective.to_loss(np.array(baseline.value))).sum())


def baseline_sentence(table: Table) -> str:
    """How many rows beat the table's baseline, such as "82 of 96 rows (85%) beat …"; "" without one."""
    baseline = baseline_of(table.claims)
    if baseline is None:
        return ""
    better = rows_that_beat(table, baseline)
    some = f"{better:,} of {counted(len(table), 'row')} ({better / len(table):.0%}) beat"
    subject = some if better else "no row beats"
    return f"{subject} {baseline.name}, whose {baseline.metric} is {short(baseline.value)}"
