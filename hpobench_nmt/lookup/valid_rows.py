"""What must hold of a table's configurations and curves; where it does not, an InputError names the row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.groups import group_ids, in_groups

# At most this many values or rows are listed in a message.
_MOST_SHOWN = 10
NO_VALUE = "hyperparameter {!r} has no value. If it is inactive there, add active_if."


def check_curves(curves: Curves, metrics: Sequence[Metric], n_rows: int, where: str) -> None:
    """Refuse curves that are not those of n_rows rows with these metrics."""
    if len(curves) != n_rows:
        raise InputError(f"{where}: {counted(n_rows, 'row')}, but curves of {counted(len(curves), 'row')}.")
    known = {metric.name: metric.direction for metric in metrics}
    for metric, own in zip(curves.metrics, curves.own, strict=True):
        if known.get(metric.name, metric.direction) != metric.direction:
            raise InputError(f"{where}: {metric.name} has another direction in the curves.")
        if own is not None and metric.name not in known:
            raise InputError(f"{where}: the curves' {metric.name} is not one of its metrics.")


def check_configs(axes: Sequence[Hyperparameter], configs: Floats, where: str) -> None:
    """Refuse configurations that are equal, off the grid, or active or inactive where they must not be."""
    if ranges := [h.name for h in axes if h.continuous]:
        raise InputError(f"{where}: {ranges[0]} is a range; a table needs the values that occur.")
    if wrong := Space(tuple(axes)).wrongly_active(configs):
        raise InputError(f"{where}, row {wrong[0]}: {wrong[1]}")
    ids = group_ids([_checked_places(h, column, where) for h, column in zip(axes, configs.T, strict=True)])
    rows, follows = in_groups(ids)
    if len(rows):
        same = np.flatnonzero(ids == ids[rows[follows].min()])
        more = ", …" if len(same) > _MOST_SHOWN else ""
        raise InputError(
            f"{where}: rows {', '.join(map(str, same[:_MOST_SHOWN]))}{more} have the same configuration. "
            "A table has one row for each configuration: keep one, or average them."
        )


def _checked_places(h: Hyperparameter, codes: Floats, where: str) -> Rows:
    """The place of each code among the hyperparameter's values, from 0; one past the last where inactive."""
    inactive = np.isnan(codes)
    if inactive.any() and not h.active_if:
        row = int(np.flatnonzero(inactive)[0])
        raise InputError(f"{where}, row {row}: {NO_VALUE.format(h.name)}")
    known = np.array(h.numbers)
    places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    off_grid = np.flatnonzero((known[places] != codes) & ~inactive)
    if len(off_grid):
        row = int(off_grid[0])
        values = [*h.short_labels[:_MOST_SHOWN], *["…"] * (len(h.values) > _MOST_SHOWN)]
        shown, wrong = f"[{', '.join(values)}]", repr(codes[row].item()).removesuffix(".0")
        raise InputError(f"{where}, row {row}: {h.name} is {wrong}, which is not among its values {shown}.")
    places[inactive] = len(known)
    return places
