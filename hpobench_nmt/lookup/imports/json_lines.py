"""JSON lines with one training, or one report of a training, per line; also a JSON list of trainings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.lookup.disk.rows import Progress
from hpobench_nmt.lookup.imports.cells import column_of, columns_of, flattened
from hpobench_nmt.lookup.imports.headings import JSON_LINES, headed
from hpobench_nmt.lookup.imports.names import direction, is_hyperparameter, part_of_data
from hpobench_nmt.lookup.imports.sweep import Choices, Sweep, points_of

Line = tuple[int, dict[str, Any]]
_CONFIGS = ("params", "param", "config", "hparams", "hyperparameters")
_METRICS = ("metrics", "metric", "results", "scores")
_INTERMEDIATE = ("intermediate_values", "intermediate")
# Lists of an unknown name are values, not learning curves, if none has more numbers than this.
_MOST_OF_VALUE = 2
# Progress is reported each time this many lines have been parsed.
_LINES_A_STEP = 5000
_DEEPEST = 100


def json_lines(content: bytes, path: Path, progress: Progress = lambda share: None) -> tuple[list[Line], str]:
    """The objects of a file of JSON lines with their line numbers, and a note if the last line is cut short.

    Raises InputError, with the line number, if another line is not an object.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].count(b"\n")
        raise InputError(f"{path}, line {before + 1}: not UTF-8 text.") from None
    if text.lstrip().startswith("["):
        return _listed(text, path), ""
    found: list[Line] = []
    lines = text.split("\n")
    last = max((number for number, line in enumerate(lines) if line.strip()), default=-1)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == last and found and not text.endswith("\n"):
                return found, f"line {number + 1}, the last one, is cut short and was left out"
            if not found and (whole := one_object(content)) is not None:
                keys = ", ".join(map(shortened, list(whole)[:5]))
                raise InputError(
                    f"{path}: is one JSON object (with {keys}), not lines of JSON. Write one object for each "
                    "training, as a list or one on each line."
                ) from None
            told = "nested too deeply" if isinstance(error, RecursionError) else str(error).split(":")[0]
            raise InputError(f"{path}, line {number + 1}: not valid JSON: {told}.") from None
        if _is_deep(record, _DEEPEST):
            raise InputError(f"{path}, line {number + 1}: nested too deeply.")
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {number + 1}: not a JSON object, such as {{"lr": 0.1}}.')
        found.append((number + 1, record))
        if number % _LINES_A_STEP == 0:
            progress(number / len(lines))
    if not found:
        raise InputError(f"{path}: has no lines.")
    return found, ""


