"""JSON lines with one training, or one report of a training, per line; also a JSON list of trainings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import column_of, columns_of, flattened
from hpobench_nmt.lookup.imports.csv_files import text_of
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.sweep import Choices, Sweep, points_of

Line = tuple[str, dict[str, Any]]
"""The place of an object, such as "line 3", and the object."""
_CONFIGS = ("params", "param", "config", "hparams", "hyperparameters", "hp")
_METRICS = ("metrics", "metric", "results", "scores")
_INTERMEDIATE = ("intermediate_values", "intermediate")
_DEEPEST = 100


def json_lines(content: bytes, path: Path) -> tuple[list[Line], str]:
    """The objects of a file of JSON lines, or of a JSON list, and a note if the last line is cut short.

    A file with a single object over several lines has one object. Raises InputError, with the line, if there
    is anything else.
    """
    text = text_of(content, path)
    if (whole := _parsed(text, str(path))) is not None:
        listed = whole if isinstance(whole, list) else [whole]
        if not listed or not all(isinstance(record, dict) for record in listed):
            raise InputError(f"{path}: not a list of objects, one for each training.")
        return [(f"line {place}", record) for place, record in enumerate(listed, start=1)], ""
    found: list[Line] = []
    lines = [(place, line) for place, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for place, line in lines:
        record = _parsed(line, f"{path}, line {place}")
        if record is None and (place, line) == lines[-1] and found and not text.endswith("\n"):
            return found, f"line {place}, the last one, is cut short and was left out"
        if record is None:
            raise InputError(f"{path}, line {place}: not valid JSON.")
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {place}: not a JSON object, such as {{"lr": 0.1}}.')
        found.append((f"line {place}", record))
    return found, ""


def _parsed(text: str, where: str) -> Any:
    """A text as JSON; None if it is not. Raises InputError if it is nested too deeply."""
    try:
        found, deep = json.loads(text), False
    except RecursionError:
        found, deep = None, True
    except ValueError:
        return None
    if deep or _is_deep(found, _DEEPEST):
        raise InputError(f"{where}: nested too deeply.")
    return found


def _is_deep(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` times."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most < 0 or any(_is_deep(each, most - 1) for each in inner)


def read_json_lines(lines: Sequence[Line], path: Path, choices: Choices) -> Sweep:
    """The sweep of objects, one for each training or report. O(cells).

    The names of sections such as "config" and "metrics" state what they hold. Outside of configurations, a
    section whose keys are whole numbers, such as Optuna's intermediate_values, is a learning curve. So is a
    list of numbers that is a metric, by the user's choice, its section or its name. Another list, such as
    Adam's betas, is a value.
    """
    if len(lines) == 1:
        keys = ", ".join(map(shortened, list(lines[0][1])[:5]))
        raise InputError(
            f"{path}: is one JSON object (with {keys}), not lines of JSON. Write one object for each "
            "training, as a list or one on each line."
        )
    curved = {name for _, record in lines for name in _curve_names(record, choices)}
    pairs = [_without_curves(record, curved) for _, record in lines]
    columns = columns_of([flattened(plain) for plain, _ in pairs])
    if not columns:
        raise InputError(f"{path}: its lines are empty.")
    curves = [own for _, own in pairs]
    for name in {name for own in curves for name in own} - columns.keys():
        columns[name] = column_of([steps[max(steps)] if (steps := own.get(name)) else "" for own in curves])
    sweep = headed(columns, path, path.stem, lambda row: lines[row][0])
    kind = "JSON lines" if sweep.plain else sweep.kind
    return replace(sweep, kind=kind, typed=True, points=points_of("step", curves))


def _curve_names(
    record: Mapping[str, Any], choices: Choices, before: str = "", measured: bool = False
) -> Iterator[str]:
    """The names of lists of numbers that are learning curves. `measured`: whether the section has metrics."""
    for key, value in record.items():
        if isinstance(value, dict) and key not in _CONFIGS:
            yield from _curve_names(value, choices, f"{before}{key}.", measured or key in _METRICS)
        elif _is_list(value):
            stated = choices.role(key, f"{before}{key}")
            metric = measured or key in _INTERMEDIATE or names.direction(key) or names.part_of_data(key)
            if stated == "metric" or (metric and not stated and not names.is_hyperparameter(key)):
                yield f"{before}{key}"


def _without_curves(
    record: Mapping[str, Any], curved: Set[str], before: str = ""
) -> tuple[dict[str, Any], dict[str, dict[float, float]]]:
    """A line without its learning curves, and the curves by name, as values by step."""
    plain: dict[str, Any] = {}
    curves: dict[str, dict[float, float]] = {}
    for key, value in record.items():
        name = f"{before}{key}"
        if key in _CONFIGS:
            plain[key] = value
        elif (steps := _curve(value, name in curved)) is not None:
            curves[_main_metric(record) if key in _INTERMEDIATE else name] = steps
        elif isinstance(value, dict):
            inner, own = _without_curves(value, curved, f"{name}.")
            plain |= {key: inner} if inner else {}
            curves |= own
        else:
            plain[key] = value
    return plain, curves


def _main_metric(record: Mapping[str, Any]) -> str:
    """The column to which intermediate values belong. The values do not name it themselves."""
    for name in ("value", "objective", "loss"):
        if name in record:
            return name
    sections = [(key, section) for key in _METRICS if isinstance(section := record.get(key), dict)]
    if len(sections) == 1 and len(sections[0][1]) == 1:
        return f"{sections[0][0]}.{next(iter(sections[0][1]))}"
    return "value"


def _curve(value: Any, listed: bool) -> dict[float, float] | None:
    """A learning curve as values by step, or None. `listed`: whether a list of numbers is a curve here."""
    if listed and _is_list(value):
        value = dict(enumerate(value, start=1))
    if not isinstance(value, dict) or not value or not all(map(_is_number, value.values())):
        return None
    try:
        numbers = {key: float("nan") if each is None else float(each) for key, each in value.items()}
        return {float(int(step)): number for step, number in numbers.items()}
    except ValueError:
        return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
