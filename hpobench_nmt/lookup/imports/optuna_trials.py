"""A sweep from Optuna's trials, whatever storage they are from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from hpobench_nmt.core.hyperparameter import Scale
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.cells import between, columns_of
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.sweep import About, Sweep, points_of

METRIC_NAMES = "study:metric_names"
"""The attribute of a study that holds the names of its objectives."""
_LOG = ("LogUniformDistribution", "IntLogUniformDistribution")


@dataclass
class Trial:
    """One trial, filled while its storage is read.

    Attributes:
        number: number of the trial in its study.
        state: the state, in Optuna's words.
        params: values of the parameters by name.
        values: values of the objectives by their place.
        steps: intermediate values by step.
        attributes: the user's attributes.
        start, end: dates as texts.
    """

    number: int
    state: str = "RUNNING"
    params: dict[str, Any] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    steps: dict[float, float] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    start: Any = ""
    end: Any = ""


@dataclass
class Study:
    """One study: its directions ("min", "max" or None for each objective), its trials, and more."""

    name: str
    directions: list[Direction | None]
    trials: list[Trial] = field(default_factory=list)
    metric_names: tuple[str, ...] = ()
    scales: dict[str, Scale] = field(default_factory=dict)


def set_parameter(study: Study, trial: Trial, name: str, internal: Any, text: str) -> None:
    """Set a parameter of a trial to the value that a number in a storage stands for, and note its scale.

    `text` is the parameter's distribution. Raises ValueError, LookupError or TypeError if it is not one of
    Optuna's, or has no such value.
    """
    choices, scale = _distribution(text)
    if choices is None:
        study.scales[name] = scale
    trial.params[name] = internal if choices is None else choices[int(internal)]


@cache
def _distribution(text: str) -> tuple[list[Any] | None, Scale]:
    """The choices of a distribution, or None, and its scale."""
    parsed = json.loads(text)
    kind, about = str(parsed["name"]), parsed["attributes"]
    log = about.get("log") or kind in _LOG
    return about["choices"] if kind == "CategoricalDistribution" else None, "log" if log else "linear"


def sweep_of_study(study: Study, kind: str, path: Path, notes: tuple[str, ...] = ()) -> Sweep:
    """The sweep of a study, in the layout of Optuna's trials_dataframe(). InputError if it has no trial."""
    trials = sorted(study.trials, key=lambda trial: trial.number)
    if not trials:
        raise InputError(f"{path}: study {study.name!r} has no trials.")
    count = len(study.directions)
    names = [*study.metric_names, *(f"values_{k}" for k in range(len(study.metric_names), count))][:count]
    names = ["value"] if names == ["values_0"] else names
    rows = [
        {"number": trial.number, "state": trial.state}
        | {f"params_{name}": value for name, value in trial.params.items()}
        | dict.fromkeys(names, "")
        | {names[place]: value for place, value in trial.values.items()}
        | {f"user_attrs_{name}": value for name, value in trial.attributes.items()}
        | {"datetime_start": trial.start or "", "datetime_complete": trial.end or ""}
        for trial in trials
    ]
    columns = columns_of(rows)
    columns["duration"] = between(columns["datetime_start"], columns["datetime_complete"])
    sweep = headed(columns, path, study.name, lambda row: f"trial {trials[row].number}", kind)
    about = dict(sweep.about)
    for name, scale in study.scales.items():
        about[f"params_{name}"] = replace(about[f"params_{name}"], scale=scale)
    for name, direction in zip(names, study.directions, strict=True):
        about[name] = About("metric", "what the study optimised", direction=direction, objective=True)
    steps = {names[0]: [trial.steps for trial in trials]} if count == 1 else {}
    points, notes = points_of("step", steps), (*sweep.notes, *notes)
    return replace(sweep, about=about, points=points, notes=notes, typed=True, studies=True)


def named_metrics(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the objectives; empty if the study does not name them."""
    names = attributes.get(METRIC_NAMES)
    return tuple(map(str, names)) if isinstance(names, list) else ()
