"""The role of each column of a sweep: from the user, else from the source, else from its name and cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.objectives import Direction, measured
from hpobench_nmt.core.system.errors import InputError, shortened, unknown
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import absent, are_dates, as_numbers, distinct_of, text_of
from hpobench_nmt.lookup.imports.sweep import Ambiguous, Choices, Role, Sweep

# At most this many columns are named in a message.
_MOST_NAMES = 5


class Given(NamedTuple):
    """The role of a column, and the reason."""

    role: Role
    why: str


def column_called(sweep: Sweep, name: str) -> str:
    """The column of this name in the source or in the table; InputError if there is none."""
    if name in sweep.columns:
        return name
    for column in sweep.columns:
        if sweep.name(column) == name:
            return column
    raise unknown("column", name, {*sweep.columns, *map(sweep.name, sweep.columns)}, f"({sweep.path})")


def chosen_metrics(sweep: Sweep, choices: Choices) -> dict[str, Direction | None]:
    """The metrics that the user names, by column, with the directions given.

    Raises InputError if a column does not exist, or has both directions.
    """
    found: dict[str, Direction | None] = {}
    for text in choices.metrics:
        name, _, last = text.rpartition(":")
        known = text in sweep.columns or any(sweep.name(column) == text for column in sweep.columns)
        if not known and last in ("min", "max"):
            column = column_called(sweep, name)
            direction: Direction = "min" if last == "min" else "max"
            if found.get(column) not in (None, direction):
                raise InputError(
                    f"{sweep.path}: --metric {shortened(name)} is given with both min and max. Give one."
                )
            found[column] = direction
        else:
            column = column_called(sweep, text)
            found.setdefault(column, None)
    return found


def roles_of(sweep: Sweep, choices: Choices) -> dict[str, Given]:
    """The role of each column.

    Raises InputError if the user names a column that does not exist, or gives it two roles; Ambiguous if a
    column may be a hyperparameter or a metric.
    """
    found: dict[str, Given] = {}
    for column, role in sweep.roles.items():
        found[column] = Given(role, sweep.reasons.get(column, ""))
    option_of: dict[str, str] = {}
    named: tuple[tuple[str, Role, Iterable[str]], ...] = (
        ("--hyperparameter", "hyperparameter", choices.hyperparameters),
        ("--metric", "metric", chosen_metrics(sweep, choices)),
        ("--ignore", "aside", choices.ignored),
        ("--seed", "seed", filter(None, [choices.seed])),
    )
    for option, role, given_names in named:
        for column in (column_called(sweep, name) for name in given_names):
            other = option_of.setdefault(column, option)
            if other != option:
                raise InputError(
                    f"{sweep.path}: {shortened(sweep.name(column))} is given with both {other} and {option}. "
                    "Give one."
                )
            found[column] = Given(role, "as you say")
    told = any(role == "hyperparameter" for role in sweep.roles.values())
    unclear: list[str] = []
    for column in sweep.columns:
        given = found.get(column)
        name = sweep.name(column)
        if given is not None:
            if (
                given.role == "hyperparameter"
                and not choices.seed
                and names.is_seed(name)
                and given.why != "as you say"
            ):
                found[column] = Given("seed", "by its name")
            continue
        found_role = _by_itself(sweep, column, told)
        if found_role is None:
            unclear.append(column)
        else:
            found[column] = found_role
    if unclear:
        raise _unclear(sweep, unclear)
    return {column: found[column] for column in sweep.columns}


def _by_itself(sweep: Sweep, column: str, told: bool) -> Given | None:
    """The role of a column by its name and cells; None if it may be a hyperparameter or a metric.

    `told`: whether the source states which columns are hyperparameters, so that this column is not one.
    """
    name, cells = sweep.name(column), sweep.columns[column]
    empty = absent(cells)
    if empty.all():
        return Given("aside", "empty")
    if are_dates(cells):
        return Given("aside", "dates")
    if names.is_seed(name):
        return Given("seed", "by its name")
    numeric = as_numbers(cells)[1] is None
    if names.is_identity(name) and not (numeric and names.direction(name)):
        return Given("aside", "it names or dates a training")
    if sweep.points is not None and column in sweep.points.values:
        return Given("metric", "it has learning curves")
    some = (
        numeric or not np.isnan(as_numbers(cells)[0]).all()
    )  # a typo among numbers is refused later, with its line
    if some and names.direction(name) is not None and not names.is_hyperparameter(name):
        return Given("metric", "by its name")
    if told:
        return Given("extra", "")
    count = len(distinct_of(cells[~empty])[0])
    if count == 1 and not empty.any():
        return Given("aside", f"always {text_of(cells[0])[:40]}")
    if not numeric or names.is_hyperparameter(name):
        return Given("hyperparameter", "by its name" if numeric else "texts")
    values = measured(as_numbers(cells)[0])
    whole = bool((values[~np.isnan(values)] % 1 == 0).all())
    if whole or 2 * count <= len(cells):
        return Given("hyperparameter", "whole numbers" if whole else f"{count} values in {len(cells)} rows")
    return None


def _unclear(sweep: Sweep, columns: Iterable[str]) -> Ambiguous:
    first, *more = columns
    name = sweep.name(first)
    others = ""
    if more:
        shown = ", ".join(repr(sweep.name(column)) for column in more[:_MOST_NAMES])
        hidden = len(more) - _MOST_NAMES
        others = f" The same of {shown}{f' and {hidden} more' if hidden > 0 else ''}."
    return Ambiguous(
        sweep.path,
        f"is column {name!r} a hyperparameter, a metric or neither?{others}",
        {
            "hyperparameter": ("hyperparameters", name),
            "min": ("metrics", f"{name}:min"),
            "max": ("metrics", f"{name}:max"),
            "neither": ("ignored", name),
        },
    )


def objective_of(sweep: Sweep, metrics: dict[str, Direction]) -> list[str]:
    """The objective among the metrics, by column, if neither the user nor the source names it.

    It is the only metric that is not a cost, else the only one of these on held-out data, else the only one
    of these that is neither on test nor on training data. Raises Ambiguous if several metrics remain.
    """
    quality = [column for column in metrics if not names.is_cost(sweep.name(column))] or list(metrics)
    parts = {column: names.part_of_data(sweep.name(column)) for column in quality}
    held_out = [column for column in quality if parts[column] == "held out"]
    plain = [column for column in quality if not parts[column]]
    for some in (quality, held_out, plain):
        if len(some) == 1:
            return some
    some = held_out or plain or quality
    raise Ambiguous(
        sweep.path,
        f"which of its {counted(len(some), 'metric')} is the objective?",
        {sweep.name(column): ("metrics", f"{sweep.name(column)}:{metrics[column]}") for column in some},
    )