def one_object(content: bytes) -> dict[str, Any] | None:
    """The object of a JSON file that holds only one, over several lines; None if it is another file."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_deep(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` times."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most < 0 or any(_is_deep(each, most - 1) for each in inner)


def _listed(text: str, path: Path) -> list[Line]:
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{path}: not valid JSON: {told}.") from None
    if not records or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: not a list of objects, one for each training.")
    return list(enumerate(records, start=1))


def read_json_lines(
    lines: Sequence[Line], path: Path, title: str, notes: tuple[str, ...], choices: Choices
) -> Sweep:
    """The sweep of lines of JSON. O(cells).

    The names of sections such as "config" and "metrics" state what they hold. Outside of configurations, a
    section whose keys are whole numbers, such as Optuna's intermediate_values, is a learning curve. A list of
    numbers may be a curve or a value, such as Adam's betas; `_curve_names` decides.
    """
    records, curves = [], []
    names = _curve_names([record for _, record in lines], choices)
    for _, record in lines:
        plain, own = _without_curves(record, names)
        records.append(flattened(plain))
        curves.append(own)
    columns = columns_of(records)
    if not columns:
        raise InputError(f"{path}: its lines are empty.")
    sweep = headed(columns, path, title, lambda row: f"line {lines[row][0]}", JSON_LINES)
    sweep = replace(sweep, typed=True)
    points = points_of("step", curves)
    if points is None:
        return _with_notes(sweep, notes)
    given = dict(sweep.columns)
    for name in points.values:
        if name not in given:  # the row's own value is the last of its curve
            given[name] = column_of([_last(own.get(name)) for own in curves])
    return _with_notes(sweep, notes, columns=given, points=points)


def _with_notes(sweep: Sweep, notes: tuple[str, ...], **more: Any) -> Sweep:
    return replace(sweep, notes=(*sweep.notes, *notes), **more)


class _List(NamedTuple):
    """A list of numbers outside of configurations, and whether its section holds metrics."""

    name: str
    path: str
    measured: bool
    numbers: tuple[float, ...]


def _curve_names(records: Sequence[Mapping[str, Any]], choices: Choices) -> set[str]:
    """The names under which lists of numbers are learning curves. O(cells).

    These are metrics, by the user's choice, their section or their name, and lists that are always as long as
    a metric's list of the same training. Other lists are curves if their name is not a usual one of
    hyperparameters, more than half of them are distinct, and one of them has more than two numbers.
    """
    values = {*choices.hyperparameters, *choices.ignored}
    chosen = {text for given in choices.metrics for text in (given, given.rpartition(":")[0])}
    lists = [list(_lists(record)) for record in records]
    metrics: set[str] = set()
    for name, path, measured in {each[:3] for own in lists for each in own}:
        shown = measured or direction(name) is not None or part_of_data(name) != ""
        if chosen & {name, path} or (shown and not values & {name, path}):
            metrics.add(name)
    others: dict[str, list[tuple[float, ...]]] = {}
    apart: set[str] = set()  # names of lists that are not always as long as a metric's list
    for own in lists:
        lengths = {len(each.numbers) for each in own if each.name in metrics}
        for each in own:
            if each.name not in metrics and not values & {each.name, each.path}:
                others.setdefault(each.name, []).append(each.numbers)
                if len(each.numbers) not in lengths:
                    apart.add(each.name)
    return metrics | {
        name
        for name, found in others.items()
        if name not in apart
        or (
            not is_hyperparameter(name)
            and 2 * len(set(found)) > len(found)
            and max(map(len, found)) > _MOST_OF_VALUE
        )
    }


def _lists(record: Mapping[str, Any], before: str = "", measured: bool = False) -> Iterator[_List]:
    for key, value in record.items():
        if key in _CONFIGS:
            continue
        if isinstance(value, dict):
            yield from _lists(value, f"{before}{key}.", measured or key in _METRICS)
        elif _is_list(value):
            numbers = tuple(map(_number, value))
            yield _List(key, f"{before}{key}", measured or key in _INTERMEDIATE, numbers)


def _without_curves(
    record: Mapping[str, Any], names: Set[str]
) -> tuple[dict[str, Any], dict[str, dict[float, float]]]:
    """A line without its learning curves, and the curves by name, as values by step."""
    plain: dict[str, Any] = {}
    curves: dict[str, dict[float, float]] = {}
    for key, value in record.items():
        if key in _CONFIGS:
            plain[key] = value
        elif (steps := _curve(value, key in names)) is not None:
            curves[_MAIN if key in _INTERMEDIATE else key] = steps
        elif isinstance(value, dict):  # a section of metrics
            plain[key], inner = _without_curves(value, names)
            curves.update(inner)
            if not plain[key]:
                del plain[key]
        else:
            plain[key] = value
    if _MAIN in curves:
        curves[_main_metric(record)] = curves.pop(_MAIN)
    return plain, curves


_MAIN = ""


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
        return {float(step): _number(each) for step, each in enumerate(value, start=1)}
    if isinstance(value, dict) and value and all(map(_is_number, value.values())):
        try:
            return {float(int(step)): _number(each) for step, each in value.items()}
        except ValueError:
            return None
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _last(steps: Mapping[float, float] | None) -> Any:
    return steps[max(steps)] if steps else ""
