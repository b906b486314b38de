"""Learning curves as W&B exports them: columns of values, minima and maxima for each run and metric.

"Step","lr-0.1 - val_loss","lr-0.1 - val_loss__MIN","lr-0.1 - val_loss__MAX","lr-0.2 - val_loss",…
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.imports.cells import as_numbers
from hpobench_nmt.lookup.imports.csv_files import read_csv_columns
from hpobench_nmt.lookup.imports.reports import with_points
from hpobench_nmt.lookup.imports.sweep import Column, Sweep

_ENDS = ("__MIN", "__MAX")
_BETWEEN = " - "


def is_wide(names: Sequence[str]) -> bool:
    """Whether these are the columns of such an export."""
    known = set(names)
    return any(name.endswith("__MIN") and _BETWEEN in name and name[:-5] in known for name in names[1:])


def columns_of(path: Path) -> dict[str, Column]:
    """The columns of a CSV file."""
    return read_csv_columns(read_bytes(path, MAX_BYTES), path).columns


def _curves(columns: Mapping[str, Column], path: Path) -> dict[tuple[str, str], dict[float, float]]:
    """The curves of such an export by run and metric, as values by step."""
    steps, *others = columns
    counts = _numbers(columns[steps], steps, path)
    found = {}
    for name in others:
        run, between, metric = name.rpartition(_BETWEEN)
        if not between or name.endswith(_ENDS) or metric.startswith("_"):
            continue
        values = _numbers(columns[name], name, path)
        kept = ~np.isnan(values + counts)
        found[run, metric] = dict(zip(counts[kept].tolist(), values[kept].tolist(), strict=True))
    if not found:
        raise InputError(f"{path}: no column is called RUN - METRIC, as W&B exports curves.")
    return found


def _numbers(column: Column, name: str, path: Path) -> Floats:
    numbers, wrong = as_numbers(column)
    if wrong is not None:
        raise InputError(f"{path}: {shortened(name)} holds {str(column[wrong])[:40]!r}, not a number.")
    return numbers


def with_curves(sweep: Sweep, charts: Sequence[tuple[Path, Mapping[str, Column]]]) -> Sweep:
    """The sweep of runs with their learning curves, which are matched by the names of the runs."""
    heading = next((h for h in ("Name", "name", "run_name", "tags.mlflow.runName") if h in sweep.columns), "")
    if not heading:
        raise InputError(f"{sweep.path}: has no column Name, by which curves of runs are found.")
    runs = list(map(str, sweep.columns[heading]))
    times = Counter(runs)
    curves = {key: curve for path, columns in charts for key, curve in _curves(columns, path).items()}
    notes = list(sweep.notes)
    for reason, lost in (
        ("belong to no run of the other file", {run for run, _ in curves if run not in times}),
        ("have the name of several runs", {run for run, _ in curves if times[run] > 1}),
    ):
        if lost:
            shown = ", ".join(map(shortened, sorted(lost)[:3])) + (", …" if len(lost) > 3 else "")
            notes.append(f"{counted(len(lost), 'curve')} {reason} and were left out: {shown}")
    kept = {(run, metric): curve for (run, metric), curve in curves.items() if times[run] == 1}
    if not kept:
        raise InputError(f"{sweep.path}: none of the curves belongs to one of its runs.")
    column_named = {sweep.name(each): each for each in sweep.columns}
    metrics = dict.fromkeys(metric for _, metric in kept)
    own = {column_named.get(m, m): [kept.get((run, m), {}) for run in runs] for m in metrics}
    resource = next(iter(charts[0][1])).strip().lower().replace(" ", "_") or "step"
    return with_points(replace(sweep, notes=tuple(notes)), resource, own)
