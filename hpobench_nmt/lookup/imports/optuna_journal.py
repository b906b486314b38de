"""Optuna's journal files: a line of JSON for each change of a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.json_lines import Line
from hpobench_nmt.lookup.imports.optuna_trials import (
    Study,
    Trial,
    named_metrics,
    set_parameter,
    sweep_of_study,
)
from hpobench_nmt.lookup.imports.sweep import Sweep, one_study

# The op_codes of lines, which state what a line changes.
_NEW_STUDY, _NO_STUDY, _STUDY_ATTRIBUTE = 0, 1, 3
_NEW_TRIAL, _PARAM, _STATE, _STEP, _ATTRIBUTE = range(4, 9)
_STATES = ("RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING")
_ENDED = ("COMPLETE", "PRUNED", "FAIL")
_DIRECTIONS: tuple[Direction | None, ...] = (None, "min", "max")


def is_journal(record: Any) -> bool:
    """Whether the first line of a file is that of a journal."""
    return isinstance(record, dict) and "op_code" in record and "worker_id" in record


@dataclass
class _Replay:
    """The state after the lines so far. Studies keep their numbers when another study is deleted."""

    created: int = 0
    studies: dict[int, Study] = field(default_factory=dict)
    trials: list[tuple[Study, Trial]] = field(default_factory=list)


def read_journal(lines: Sequence[Line], path: Path, wanted: str, notes: tuple[str, ...]) -> Sweep:
    """The sweep of a study in a journal, from the journal's lines with their places. O(lines)."""
    replay = _Replay()
    for line, record in lines:
        try:
            _apply(record, replay)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise InputError(f"{path}, {line}: not a line of an Optuna journal.") from None
    names = {study.name: study for study in replay.studies.values()}
    return sweep_of_study(names[one_study(list(names), wanted, path)], "an Optuna journal", path, notes)


def _apply(record: dict[str, Any], replay: _Replay) -> None:
    code = record["op_code"]
    if code == _NEW_STUDY:
        if all(study.name != record["study_name"] for study in replay.studies.values()):
            directions = [_DIRECTIONS[place] for place in record["directions"]]
            replay.studies[replay.created] = Study(str(record["study_name"]), directions)
            replay.created += 1
    elif code == _NO_STUDY:
        replay.studies.pop(record["study_id"], None)
    elif code == _STUDY_ATTRIBUTE:
        names = named_metrics(record["system_attr"])
        if names and record["study_id"] in replay.studies:
            replay.studies[record["study_id"]].metric_names = names
    elif code == _NEW_TRIAL:
        if study := replay.studies.get(record["study_id"]):
            study.trials.append(Trial(len(study.trials)))
            replay.trials.append((study, study.trials[-1]))
            _change(record, study, study.trials[-1])
    elif code in (_PARAM, _STATE, _STEP, _ATTRIBUTE):
        study, trial = replay.trials[record["trial_id"]]
        if trial.state not in _ENDED:  # if two processes end a trial, the first counts
            _change(record, study, trial)


def _change(record: dict[str, Any], study: Study, trial: Trial) -> None:
    """Change a trial by a line: a new trial that was added as a whole, or enqueued, has all of its data."""
    name, one = record.get("param_name"), record.get("value")
    texts = record.get("distributions") or {name: record.get("distribution")}
    params = record.get("params") or ({name: record["param_value_internal"]} if name else {})
    steps = record.get("intermediate_values") or {}
    steps = {record["step"]: record["intermediate_value"]} if "step" in record else steps
    for param, internal in params.items():
        set_parameter(study, trial, str(param), internal, texts[param])
    trial.state = _STATES[record["state"]] if "state" in record else trial.state
    trial.start = record.get("datetime_start") or trial.start
    trial.end = record.get("datetime_complete") or trial.end
    for place, value in enumerate(record.get("values") or ([] if one is None else [one])):
        trial.values[place] = _number(value)
    trial.steps.update({float(step): _number(value) for step, value in steps.items()})
    trial.attributes.update(record.get("user_attrs") or record.get("user_attr") or {})


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
