"""An old sweep as one plain value, whatever program wrote it, and the user's choices about it.

symbol   shape   meaning
N                trainings, one row each
P                points of all learning curves
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.hyperparameter import Hyperparameter, Scale
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError

Column = NDArray[Any]
"""Doubles, NaN for no value; or objects: texts, booleans, numbers, None, tuples, and "" for no value."""

Role = Literal["hyperparameter", "metric", "seconds", "seed", "identity", "aside"]
"""A column's role. A "metric" is left out if it is not known which way is better.

An "identity" names or dates trainings, or states where they ran. Both "identity" and "aside" are left out,
but trainings that differ in a column that is "aside" are never merged.
"""

State = Literal["finished", "failed", "pruned", "unfinished"]

STATED = "as you say"
"""The reason for a role that the user states."""


@dataclass(frozen=True)
class About:
    """The role of a column, and what else is known about it.

    Attributes:
        role: the role.
        why: the reason for the role.
        doubt: why the role, or the direction, is only a guess; "" if it is known or sure.
        name: the name in the table, such as lr for params_lr; "" if it is the column's own.
        direction: of a metric, if it is known.
        scale: of a hyperparameter, if it is known.
        unit: shown to people.
        objective: whether it is a metric that the sweep optimised.
        outcome: whether it is the outcome of a training, though it is not known which way is better.
        exact: the hyperparameter itself, if the source holds it.
    """

    role: Role
    why: str = ""
    doubt: str = ""
    name: str = ""
    direction: Direction | None = None
    scale: Scale | None = None
    unit: str = ""
    objective: bool = False
    outcome: bool = False
    exact: Hyperparameter | None = None

    @property
    def shown(self) -> str:
        """The role as users state it: objective, metric, hyperparameter, seed or ignore.

        Metrics are the columns with a direction.
        """
        if self.direction is not None:
            return "objective" if self.objective else "metric"
        return self.role if self.role in ("hyperparameter", "seed") else "ignore"


@dataclass(frozen=True, eq=False)
class Points:
    """The learning curves of a sweep, in any order.

    Attributes:
        resource: the measure of a training's progress, such as "epoch".
        rows: the training of each point, shape (P,).
        steps: the progress of the training at each point, shape (P,).
        values: metrics by the name of their column, each of shape (P,), NaN where not measured.
        seconds: seconds since the start of the training, shape (P,), NaN where unknown; None: all unknown.
    """

    resource: str
    rows: Ints
    steps: Floats
    values: Mapping[str, Floats]
    seconds: Floats | None = None


def points_of(
    resource: str,
    curves: Mapping[str, Sequence[Mapping[float, float]]],
    seconds: Sequence[Mapping[float, float]] = (),
) -> Points | None:
    """The points of curves, given by metric as the values by step of each training; None if there are none.

    `seconds` has the seconds since the start by step for each training, if they are known.
    """
    trainings = enumerate(zip(*curves.values(), strict=True))
    places = [(row, step) for row, own in trainings for step in sorted({s for each in own for s in each})]
    if not places:
        return None
    rows, steps = map(np.array, zip(*places, strict=True))
    lists = {name: [own[row].get(step, np.nan) for row, step in places] for name, own in curves.items()}
    values = {name: np.array(own) for name, own in lists.items()}
    times = np.array([seconds[row][step] for row, step in places]) if seconds else None
    return Points(resource, rows, steps, values, times)


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep of N trainings.

    Attributes:
        kind: the format, for messages, such as "an Optuna storage".
        path: the file or folder.
        title: a possible name of its table.
        columns: columns by their name in the source, each of shape (N,).
        about: the roles of columns, as far as the source shows them.
        states: the State of each training, shape (N,); None if the source has no states.
        points: the learning curves; None if the source has no curves.
        notes: what the user should know about the reading of the source.
        place: returns the location of a row for messages, such as "line 3".
        typed: whether values have types: then a text is a text, even if it looks like a number.
        plain: whether an unknown program wrote it, whose lines may be reports of trainings.
        studies: whether the source may have several studies, of which this is one.
    """

    kind: str
    path: Path
    title: str
    columns: Mapping[str, Column]
    about: Mapping[str, About]
    states: NDArray[Any] | None = None
    points: Points | None = None
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] = lambda row: f"training {row}"
    typed: bool = False
    plain: bool = False
    studies: bool = False

    def __len__(self) -> int:
        """The number of trainings."""
        return len(next(iter(self.columns.values()), ()))

    def name(self, column: str) -> str:
        """The name of a column in the table."""
        return (column in self.about and self.about[column].name) or column

    def role(self, column: str) -> Role | None:
        """The role of a column, if the source shows it."""
        return self.about[column].role if column in self.about else None


@dataclass(frozen=True)
class Choices:
    """The user's choices about a sweep. If a choice is empty, the sweep decides.

    Attributes:
        roles: names of columns and what the user states about them. The first metric is the objective.
        study: the study to read, if a storage holds several.
        curves: files with the learning curves of the runs.
        guessed: whether guesses are accepted.
    """

    roles: tuple[tuple[str, About], ...] = ()
    study: str = ""
    curves: tuple[Path, ...] = ()
    guessed: bool = False

    def role(self, *names: str) -> Role | None:
        """The role that the user states for a column with these names."""
        return next((about.role for name, about in self.roles if name in names), None)


def one_study(studies: Sequence[str], wanted: str, where: object, what: str = "study") -> str:
    """The wanted study, or the only study. InputError if there is none, or several and none is wanted."""
    shown = ", ".join(map(repr, studies[:_MOST]))
    if wanted and wanted not in studies:
        raise InputError(f"{where}: has no {what} {wanted!r}. It has {shown}.")
    if not studies:
        raise InputError(f"{where}: is without a {what}.")
    if len(studies) > 1 and not wanted:
        name = f"--study {shlex.quote(studies[0])}"
        raise InputError(f"{where}: has more than one {what}: {shown}. Name one: {name}.")
    return wanted or studies[0]


_MOST = 20
