"""Which columns are metrics, which way they are better, which are the objectives, and where seeds stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import as_numbers
from hpobench_nmt.lookup.imports.sweep import STATED, About, Sweep

_WAY = "it is not known whether smaller or larger is better"


def numbers_of(sweep: Sweep, column: str, rows: Rows) -> Floats:
    """The numbers of a column in these rows, NaN where missing; InputError, with the line, for a text."""
    numbers, wrong = as_numbers(sweep.columns[column][rows])
    if wrong is not None:
        cell = str(sweep.columns[column][rows][wrong])[:40]
        raise InputError(
            f"{sweep.path}, {sweep.place(int(rows[wrong]))}: {sweep.name(column)!r} is {cell!r}, not a "
            f"number. Correct it, or leave the column out: --ignore {sweep.name(column)}."
        )
    return measured(numbers)


def with_metrics(sweep: Sweep, about: Mapping[str, About], rows: Rows) -> dict[str, About]:
    """The columns, where exactly the metrics have a direction, with reasons for those that are left out."""
    found = {column: replace(each, direction=None) for column, each in about.items()}
    unknown: list[str] = []
    for column, each in about.items():
        if each.role not in ("metric", "seconds"):
            continue
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        distinct = np.unique(measured(numbers[~np.isnan(numbers)]))
        wanted = each.why == STATED or each.objective
        by_name = "min" if each.role == "seconds" else names.direction(sweep.name(column))
        way = each.direction or by_name
        if wrong is not None and (wanted or (len(distinct) and way)):  # a typo
            numbers_of(sweep, column, rows)
        if wanted or each.doubt:
            found[column] = replace(each, direction=way or "min", doubt=each.doubt if way else _WAY)
        elif wrong is not None or not len(distinct):
            found[column] = replace(each, direction=None, why="empty" if wrong is None else "texts")
        elif len(distinct) > 1 and way:
            by_program = each.direction or each.role == "seconds"
            found[column] = replace(each, direction=way, why=each.why if by_program else "by its name")
        else:
            how = f"its direction is not known: use --metric {sweep.name(column)}:min or :max"
            why = how if len(distinct) > 1 else f"always {distinct[0]:g}"
            found[column] = replace(each, direction=None, why=why)
            unknown.append(column)
    if all(each.direction is None or each.role == "seconds" for each in found.values()):
        column = (unknown or _guesses(sweep, about))[-1]
        way = names.direction(sweep.name(column))
        found[column] = replace(
            found[column], role="metric", why="", direction=way or "min", doubt="" if way else _WAY
        )
    return _with_objectives(sweep, found)


def _guesses(sweep: Sweep, about: Mapping[str, About]) -> list[str]:
    """The columns of numbers that may be metrics, where no other column is one, the likeliest last."""
    outcomes = [column for column, each in about.items() if each.doubt or each.outcome]
    found = [column for column in outcomes if as_numbers(sweep.columns[column])[1] is None]
    found.sort(key=lambda column: about[column].outcome)
    if not found:
        raise InputError(
            f"{sweep.path}: no column is a metric. Name one: --metric COLUMN:min or --metric COLUMN:max."
        )
    return found


def _with_objectives(sweep: Sweep, about: Mapping[str, About]) -> dict[str, About]:
    """The columns, the objectives first, which are marked.

    The first metric that the user names is the objective. If it is one of the study's objectives, the others
    follow. Without either, it is the only metric that is not a cost, else the only one of these on held-out
    data, else the only one of these that is neither on test nor on training data. If several remain, it is
    the first, in doubt.
    """
    metrics = [column for column, each in about.items() if each.direction is not None]
    stated = [column for column in metrics if about[column].why == STATED]
    study = [column for column in metrics if column in sweep.about and sweep.about[column].objective]
    doubt = ""
    if stated and stated[0] not in study:
        chosen = stated[:1]
    elif study:
        chosen = sorted(study, key=lambda column: stated.index(column) if column in stated else len(stated))
    else:
        quality = [column for column in metrics if not names.is_cost(sweep.name(column))] or metrics
        parts = [names.part_of_data(sweep.name(column)) for column in quality]
        held_out = [column for column, part in zip(quality, parts, strict=True) if part == "held out"]
        plain = [column for column, part in zip(quality, parts, strict=True) if not part]
        some = next((some for some in (quality, held_out, plain) if len(some) == 1), None)
        if some is None:
            some = held_out or plain or quality
            doubt = f"it is one of {counted(len(some), 'metric')} that may be the objective"
        chosen = sorted(some, key=lambda column: bool(about[column].doubt))[:1]
    others = {column: replace(about[column], objective=False) for column in about if column not in chosen}
    first = {column: replace(about[column], objective=True) for column in chosen}
    first = {column: replace(each, doubt=each.doubt or doubt) for column, each in first.items()}
    return {**first, **others}


def with_seed(sweep: Sweep, about: Mapping[str, About], rows: Rows) -> dict[str, About]:
    """The columns, at most one of which has the role of the seed; the others get reasons why they have not.

    It is the column that the user names, else the first whose numbers vary.
    """
    found = dict(about)
    columns = [column for column, each in about.items() if each.role == "seed"]
    columns.sort(key=lambda column: about[column].why != STATED)
    chosen = ""
    for column in columns:
        stated = about[column].why == STATED
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        why = f"the seeds come from {chosen}" if chosen else ""
        if not why and not stated and (wrong is not None or len(np.unique(numbers)) == 1):
            why = "texts" if wrong is not None else f"always {numbers[0]:g}"
        if why:
            found[column] = replace(about[column], role="identity", why=why)
        else:
            chosen = column
    return found
