"""Sweeps with a line for each report of a training: the last report is its result, and all are its curve."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import shortened
from hpobench_nmt.core.system.text import counted, free_name
from hpobench_nmt.lookup.imports.cells import absent, as_numbers, distinct_of
from hpobench_nmt.lookup.imports.headings import JSON_LINES, TABLE
from hpobench_nmt.lookup.imports.names import (
    direction,
    id_columns,
    is_hyperparameter,
    is_progress,
    is_seconds,
    step_columns,
)
from hpobench_nmt.lookup.imports.sweep import Choices, Column, Points, Sweep

_NUMBERED = re.compile(r"(.*?[a-zA-Z])[ _/.-]?(\d{1,6})")
_FEWEST_STEPS = 3
FOLDED = (TABLE, JSON_LINES)
"""The kinds of sweeps whose lines may be reports. Known programs write one line per training."""
# At most this many columns are named in a note.
_MOST_NAMES = 5


def folded(sweep: Sweep, choices: Choices) -> Sweep:
    """The sweep with one row per training, if its lines are reports; else the sweep unchanged. O(cells).

    Lines of one training have the same hyperparameters. If they differ in one, each line counts as a
    training, and a note reports that.
    """
    if sweep.kind.startswith("scikit-learn") and "n_resources" in sweep.columns:
        return _halved(sweep)
    if sweep.kind not in FOLDED:
        return _with_progress(sweep, choices)
    if sweep.points is None and (curved := _curves_in_columns(sweep, choices)) is not None:
        return curved
    names = list(sweep.columns)
    notes: list[str] = []
    for name in id_columns(names):
        ids = distinct_of(sweep.columns[name])[1]
        if absent(sweep.columns[name]).any() or len(np.unique(ids)) in (1, len(sweep)):
            continue
        for step in step_columns(names):
            steps, wrong = as_numbers(sweep.columns[step])
            if wrong is not None or np.isnan(steps).any() or not _each_once(ids, steps):
                continue
            if {step, sweep.name(step)} & set(choices.hyperparameters):
                continue
            changing = [
                column
                for column in names
                if column not in (name, step)
                and _may_be_hyperparameter(sweep, column, choices)
                and _several(sweep.columns[column], ids)
            ]
            if not changing:
                return fold(sweep, ids, steps, step)
            shown = ", ".join(map(shortened, changing[:_MOST_NAMES]))
            more = ", …" if len(changing) > _MOST_NAMES else ""
            options = " ".join(f"--ignore {sweep.name(column)}" for column in changing[:_MOST_NAMES])
            notes.append(
                f"lines with the same {name} differ in {shown}{more}, so each line counts as a training. "
                f"If this changes during a training, leave it out: {options}. If {name} is a hyperparameter, "
                f"use --hyperparameter {name}"
            )
    return _with_progress(replace(sweep, notes=(*sweep.notes, *notes[:1])), choices)


def _curves_in_columns(sweep: Sweep, choices: Choices) -> Sweep | None:
    """The sweep with its columns epoch_1, epoch_2, … as a learning curve; None without such columns."""
    chosen = {text for given in choices.hyperparameters for text in (given, given.rpartition(":")[0])}
    numbered: dict[str, dict[int, str]] = {}
    for name in sweep.columns:
        if (found := _NUMBERED.fullmatch(name)) and name not in chosen:
            numbered.setdefault(found[1], {})[int(found[2])] = name
    for start, names in numbered.items():
        steps = sorted(names)
        counts = len(steps) >= _FEWEST_STEPS and steps == list(range(steps[0], steps[0] + len(steps)))
        progress = is_progress(start.lower())
        if not counts or not (progress or direction(start)) or is_hyperparameter(start):
            continue
        values = [as_numbers(sweep.columns[names[step]]) for step in steps]
        if any(wrong is not None for _, wrong in values):
            continue
        metric = free_name(f"value_by_{start}" if progress else start, sweep.columns)
        matrix = np.column_stack([numbers for numbers, _ in values])
        there = ~np.isnan(matrix)
        rows, places = np.nonzero(there)
        last = [row[~np.isnan(row)][-1] if (~np.isnan(row)).any() else np.nan for row in matrix]
        columns = {name: cells for name, cells in sweep.columns.items() if name not in names.values()}
        points = Points(start if progress else "step", rows, np.array(steps, float)[places],
                        {metric: matrix[there]})  # fmt: skip
        return replace(sweep, columns={**columns, metric: np.array(last)}, points=points)
    return None


def _halved(sweep: Sweep) -> Sweep:
    """The rounds of a halving search as curves over the resource. What a round has dropped is pruned."""
    settings = [
        distinct_of(sweep.columns[name])[1] for name, role in sweep.roles.items() if role == "hyperparameter"
    ]
    steps, wrong = as_numbers(sweep.columns["n_resources"])
    if not settings or wrong is not None or len(np.unique(steps)) < 2:
        return sweep
    ids = np.unique(np.column_stack(settings), axis=0, return_inverse=True)[1].ravel()
    if not _each_once(ids, steps):
        return sweep
    found = fold(sweep, ids, steps, "n_resources")
    last = as_numbers(found.columns["n_resources"])[0]
    states = np.empty(len(found), dtype=object)
    states[:] = np.where(last < last.max(), "pruned", "finished")
    return replace(found, states=states, notes=sweep.notes)


def _with_progress(sweep: Sweep, choices: Choices) -> Sweep:
    """The sweep with a note if a column says that some trainings ended before others."""
    for name in step_columns(list(sweep.columns)):
        steps, wrong = as_numbers(sweep.columns[name])
        setting = sweep.roles.get(name) == "hyperparameter" or name in choices.hyperparameters
        if setting or wrong is not None or np.isnan(steps).any():
            continue
        early = _ended_early(steps, sweep.states, name)
        return replace(sweep, notes=(*sweep.notes, *early))
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


def _may_be_hyperparameter(sweep: Sweep, column: str, choices: Choices) -> bool:
    """Whether a column is a hyperparameter, by the user's choice, its role in the source, or its name."""
    called = {column, sweep.name(column)}
    metrics = {text for given in choices.metrics for text in (given, given.rpartition(":")[0])}
    if called & {*metrics, *choices.ignored, choices.seed}:
        return False
    if called & set(choices.hyperparameters):
        return True
    if column in sweep.roles:
        return sweep.roles[column] == "hyperparameter"
    return is_hyperparameter(column) and direction(column) is None


