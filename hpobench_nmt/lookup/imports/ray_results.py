"""Ray Tune's results: a folder for each trial with `params.json`, `result.json` and `progress.csv`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections.archives import folder_members
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.imports.cells import columns_of, flattened, objects
from hpobench_nmt.lookup.imports.csv_files import read_csv_columns
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.json_lines import json_lines
from hpobench_nmt.lookup.imports.reports import Steps, fold
from hpobench_nmt.lookup.imports.sweep import Sweep

_FILE = re.compile(r"(?:(?P<trial>.+)/)?(?P<file>params\.json|result\.json|progress\.csv|error\.txt)")
_STEP = "training_iteration"
_HIDDEN = re.compile(r"config($|[./])")  # its configuration, which is in params.json


def is_ray(names: Iterable[str]) -> bool:
    """Whether a folder with these files holds Ray Tune's results."""
    return any(name.rpartition("/")[2] in ("result.json", "progress.csv") and "/" in name for name in names)


def read_ray_results(folder: Path) -> Sweep:
    """The sweep of a folder of Ray Tune's results. O(lines).

    A trial with an error.txt has failed, unless its last report says that it is done: then Ray had restarted
    it after the error. Any other trial without a report is unfinished.
    """
    trials: dict[str, dict[str, bytes]] = {}
    for name, content in folder_members(folder, _FILE.pattern, MAX_BYTES):
        found = _FILE.fullmatch(name)
        if found is not None:
            trials.setdefault(found["trial"] or "", {})[found["file"]] = content
    records: list[dict[str, Any]] = []
    ids: list[int] = []
    states: list[str] = []
    notes: list[str] = []
    for number, (trial, files) in enumerate(trials.items()):
        reports = _reports(files, folder / trial, notes) or [{}]
        config = reports[-1].get("config") or {}
        if params := files.get("params.json"):
            config = json_lines(params, folder / trial / "params.json")[0][0][1]
        if not config and not reports[-1]:
            raise InputError(f"{folder / trial}: neither params.json nor a report has its configuration.")
        settings = {key.replace(".", "/"): value for key, value in flattened(config, "config.").items()}
        failed = "error.txt" in files and str(reports[-1].get("done")).lower() != "true"
        for report in reports:
            plain = {key: value for key, value in flattened(report).items() if not _HIDDEN.match(key)}
            records.append({_STEP: 1, "trial_id": trial, **plain, **settings})
            ids.append(number)
            states.append("failed" if failed else "finished" if plain else "unfinished")
    if not records:
        raise InputError(f"{folder}: it has no folder of a trial.")
    columns = columns_of(records)
    sweep = headed(columns, folder, folder.name, lambda row: f"trial {list(trials)[ids[row]]}")
    sweep = replace(sweep, kind="a folder of Ray Tune's results", states=objects(states), notes=tuple(notes))
    steps = np.array([float(record[_STEP]) for record in records])
    return fold(sweep, Steps(np.array(ids, dtype=np.int64), steps, _STEP))


def _reports(files: dict[str, bytes], trial: Path, notes: list[str]) -> list[dict[str, Any]]:
    """The reports of a trial in the order of their steps."""
    if files.get("result.json", b"").strip():
        lines, note = json_lines(files["result.json"], trial / "result.json")
        if note:
            notes.append(f"{trial.name}/result.json: {note}")
        reports = [record for _, record in lines]
    elif files.get("progress.csv", b"").strip():
        columns = read_csv_columns(files["progress.csv"], trial / "progress.csv").columns
        rows = zip(*(cells.tolist() for cells in columns.values()), strict=True)
        reports = [dict(zip(columns, row, strict=True)) for row in rows]
    else:
        return []
    last = {}  # a restored trial reports some steps again, and the last report counts
    for place, report in enumerate(reports, start=1):
        last[report.get(_STEP, place)] = report
    return [last[step] for step in sorted(last)] if all(isinstance(s, int | float) for s in last) else reports
