"""Sweeps with a line for each report of a training: the last report is its result, and all are its curve."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.system.errors import shortened
from hpobench_nmt.core.system.text import counted, free_name, some_of
from hpobench_nmt.lookup.groups import configurations_of
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import absent, as_numbers, column_of, distinct_of, objects
from hpobench_nmt.lookup.imports.sweep import About, Choices, Column, Points, Sweep, points_of

_NUMBERED = re.compile(r"(.*?[a-zA-Z])[ _/.-]?(\d{1,6})")
_FEWEST_STEPS = 3
_INTERMEDIATE = ("intermediate_values", "intermediate")


class Steps(NamedTuple):
    """The training of each line, its progress, both of shape (N,), and the column of the progress."""

    ids: Ints
    steps: Floats
    column: str


def step_of(sweep: Sweep, keys: Sequence[str], columns: Sequence[str]) -> Steps | None:
    """The trainings of the lines, which agree in the columns `keys`, and the first of these columns in which
    each training has each number once; None if there is no such column.
    """
    if not keys or any(absent(sweep.columns[key]).any() for key in keys):
        return None
    values = np.column_stack([distinct_of(sweep.columns[key])[1] for key in keys])
    ids = configurations_of(values.astype(np.float64))[1]
    for name in columns:
        if name in sweep.columns:
            steps, wrong = as_numbers(sweep.columns[name])
            pairs = np.unique(np.column_stack([ids, steps]), axis=0)
            if wrong is None and not np.isnan(steps).any() and len(pairs) == len(ids):
                return Steps(ids, steps, name)
    return None


def folded(sweep: Sweep, choices: Choices) -> Sweep:
    """The sweep of an unknown program with one row per training, if its lines are reports; else the sweep
    unchanged, with a note if some trainings ended before others. O(cells).

    Lines of one training have the same hyperparameters. If they differ in one, each line counts as a
    training, and a note reports that.
    """
    if not sweep.plain:
        return _with_progress(sweep, choices)
    if sweep.points is None and (sweep := _with_curves(sweep, choices)).points is not None:
        return sweep
    note: tuple[str, ...] = ()
    columns = list(sweep.columns)
    known = names.known_columns(columns, "step")
    steps = [name for name in known if _stated(sweep, name, choices) != "hyperparameter"]
    for name in names.known_columns(columns, "id"):
        found = step_of(sweep, [name], steps)
        if found is None or len(np.unique(found.ids)) in (1, len(sweep)):
            continue
        others = (column for column in columns if column not in (name, found.column))
        likely = (column for column in others if _may_be_hyperparameter(sweep, column, choices))
        changing = [column for column in likely if _several(sweep.columns[column], found.ids)]
        if not changing:
            return fold(sweep, found)
        shown = some_of([shortened(column) for column in changing])
        note = note or (
            f"lines with the same {name} differ in {shown}, so each line counts as a training. If this "
            f"changes during a training, leave it out: --ignore {','.join(map(sweep.name, changing))}. "
            f"If {name} is a hyperparameter, use --hyperparameter {name}",
        )
    return _with_progress(replace(sweep, notes=(*sweep.notes, *note)), choices)


def _with_curves(sweep: Sweep, choices: Choices) -> Sweep:
    """The sweep with the learning curves in its cells, which are lists of numbers or pairs of step and
    number, and in its columns epoch_1, epoch_2, …
    """
    curves: dict[str, list[dict[float, float]]] = {}
    numbered: dict[str, dict[int, str]] = {}
    used: set[str] = set()
    resource = "step"
    for name, cells in sweep.columns.items():
        stated, bare = _stated(sweep, name, choices), sweep.name(name)
        metric = names.direction(bare) or names.part_of_data(bare) or name in _INTERMEDIATE
        measured = metric and not stated and not names.is_hyperparameter(bare)
        if (stated == "metric" or measured) and (found := _curves_of(cells)) is not None:
            curves[_main_metric(sweep) if name in _INTERMEDIATE else name] = found
            used.add(name)
        if (parts := _NUMBERED.fullmatch(name)) and not stated:
            numbered.setdefault(parts[1], {})[int(parts[2])] = name
    for start, wide in numbered.items():
        progress, steps = names.is_progress(start.lower()), sorted(wide)
        known = progress or (names.direction(start) and not names.is_hyperparameter(start))
        read = [as_numbers(sweep.columns[wide[step]]) for step in steps]
        whole = steps == list(range(steps[0], steps[0] + max(len(steps), _FEWEST_STEPS)))
        if known and whole and all(wrong is None for _, wrong in read):
            rows = np.column_stack([numbers for numbers, _ in read]).tolist()
            resource = start if progress else "step"
            metric = free_name(f"value_by_{start}" if progress else start, sweep.columns)
            pairs = (zip(steps, row, strict=True) for row in rows)
            curves[metric] = [{step: value for step, value in row if value == value} for row in pairs]
            used |= set(wide.values())
    kept = {name: cells for name, cells in sweep.columns.items() if name not in used}
    return with_points(replace(sweep, columns=kept), resource, curves)


def _curves_of(cells: Column) -> list[dict[float, float]] | None:
    """The curve of each cell by step, from lists of numbers or of pairs; None if a cell is another value."""
    lists = list(map(_list_of, cells)) if cells.dtype == object else []
    if not any(isinstance(cell, tuple) for cell in lists):
        return None
    found: list[dict[float, float]] = []
    for cell in lists:
        pairs = cell if any(isinstance(each, tuple) for each in cell or ()) else enumerate(cell, start=1)
        try:
            found.append({step: math.nan if value is None else float(value) for step, value in pairs})
        except (TypeError, ValueError):
            return None
    return found


def _list_of(cell: Any) -> Any:
    """The list that a text such as "[0.5, 0.75]" holds, as in NNI's exports; another cell as it is."""
    try:
        return tuple(json.loads(cell)) if isinstance(cell, str) and cell.startswith("[") else cell
    except (ValueError, RecursionError):
        return cell


