"""MLflow's runs in `mlruns/` folders, and in its SQLite databases."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.archives import folder_members
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.imports.cells import columns_of, states_of
from hpobench_nmt.lookup.imports.headings import SECONDS, without_nested
from hpobench_nmt.lookup.imports.sweep import About, Column, Points, Role, Sweep, one_study, points_of

# The files of a run: its description, its parameters and its metrics. Ids of runs have 32 hexadecimal digits.
_FILE = re.compile(
    r"(?:.*?/)?(?:(?P<experiment>[^/]+)/)?(?P<run>[0-9a-f]{32})/(?:(?P<meta>meta\.yaml)|(?P<kind>params|metrics|tags(?=/mlflow\.parentRunId$))/(?P<key>.+))"
)
_STATES = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_POINT = tuple[float, float, float]  # step, time in ms, value


@dataclass
class _Run:
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, list[_POINT]] = field(default_factory=dict)
    state: str = "RUNNING"
    start: float = math.nan
    end: float = math.nan
    name: str = ""
    experiment: str = ""
    deleted: bool = False
    parent: str = ""


def is_mlruns(names: Iterable[str]) -> bool:
    """Whether a folder with these files holds MLflow's runs."""
    return any((found := _FILE.fullmatch(name)) and found["meta"] for name in names)


def read_mlruns(folder: Path, study: str) -> Sweep:
    """The sweep of an experiment in a folder of MLflow's runs. O(files)."""
    runs: dict[str, _Run] = {}
    names: dict[str, str] = {}
    for name, content in folder_members(folder, rf"{_FILE.pattern}|(.*/)?[^/]+/meta\.yaml", MAX_BYTES):
        text = _text(content, folder / name)
        found = _FILE.fullmatch(name)
        if found is None:  # the description of an experiment
            about = _yaml(text)
            names[about.get("experiment_id", "")] = about.get("name", "")
            continue
        run = runs.setdefault(found["run"], _Run())
        if found["meta"]:
            _describe(run, _yaml(text))
        elif found["kind"] == "params":
            run.params[found["key"]] = text.strip()
        elif found["kind"] == "tags":
            run.parent = text.strip()
        else:
            run.metrics[found["key"]] = _points_of(text, folder / name)
    for run in runs.values():
        run.experiment = names.get(run.experiment) or run.experiment
    return _sweep(runs, folder, study, "a folder of MLflow's runs")


def is_mlflow(tables: Mapping[str, list[str]]) -> bool:
    """Whether a database with these tables is MLflow's."""
    return {"runs", "params", "metrics", "experiments"} <= tables.keys()


def read_database(path: Path, database: sqlite3.Connection, study: str) -> Sweep:
    """The sweep of an experiment in MLflow's database. O(cells)."""
    runs = {}
    for key, name, state, start, end, stage, experiment in database.execute(
        "SELECT run_uuid, runs.name, status, start_time, end_time, runs.lifecycle_stage, experiments.name "
        "FROM runs JOIN experiments ON runs.experiment_id = experiments.experiment_id ORDER BY start_time"
    ):
        first, last = (math.nan if time is None else float(time) for time in (start, end))
        runs[key] = _Run(
            {}, {}, str(state), first, last, str(name or ""), str(experiment), stage == "deleted"
        )
    for key, value, run in database.execute("SELECT key, value, run_uuid FROM params"):
        if run in runs:
            runs[run].params[str(key)] = str(value)
    for key, value, time, run, step, is_nan in database.execute(
        "SELECT key, value, timestamp, run_uuid, step, is_nan FROM metrics "
        "ORDER BY run_uuid, key, step, timestamp"
    ):
        if run in runs:
            number = math.nan if is_nan else float(value)
            runs[run].metrics.setdefault(str(key), []).append((float(step), float(time), number))
    with suppress(sqlite3.Error):  # old databases have no table of tags
        for value, run in database.execute(
            "SELECT value, run_uuid FROM tags WHERE key = 'mlflow.parentRunId'"
        ):
            if run in runs:
                runs[run].parent = str(value)
    return _sweep(runs, path, study, "MLflow's database")


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text.") from None


def _yaml(text: str) -> dict[str, str]:
    """The top-level entries of one of MLflow's YAML files, one line each: texts without their quotes."""
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace():
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[key] = value[1:-1] if quoted else value
    return found


def _describe(run: _Run, about: Mapping[str, str]) -> None:
    run.state = _STATES.get(about.get("status", ""), about.get("status", "RUNNING"))
    run.start, run.end = (_number(about.get(key, "")) for key in ("start_time", "end_time"))
    run.name, run.experiment = about.get("run_name", ""), about.get("experiment_id", "")
    run.deleted = about.get("lifecycle_stage") == "deleted"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _points_of(text: str, path: Path) -> list[_POINT]:
    """The reports of a metric, from lines that have a time, a value and a step."""
    points = []
    for line, words in enumerate(map(str.split, text.splitlines()), start=1):
        if not words:
            continue
        try:
            points.append((float(words[2]) if len(words) > 2 else 0.0, float(words[0]), float(words[1])))
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {line}: not a time, a value and a step.") from None
    return points


def _sweep(runs: Mapping[str, _Run], path: Path, study: str, kind: str) -> Sweep:
    live = {key: run for key, run in runs.items() if not run.deleted}
    parents = {run.parent for run in live.values()}  # they only repeat the best of their nested runs
    kept = [run for key, run in live.items() if key not in parents]
    notes = (without_nested(len(live) - len(kept)),) if len(kept) < len(live) else ()
    if not kept:
        raise InputError(f"{path}: {kind}, without a run.")
    study = one_study(list(dict.fromkeys(run.experiment for run in kept)), study, path, "experiment")
    own = sorted((run for run in kept if run.experiment == study), key=lambda run: (run.start, run.name))
    last = [{name: max(points)[2] for name, points in run.metrics.items() if points} for run in own]
    sections: dict[str, tuple[Role, Sequence[Mapping[str, Any]]]] = {
        "params": ("hyperparameter", [run.params for run in own]),
        "metrics": ("metric", last),
    }
    columns: dict[str, Column] = {}
    about: dict[str, About] = {}
    for section, (role, records) in sections.items():
        for name, cells in columns_of(records).items():
            columns[f"{section}.{name}"] = cells
            about[f"{section}.{name}"] = About(role, f"in {section}", name=name)
    seconds = np.array([(run.end - run.start) / 1000.0 for run in own])
    if not np.isnan(seconds).all():
        columns[SECONDS], about[SECONDS] = seconds, About("seconds", "from start and end of each run")
    if not columns:
        raise InputError(f"{path}: the runs of {study!r} have neither parameters nor metrics.")
    states = states_of([run.state for run in own])
    title = path.stem if study == "Default" else study
    return Sweep(
        kind,
        path,
        title,
        columns,
        about,
        states,
        _points(own),
        notes,
        lambda row: f"run {own[row].name or row}",
    )


def _points(runs: list[_Run]) -> Points | None:
    """The learning curves. Of several reports at one step, the last counts."""
    curves, seconds = [], []
    for run in runs:
        curves.append(
            {
                f"metrics.{name}": {step: value for step, _, value in sorted(points)}
                for name, points in run.metrics.items()
            }
        )
        times = sorted((time, step) for points in run.metrics.values() for step, time, _ in points)
        seconds.append({step: (time - run.start) / 1000.0 for time, step in times})
    found = points_of("step", curves, seconds)
    single = found is not None and len(found.rows) == len(np.unique(found.rows))
    return None if single else found  # a single report per run is not a curve
