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
from hpobench_nmt.lookup.imports.cells import as_numbers, distinct_of
from hpobench_nmt.lookup.imports.sweep import STATED, About, Sweep

# A metric with no more distinct values, such as a count of completed requests, is hardly the objective.
_FLAG = 2
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
    """The columns, where exactly the metrics have a direction, with reasons for those that are left out.

    Without another metric, the likeliest column of numbers is one, in doubt.
    """
    found = {column: replace(each, direction=None) for column, each in about.items()}
    likely = [column for column, each in about.items() if each.doubt]
    likely += [column for column, each in about.items() if each.outcome]
    for column, each in about.items():
        if each.role not in ("metric", "seconds"):
            continue
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        distinct = np.unique(measured(numbers[~np.isnan(numbers)]))
        way = each.direction or ("min" if each.role == "seconds" else names.direction(sweep.name(column)))
        varies = len(distinct) > (1 if wrong is None else 0)  # a text among numbers is refused with its line
        if each.why == STATED or each.objective or each.doubt:
            found[column] = replace(each, direction=way or "min", doubt=each.doubt if way else _WAY)
        elif varies and way:
            known = each.direction or each.role == "seconds"
            found[column] = replace(each, direction=way, why=each.why if known else "by its name")
        else:
            name = sweep.name(column)
            unknown = f"its direction is not known: use --metric {name}:min or :max"
            alike = "texts" if wrong is not None else f"always {distinct[0]:g}" if len(distinct) else "empty"
            found[column] = replace(each, direction=None, why=unknown if varies else alike)
            likely += [column] if len(distinct) and wrong is None else []
    if all(each.direction is None or each.role == "seconds" for each in found.values()):
        likely = [column for column in likely if as_numbers(sweep.columns[column])[1] is None]
        if not likely:
            advice = "Name one: --metric COLUMN:min or --metric COLUMN:max."
            raise InputError(f"{sweep.path}: no column is a metric. {advice}")
        way, doubted = names.direction(sweep.name(likely[-1])), found[likely[-1]]
        doubt = "" if way else _WAY
        found[likely[-1]] = replace(doubted, role="metric", why="", direction=way or "min", doubt=doubt)
    return _with_objectives(sweep, found)


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
        chosen = [column for column in stated if column in study]
        chosen += [column for column in study if column not in stated]
    else:
        varied = [c for c in metrics if len(distinct_of(sweep.columns[c])[0]) > _FLAG] or metrics
        quality = [column for column in varied if not names.is_cost(sweep.name(column))] or varied
        held_out = [column for column in quality if names.part_of_data(sweep.name(column)) == "held out"]
        plain = [column for column in quality if not names.part_of_data(sweep.name(column))]
        some = next((some for some in (quality, held_out, plain) if len(some) == 1), None)
        if some is None:
            some = held_out or plain or quality
            doubt = f"it is one of {counted(len(some), 'metric')} that may be the objective"
        chosen = sorted(some, key=lambda column: bool(about[column].doubt))[:1]
    first = {c: replace(about[c], objective=True, doubt=about[c].doubt or doubt) for c in chosen}
    return first | {c: replace(about[c], objective=False) for c in about if c not in chosen}


def with_seed(sweep: Sweep, about: Mapping[str, About], rows: Rows) -> dict[str, About]:
    """The columns, at most one of which has the role of the seed; the others get reasons why they have not.

    It is the column that the user names, else the first whose numbers vary.
    """
    found, chosen = dict(about), ""
    seeds = [column for column, each in about.items() if each.role == "seed"]
    for column in sorted(seeds, key=lambda column: about[column].why != STATED):
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        why = f"the seeds come from {chosen}" if chosen else ""
        if not why and about[column].why != STATED and (wrong is not None or len(np.unique(numbers)) == 1):
            why = "texts" if wrong is not None else f"always {numbers[0]:g}"
        found[column] = replace(about[column], role="identity", why=why) if why else about[column]
        chosen = chosen or ("" if why else column)
    return found
