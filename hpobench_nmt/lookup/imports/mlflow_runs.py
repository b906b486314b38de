"""MLflow's runs in `mlruns/` folders, and in its SQLite databases."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import number_of, shows_number
from hpobench_nmt.lookup.collections.archives import folder_members
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.imports.cells import columns_of
from hpobench_nmt.lookup.imports.csv_files import text_of
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.sweep import Points, Sweep, one_study, points_of

# The files of a run: its description, its parameters and its metrics. Ids of runs have 32 hexadecimal digits.
_FILE = re.compile(
    r"(?:.*?/)?(?:(?P<experiment>[^/]+)/)?(?P<run>[0-9a-f]{32})/(?:(?P<meta>meta\.yaml)|(?P<kind>params|metrics|tags(?=/mlflow\.parentRunId$))/(?P<key>.+))"
)
_STATES = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_PARENT = "mlflow.parentRunId"
_POINT = tuple[float, float, float]  # step, time in ms, value


@dataclass
class _Run:
    """A run: its row in the layout of search_runs(), without metrics, and the reports of each metric."""

    row: dict[str, Any]
    metrics: dict[str, list[_POINT]] = field(default_factory=dict)


def is_mlruns(names: Iterable[str]) -> bool:
    """Whether a folder with these files holds MLflow's runs."""
    return any((found := _FILE.fullmatch(name)) and found["meta"] for name in names)


def read_mlruns(folder: Path, study: str) -> Sweep:
    """The sweep of an experiment in a folder of MLflow's runs. O(files)."""
    runs: dict[str, _Run] = {}
    names: dict[str, str] = {}
    for name, content in folder_members(folder, rf"{_FILE.pattern}|(.*/)?[^/]+/meta\.yaml", MAX_BYTES):
        text = text_of(content, folder / name)
        found = _FILE.fullmatch(name)
        if found is None:  # the description of an experiment
            about = _yaml(text)
            names[about.get("experiment_id", "")] = about.get("name", "")
            continue
        run = runs.setdefault(found["run"], _Run({"run_id": found["run"], "status": "RUNNING"}))
        if found["meta"]:
            about = _yaml(text)
            run.row |= {key: about.get(key, "") for key in ("experiment_id", "run_name", "lifecycle_stage")}
            run.row |= {key: _number(about.get(key, "")) for key in ("start_time", "end_time")}
            run.row["status"] = _STATES.get(about.get("status", ""), about.get("status", "RUNNING"))
        elif found["kind"] == "metrics":
            run.metrics[found["key"]] = _points_of(text)
        else:
            run.row[f"{found['kind']}.{found['key']}"] = text.strip()
    for run in runs.values():
        experiment = run.row.get("experiment_id", "")
        run.row["experiment_id"] = names.get(experiment) or experiment
    return _sweep(list(runs.values()), folder, study, "a folder of MLflow's runs")


def is_mlflow(tables: Mapping[str, list[str]]) -> bool:
    """Whether a database with these tables is MLflow's."""
    return {"runs", "params", "metrics", "experiments"} <= tables.keys()


def read_database(path: Path, database: sqlite3.Connection, study: str) -> Sweep:
    """The sweep of an experiment in MLflow's database. O(cells)."""
    rows = database.execute(
        "SELECT run_uuid AS run_id, runs.name AS run_name, status, start_time, end_time, "
        "runs.lifecycle_stage AS lifecycle_stage, experiments.name AS experiment_id "
        "FROM runs JOIN experiments ON runs.experiment_id = experiments.experiment_id"
    )
    keys = [column for column, *_ in rows.description]
    found = [dict(zip(keys, ("" if cell is None else cell for cell in row), strict=True)) for row in rows]
    runs = {row["run_id"]: _Run(row) for row in found}
    for kind in ("params", "tags"):
        with suppress(sqlite3.Error):  # old databases have no table of tags
            for key, value, run in database.execute(f"SELECT key, value, run_uuid FROM {kind}"):
                if run in runs and (kind == "params" or key == _PARENT):
                    runs[run].row[f"{kind}.{key}"] = str(value)
    reports = "SELECT key, step, timestamp, value, is_nan, run_uuid FROM metrics"
    for key, step, time, value, is_nan, run in database.execute(reports):
        if run in runs:
            point = (float(step), float(time), math.nan if is_nan else float(value))
            runs[run].metrics.setdefault(str(key), []).append(point)
    return _sweep(list(runs.values()), path, study, "MLflow's database")


def _yaml(text: str) -> dict[str, str]:
    """The top-level entries of one of MLflow's YAML files, one line each: texts without their quotes."""
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace():
            found[key] = value.strip().strip("'\"")
    return found


def _number(text: str) -> float:
    return number_of(text) if shows_number(text) else math.nan


def _points_of(text: str) -> list[_POINT]:
    """The reports of a metric, from lines that have a time, a value and a step."""
    lines = [[float(word) for word in (*line.split(), "0")[:3]] for line in text.splitlines() if line.strip()]
    return [(step, time, value) for time, value, step in lines]


def _sweep(runs: list[_Run], path: Path, study: str, kind: str) -> Sweep:
    live = [run for run in runs if run.row.get("lifecycle_stage") != "deleted"]
    if not live:
        raise InputError(f"{path}: {kind}, without a run.")
    studies = list(dict.fromkeys(run.row["experiment_id"] for run in live))
    study = one_study(studies, study, path, "experiment")
    own = [run for run in live if run.row["experiment_id"] == study]
    own.sort(key=lambda run: (run.row["start_time"], run.row["run_name"]))
    last = [{f"metrics.{name}": max(p)[2] for name, p in run.metrics.items() if p} for run in own]
    rows = [run.row | metrics for run, metrics in zip(own, last, strict=True)]
    title = path.stem if study == "Default" else study
    sweep = headed(columns_of(rows), path, title, lambda row: f"run {rows[row]['run_name'] or row}", kind)
    kept = set(sweep.columns["run_id"].tolist())
    return replace(sweep, points=_points([run for run in own if run.row["run_id"] in kept]), studies=True)


def _points(runs: list[_Run]) -> Points | None:
    """The learning curves. Of several reports at one step, the last counts."""
    curves = {
        f"metrics.{name}": [{step: value for step, _, value in sorted(r.metrics.get(name, ()))} for r in runs]
        for name in dict.fromkeys(name for run in runs for name in run.metrics)
    }
    times = [sorted((time, step) for p in run.metrics.values() for step, time, _ in p) for run in runs]
    pairs = zip([run.row["start_time"] for run in runs], times, strict=True)
    seconds = [{step: (time - start) / 1000.0 for time, step in own} for start, own in pairs]
    found = points_of("step", curves, seconds)
    single = found is not None and len(found.rows) == len(np.unique(found.rows))
    return None if single else found  # a single report per run is not a curve
