"""The role of each column of a sweep: from the user, else from the source, else from its name and cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError, shortened, unknown
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import absent, are_dates, as_numbers, distinct_of, text_of
from hpobench_nmt.lookup.imports.sweep import Choices, Role, Sweep

# A column of distinct texts with more rows than this names the trainings.
_MOST_TEXTS = 10


_OUTCOME = "its numbers differ beside a full grid: it is an outcome"


class Given(NamedTuple):
    """The role of a column, the reason, and why it is only a guess; no doubt if it is known or sure."""

    role: Role
    why: str
    doubt: str = ""

    @property
    def may_be_setting(self) -> bool:
        """Whether trainings that differ in this column may have other settings, if it is left out."""
        return self.role in ("aside", "hyperparameter") or (self.role == "extra" and self.why == _OUTCOME)


def column_called(sweep: Sweep, name: str) -> str:
    """The column of this name in the source or in the table; InputError if there is none."""
    if name in sweep.columns:
        return name
    for column in sweep.columns:
        if name in (sweep.name(column), f"{sweep.name(column)}_"):  # free_name may have added the mark
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

    Raises InputError if the user names a column that does not exist, or gives it two roles.
    """
    found: dict[str, Given] = {}
    for column, role in sweep.roles.items():
        found[column] = Given(role, sweep.reasons.get(column, ""))
    option_of: dict[str, str] = {}
    named: tuple[tuple[str, Role, Iterable[str]], ...] = (
        ("--hyperparameter", "hyperparameter", choices.hyperparameters),
        ("--metric", "metric", chosen_metrics(sweep, choices)),
        ("--ignore", "identity", choices.ignored),
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
    few, grid = _settings(sweep)
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
        found[column] = role_of(sweep, column, told, few, grid)
    return {column: found[column] for column in sweep.columns}


def _settings(sweep: Sweep) -> tuple[set[str], bool]:
    """The columns with few values that vary, and whether these values form a full grid of two or more."""
    few = {}
    for column, cells in sweep.columns.items():
        values, places = distinct_of(cells)
        name = sweep.name(column)
        measured = names.part_of_data(name) and not names.is_hyperparameter(name)
        if names.is_seed(name) or names.is_identity(name) or measured or absent(cells).any():
            continue
        if len(values) > 1 and 2 * len(values) <= len(cells):
            few[column] = places
    if len(few) < 2:
        return set(few), False
    cells = np.column_stack(list(few.values()))
    size = math.prod(int(places.max()) + 1 for places in few.values())
    return set(few), len(np.unique(cells, axis=0)) == size


def role_of(sweep: Sweep, column: str, told: bool, few: Set[str], grid: bool) -> Given:
    """The role of a column by its name and its cells together, with a doubt if they do not agree.

    Few values that repeat are those of a setting; another number in nearly every row is an outcome, if it is
    beside a full grid or has the name of one.

    Args:
        sweep, column: the column of a sweep.
        told: whether the source states which columns are hyperparameters, so that this column is not one.
        few, grid: the columns with few values, and whether these form a full grid.
    """
    name, cells = sweep.name(column), sweep.columns[column]
    empty = absent(cells)
    numbers, wrong = as_numbers(cells)
    numeric, some = wrong is None, not np.isnan(numbers).all()
    way, usual = names.direction(name), names.is_hyperparameter(name)
    if empty.all():
        return Given("aside", "empty")
    if are_dates(cells):
        return Given("identity", "dates")
    if names.is_seed(name):
        return Given("seed", "by its name")
    if names.is_identity(name) and not (numeric and way):
        return Given("identity", "it names or dates a training")
    if sweep.points is not None and column in sweep.points.values:
        return Given("metric", "it has learning curves")
    count = len(distinct_of(cells[~empty])[0])
    if count == 1 and not empty.any() and (way is None or usual or not some):
        return Given("aside", f"always {text_of(cells[0])[:40]}")
    if names.is_progress(name) and not (told or column in few):
        return Given("aside", "how far a training was")
    outcome = way is not None or names.part_of_data(name) != ""
    if outcome and not usual and some:  # a typo among numbers is refused later, with its line
        if column in few and not told and names.is_doubtful(name):
            return Given("hyperparameter", f"{count} values", "it has few values, but the name of a metric")
        return Given("metric", "by its name")
    if told:
        return Given("extra", "")
    values = f"{count} values in {len(cells)} rows"
    if not some and count == len(cells) > _MOST_TEXTS:
        return Given("identity", "another text in every row: it names them")
    if outcome:
        doubt = "its name may be that of a metric or of a hyperparameter"
        return Given("hyperparameter" if column in few else "aside", values, doubt)
    if names.is_progress(name):
        return Given("hyperparameter", values, "it may be a setting, or how far a training was")
    if usual or not numeric or (column in few and grid):
        return Given("hyperparameter", "by its name" if usual else "texts" if not numeric else values)
    if grid and column not in few and not empty.any():
        return Given("extra", _OUTCOME)
    if len(cells) > _MOST_TEXTS and bool((np.diff(numbers) == 1).all()) and numbers[0] in (0, 1):
        return Given("identity", "it counts the rows")
    return Given("hyperparameter", values, "its name shows neither a hyperparameter nor a metric")


def objective_of(sweep: Sweep, metrics: dict[str, Direction]) -> tuple[list[str], str]:
    """The objective among the metrics, by column, if neither the user nor the source names it; and a doubt.

    It is the only metric that is not a cost, else the only one of these on held-out data, else the only one
    of these that is neither on test nor on training data. If several remain, it is the first, in doubt.
    """
    quality = [column for column in metrics if not names.is_cost(sweep.name(column))] or list(metrics)
    parts = {column: names.part_of_data(sweep.name(column)) for column in quality}
    held_out = [column for column in quality if parts[column] == "held out"]
    plain = [column for column in quality if not parts[column]]
    for some in (quality, held_out, plain):
        if len(some) == 1:
            return some, ""
    some = held_out or plain or quality
    return some[:1], f"it is one of {counted(len(some), 'metric')} that may be the objective"