def _several(column: Column, ids: Ints) -> bool:
    """Whether an id has several values of a column; empty cells are not values."""
    there = ~absent(column)
    values = distinct_of(column)[1][there]
    return len(np.unique(np.column_stack([ids[there], values]), axis=0)) > len(np.unique(ids[there]))


def _each_once(ids: Ints, steps: Floats) -> bool:
    return len(np.unique(np.column_stack([ids, steps]), axis=0)) == len(ids)


def fold(sweep: Sweep, ids: Ints, steps: Floats, step: str) -> Sweep:
    """The sweep with a row for each number in ids, shape (N,). `steps` are the numbers in column `step`."""
    order = np.lexsort((steps, ids))
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    last = order[ends]
    last = last[np.argsort(_first_lines(ids)[ids[last]])]  # trainings in the order of their first lines
    row_of = np.empty(int(ids.max()) + 1, dtype=np.int64)
    row_of[ids[last]] = np.arange(len(last))
    columns: dict[str, Column] = {}
    values: dict[str, Floats] = {}
    seconds: Floats | None = None
    for name, column in sweep.columns.items():
        columns[name] = column[last]
        if name == step or sweep.roles.get(name) == "hyperparameter":
            continue
        numbers, wrong = as_numbers(column)
        if wrong is not None:
            continue
        if sweep.roles.get(name) == "seconds" or is_seconds(name):
            seconds = numbers[order]
        elif _varies(numbers[order], ids[order]) and _may_be_metric(sweep, name):
            values[name] = numbers[order]
    points = Points(step, row_of[ids[order]], steps[order], values, seconds) if values else None
    states = None if sweep.states is None else sweep.states[last]
    notes = sweep.notes
    if points is not None:
        notes += _ended_early(steps[last], states, step)
    return replace(
        sweep,
        columns=columns,
        roles={**sweep.roles, step: "identity"},
        reasons={**sweep.reasons, step: "how far the training was"},
        states=states,
        points=points,
        notes=notes,
        place=lambda row: sweep.place(int(last[row])),
    )


def _first_lines(ids: Ints) -> Ints:
    return np.unique(ids, return_index=True)[1]


def _varies(numbers: Floats, ids: Ints) -> bool:
    """Whether numbers, which are sorted by their ids, vary within an id."""
    same = ids[1:] == ids[:-1]
    return bool((numbers[1:][same] != numbers[:-1][same]).any())


def _may_be_metric(sweep: Sweep, name: str) -> bool:
    """Whether a column may be a metric, by its role in the source, or else by its name."""
    role = sweep.roles.get(name)
    return role in ("metric", "extra") if role else direction(name) is not None
