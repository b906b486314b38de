"""Learning curves as W&B exports them: columns of values, minima and maxima for each run and metric.

"Step","lr-0.1 - val_loss","lr-0.1 - val_loss__MIN","lr-0.1 - val_loss__MAX","lr-0.2 - val_loss",…
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.imports.cells import as_numbers, column_of, columns_of
from hpobench_nmt.lookup.imports.sweep import Column, Sweep, points_of

_ENDS = ("__MIN", "__MAX")
_BETWEEN = " - "
_SETTING = re.compile(
    r"(?:^|[,_\s;/-])([A-Za-z][A-Za-z0-9_.]*?)=([^,\s;=]+?)(?=[,_\s;/-]+[A-Za-z][A-Za-z0-9_.]*=|[,\s;]|$)"
)
Curve = tuple[Floats, Floats]
"""Steps and values."""


def is_wide(names: Sequence[str]) -> bool:
    """Whether these are the columns of such an export."""
    known = set(names)
    return any(name.endswith("__MIN") and _BETWEEN in name and name[:-5] in known for name in names[1:])


def wide_curves(columns: Mapping[str, Column], path: Path) -> dict[tuple[str, str], Curve]:
    """The curves of such an export by run and metric, without the steps at which a run has no value."""
    names = list(columns)
    steps, wrong = as_numbers(columns[names[0]])
    if wrong is not None or np.isnan(steps).any():
        raise InputError(f"{path}: the first column, {shortened(names[0])}, does not count steps.")
    found: dict[tuple[str, str], Curve] = {}
    for name in names[1:]:
        run, between, metric = name.rpartition(_BETWEEN)
        if not between or name.endswith(_ENDS) or metric.startswith("_"):
            continue
        values, wrong = as_numbers(columns[name])
        if wrong is not None:
            raise InputError(
                f"{path}: {shortened(name)} holds {str(columns[name][wrong])[:40]!r}, not a number."
            )
        kept = ~np.isnan(values)
        found[run, metric] = steps[kept], values[kept]
    if not found:
        raise InputError(f"{path}: no column is called RUN - METRIC, as W&B exports curves.")
    return found


def with_curves(sweep: Sweep, curves: Mapping[tuple[str, str], Curve], resource: str) -> Sweep:
    """The sweep of runs with their learning curves, which are matched by the names of the runs."""
    column = next(
        (each for each in ("Name", "name", "run_name", "tags.mlflow.runName") if each in sweep.columns), ""
    )
    if not column:
        raise InputError(f"{sweep.path}: has no column Name, by which curves of runs are found.")
    names = list(map(str, sweep.columns[column]))
    times = Counter(names)
    row_of = {name: row for row, name in enumerate(names) if times[name] == 1}
    notes = list(sweep.notes)
    for reason, lost in (
        ("belong to no run of the other file", {run for run, _ in curves if run not in times}),
        ("have the name of several runs", {run for run, _ in curves if times[run] > 1}),
    ):
        if lost:
            shown = ", ".join(map(shortened, sorted(lost)[:3])) + (", …" if len(lost) > 3 else "")
            notes.append(f"{counted(len(lost), 'curve')} {reason} and were left out: {shown}")
    kept = {(row_of[run], metric): curve for (run, metric), curve in curves.items() if run in row_of}
    if not kept:
        raise InputError(f"{sweep.path}: none of the curves belongs to one of its runs.")
    of_name = {sweep.name(each): each for each in sweep.columns}
    columns = dict(sweep.columns)
    for metric in dict.fromkeys(metric for _, metric in kept):
        if metric not in of_name:  # the row's own value is the last of its curve
            own = [kept.get((row, metric)) for row in range(len(names))]
            columns[metric] = column_of([curve[1][-1] if curve and len(curve[1]) else "" for curve in own])
    of_rows: list[dict[str, dict[float, float]]] = [{} for _ in names]
    for (row, metric), (steps, values) in kept.items():
        of_rows[row][of_name.get(metric, metric)] = dict(zip(steps.tolist(), values.tolist(), strict=True))
    return replace(sweep, columns=columns, points=points_of(resource, of_rows), notes=tuple(notes))


def sweep_of_names(curves: Mapping[tuple[str, str], Curve], path: Path) -> Sweep:
    """The sweep of curves whose runs are named after their configurations, such as lr=0.1_layers=2."""
    runs = list(dict.fromkeys(run for run, _ in curves))
    settings = [dict(_SETTING.findall(run)) for run in runs]
    if not settings[0] or any(each.keys() != settings[0].keys() for each in settings):
        raise InputError(
            f"{path}: holds the learning curves of {counted(len(runs), 'run')}, not their hyperparameters. "
            "Export the table of runs as CSV as well, and give both: tables import RUNS.csv --curves FILE."
        )
    typed = [{name: _typed(text) for name, text in each.items()} for each in settings]
    columns: dict[str, Column] = {"Name": column_of(runs), **columns_of(typed)}
    roles = {"Name": "identity", **dict.fromkeys(settings[0], "hyperparameter")}
    reasons = {"Name": "the name of a run", **dict.fromkeys(settings[0], "in the names of the runs")}
    return Sweep("W&B's learning curves", path, path.stem, columns, roles, reasons=reasons)  # type: ignore[arg-type]


def _typed(text: str) -> float | str:
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text