def _main_metric(sweep: Sweep) -> str:
    """The column to which intermediate values belong. The values do not name it themselves."""
    named = [name for name in ("value", "objective", "loss", "reward") if name in sweep.columns]
    metrics = [name for name in sweep.columns if sweep.role(name) == "metric"]
    return named[0] if named else metrics[0] if len(metrics) == 1 else "value"


def with_points(sweep: Sweep, resource: str, curves: Mapping[str, Sequence[Mapping[float, float]]]) -> Sweep:
    """The sweep with learning curves, given by column as the values by step of each training.

    A column that the sweep lacks has the last values of its curves.
    """
    new = {name: own for name, own in curves.items() if name not in sweep.columns}
    last = {name: column_of([c[max(c)] if c else "" for c in own]) for name, own in new.items()}
    points = points_of(resource, curves)
    return replace(sweep, columns={**sweep.columns, **last}, points=points) if curves else sweep


def _with_progress(sweep: Sweep, choices: Choices) -> Sweep:
    """The sweep with a note if a column says that some trainings ended before others."""
    for name in names.known_columns(list(sweep.columns), "step"):
        steps, wrong = as_numbers(sweep.columns[name])
        if _stated(sweep, name, choices) != "hyperparameter" and wrong is None and not np.isnan(steps).any():
            return replace(sweep, notes=(*sweep.notes, *_ended_early(steps, sweep.states, name)))
    return sweep


def _ended_early(steps: Floats, states: Column | None, name: str) -> tuple[str, ...]:
    """A note if finished trainings ended at different steps, shape (N,)."""
    finished = np.ones(len(steps), dtype=bool) if states is None else states == "finished"
    early = int((finished & (steps < steps.max())).sum())
    if not early:
        return ()
    return (
        f"{early:,} of {counted(len(steps), 'training')} ended before {name} {steps.max():g}, which "
        f"other trainings reached. If a scheduler stopped them, their last values are not results",
    )


def _stated(sweep: Sweep, column: str, choices: Choices) -> str | None:
    """The role of a column by the user's choice, or in the source."""
    return choices.role(column, sweep.name(column)) or sweep.role(column)


def _may_be_hyperparameter(sweep: Sweep, column: str, choices: Choices) -> bool:
    """Whether a column is a hyperparameter, by the user's choice, its role in the source, or its name."""
    stated = _stated(sweep, column, choices)
    by_name = names.is_hyperparameter(column) and names.direction(column) is None
    return stated == "hyperparameter" if stated else by_name


def _several(column: Column, ids: Ints) -> bool:
    """Whether an id has several values of a column; empty cells are not values."""
    there = ~absent(column)
    values = distinct_of(column)[1][there]
    return len(np.unique(np.column_stack([ids[there], values]), axis=0)) > len(np.unique(ids[there]))


def fold(sweep: Sweep, given: Steps, pruned: bool = False) -> Sweep:
    """The sweep with a row for each number in `given.ids`, which count from 0 in the order of first lines.

    `pruned`: whether a scheduler has stopped the trainings that ended before others.
    """
    ids, steps, step = given
    order = np.lexsort((steps, ids))
    last = order[np.flatnonzero(np.diff(ids[order], append=-1))]
    columns: dict[str, Column] = {}
    values: dict[str, Floats] = {}
    seconds: Floats | None = None
    for name, column in sweep.columns.items():
        columns[name] = column[last]
        numbers, wrong = as_numbers(column)
        if name == step or sweep.role(name) == "hyperparameter" or wrong is not None:
            continue
        if sweep.role(name) == "seconds" or names.is_seconds(name):
            seconds = numbers[order]
        elif _varies(numbers[order], ids[order]) and _may_be_metric(sweep, name):
            values[name] = numbers[order]
    points = Points(step, ids[order], steps[order], values, seconds) if values else None
    states = None if sweep.states is None else sweep.states[last]
    notes = sweep.notes
    if pruned:
        early = (steps[last] < steps.max()) & (states != "failed" if states is not None else True)
        states = objects(np.where(early, "pruned", "finished" if states is None else states).tolist())
    elif points is not None:
        notes += _ended_early(steps[last], states, step)
    about = {**sweep.about, step: About("identity", "how far the training was")}
    return replace(
        sweep, columns=columns, about=about, states=states, points=points, notes=notes,
        place=lambda row: sweep.place(int(last[row])),
    )  # fmt: skip


def _varies(numbers: Floats, ids: Ints) -> bool:
    """Whether numbers, which are sorted by their ids, vary within an id."""
    same: Bools = ids[1:] == ids[:-1]
    return bool((numbers[1:][same] != numbers[:-1][same]).any())


def _may_be_metric(sweep: Sweep, name: str) -> bool:
    """Whether a column may be a metric, by its role in the source, or else by its name."""
    role = sweep.role(name)
    return role == "metric" if role else names.direction(name) is not None
