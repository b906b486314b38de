"""The role of each column of a sweep: from the user, else from the source, else from its name and cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np
import tomli_w

from hpobench_nmt.core.hyperparameter import Scale
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError, shortened, unknown
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.core.system.validation import Strict, checked
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import absent, are_dates, as_numbers, distinct_of, text_of
from hpobench_nmt.lookup.imports.sweep import STATED, About, Choices, Role, Sweep

# A column of distinct texts with more rows than this names the trainings.
_MOST_TEXTS = 10
_NO_WAY = "it has the name of an outcome, but not of one whose better direction is known"
_NEITHER = "its name shows neither a hyperparameter nor a metric"


class _Entry(Strict, frozen=True, omit_defaults=True):
    """What a file of roles says about a column."""

    role: Literal["objective", "metric", "hyperparameter", "seed", "ignore"]
    direction: Direction | None = None
    scale: Scale | None = None
    unit: str = ""
    guess: str = ""
    reason: str = ""


def stated(
    metrics: Sequence[str] = (),
    hyperparameters: Sequence[str] = (),
    ignored: Sequence[str] = (),
    seed: str = "",
    roles: Mapping[str, Any] | None = None,
    where: object = "roles",
) -> tuple[tuple[str, About], ...]:
    """What the user states about columns, by their names.

    `roles` has a role by column: a table, as in a file of roles, or a text such as "metric:max". Messages
    about it begin with `where`.
    """

    def entry_of(given: Any) -> Any:
        keys = ("role", "direction")
        return dict(zip(keys, given.split(":"), strict=False)) if isinstance(given, str) else given

    given = {column: entry_of(entry) for column, entry in (roles or {}).items()}
    said = [(name, _Entry("metric", way)) for name, way in map(_directed, metrics)]
    said += [(name, _Entry("hyperparameter")) for name in hyperparameters]
    said += [(name, _Entry("ignore")) for name in ignored]
    said += [(seed, _Entry("seed"))] if seed else []
    entries = checked(given, dict[str, _Entry], str(where))
    said += sorted(entries.items(), key=lambda item: item[1].role != "objective")
    return tuple((name, _stated(entry)) for name, entry in said)


def _directed(text: str) -> tuple[str, Any]:
    """The name and the direction of a metric such as "dev_bleu:max"."""
    name, _, way = text.rpartition(":")
    return (name, way) if way == "min" or way == "max" else (text, None)


def _stated(entry: _Entry) -> About:
    roles: dict[str, Role] = {"objective": "metric", "ignore": "identity"}
    role: Any = roles.get(entry.role, entry.role)
    return About(
        role, STATED, direction=entry.direction, scale=entry.scale, unit=entry.unit,
        objective=entry.role == "objective",
    )  # fmt: skip


def roles_file(about: Mapping[str, About]) -> str:
    """The roles of columns as TOML, for the user to correct. `stated` reads it."""
    tables = {}
    for column, each in about.items():
        role = each.shown
        way = each.direction if role in ("objective", "metric") else None
        scale = each.scale if role == "hyperparameter" else None
        entry = _Entry(role, way, scale, each.unit, each.doubt, printable(each.why))  # type: ignore[arg-type]
        tables[column] = msgspec.to_builtins(entry)
    head = (
        "# The role of each column: objective, metric, hyperparameter, seed or ignore. Metrics have a\n"
        "# direction, min or max, and numeric hyperparameters a scale, linear or log. A column with a guess\n"
        "# is the question: correct its role, or leave it.\n\n"
    )
    return head + tomli_w.dumps(tables)


def roles_of(sweep: Sweep, choices: Choices) -> dict[str, About]:
    """The role of each column: the metrics that the user states, then all others in their order.

    Raises InputError if the user names a column that does not exist, or gives it two roles.
    """
    said = _stated_by_column(sweep, choices)
    seed = any(about.role == "seed" for about in said.values())
    known = {**sweep.about, **said}
    told = any(sweep.role(column) == "hyperparameter" for column in sweep.columns)
    few = _few(sweep)
    grid = _is_grid(list(few.values()))
    for column in sweep.columns:
        about = known.get(column) or _role_of(sweep, column, told, column in few, grid)
        setting = about.role == "hyperparameter" and about.why != STATED
        if setting and not seed and names.is_seed(sweep.name(column)):
            about = replace(about, role="seed", why="by its name")
        known[column] = about
    metrics = [column for column, about in said.items() if about.role == "metric"]
    return {column: known[column] for column in (*metrics, *sweep.columns)}


def _stated_by_column(sweep: Sweep, choices: Choices) -> dict[str, About]:
    found: dict[str, About] = {}
    for name, about in choices.roles:
        column = _called(sweep, name)
        if column is None:
            known = {*sweep.columns, *map(sweep.name, sweep.columns)}
            raise unknown("column", name, known, f"({sweep.path})")
        before = found.get(column, about)
        for one, other in ((before.role, about.role), (before.direction, about.direction)):
            if None not in (one, other) and one != other:
                words = [{"identity": "ignored"}.get(str(word), str(word)) for word in (one, other)]
                raise InputError(
                    f"{sweep.path}: {shortened(sweep.name(column))} is given as both {' and '.join(words)}. "
                    "Give one."
                )
        stated = {key: value for key, value in vars(about).items() if value}
        found[column] = replace(before, **{**stated, "name": sweep.name(column)})
    return found


def _called(sweep: Sweep, name: str) -> str | None:
    """The column of this name in the source or in the table."""
    called = [column for column in sweep.columns if name in (sweep.name(column), f"{sweep.name(column)}_")]
    return name if name in sweep.columns else next(iter(called), None)  # free_name may have added the mark


def _few(sweep: Sweep) -> dict[str, Any]:
    """The places of the values of columns with few values, which vary."""
    found = {}
    for column, cells in sweep.columns.items():
        values, places = distinct_of(cells)
        name = sweep.name(column)
        measured = names.part_of_data(name) and names.direction(name) and not names.is_hyperparameter(name)
        known = names.is_seed(name) or names.is_identity(name) or measured
        if not known and 1 < len(values) <= len(cells) / 2 and not absent(cells).any():
            found[column] = places
    return found


def _is_grid(few: Sequence[Any]) -> bool:
    """Whether the values of two or more columns form a full grid."""
    size = math.prod(int(places.max()) + 1 for places in few)
    return len(few) > 1 and len(np.unique(np.column_stack(few), axis=0)) == size


def _role_of(sweep: Sweep, column: str, told: bool, few: bool, grid: bool) -> About:
    """The role of a column by its name and its cells together, with a doubt if they do not agree.

    Few values that repeat are those of a setting; another number in nearly every row is an outcome, if it is
    beside a full grid or has the name of one.

    Args:
        sweep, column: the column of a sweep.
        told: whether the source states which columns are hyperparameters, so that this column is not one.
        few: whether the column has few values.
        grid: whether the columns with few values form a full grid.
    """
    name, cells = sweep.name(column), sweep.columns[column]
    empty = absent(cells)
    numbers, wrong = as_numbers(cells)
    numeric, some = wrong is None, not np.isnan(numbers).all()
    way, usual = names.direction(name), names.is_hyperparameter(name)
    count = len(distinct_of(cells[~empty])[0])
    if sweep.points is not None and column in sweep.points.values:
        return About("metric", "it has learning curves")
    if empty.all():
        return About("aside", "empty")
    if are_dates(cells):
        return About("identity", "dates")
    if names.is_seed(name):
        return About("seed", "by its name")
    if names.is_identity(name) and not (numeric and way):
        return About("identity", "it names or dates a training")
    if count == 1 and not empty.any() and (way is None or usual or not some):
        return About("aside", f"always {text_of(cells[0])[:40]}")
    if names.is_progress(name) and not told:
        doubt = "it may be a setting, or how far a training was" if few else ""
        return About("hyperparameter" if few and grid else "aside", "how far a training was", doubt)
    values = f"{count} values in {len(cells)} rows"
    outcome = way is not None or names.part_of_data(name) != ""
    outcomes = names.part_of_data(name) or (names.is_outcome(name) and not few)
    if outcomes and some and way is None and not (usual or told):
        return About("aside", _NO_WAY, outcome=True)
    if outcome and not usual and some:  # a typo among numbers is refused later, with its line
        if few and not told and not names.part_of_data(name):
            return About("hyperparameter", values, "it has few values, but the name of a metric")
        return About("metric", "by its name")
    if told:
        return About("aside", "it is not among the settings")
    if not some and count == len(cells) > _MOST_TEXTS:
        return About("identity", "another text in every row: it names them")
    if outcome and not (usual and few and way is None):
        doubt = "its name may be that of a metric or of a hyperparameter"
        return About("hyperparameter" if few or usual else "aside", values, doubt)
    lists = any(isinstance(cell, tuple) for cell in cells) if cells.dtype == object else False
    if usual or (few and grid) or not (numeric or lists):
        return About("hyperparameter", "by its name" if usual else values if numeric else "texts")
    if grid and not few and not empty.any():
        return About("aside", "its numbers differ beside a full grid: it is an outcome", outcome=True)
    if len(cells) > _MOST_TEXTS and bool((np.diff(numbers) == 1).all()) and numbers[0] in (0, 1):
        return About("identity", "it counts the rows")
    doubt = "it has lists, which may be values or a curve" if lists else _NEITHER
    return About("hyperparameter", values, doubt)
