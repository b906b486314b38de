"""An old sweep as one plain value, whatever program wrote it, and the user's choices about it.

symbol   shape   meaning
N                trainings, one row each
P                points of all learning curves
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.hyperparameter import Scale
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError

Column = NDArray[Any]
"""Doubles, NaN for no value; or objects: texts, booleans, numbers, None, tuples, and "" for no value."""

Role = Literal["hyperparameter", "metric", "extra", "seconds", "seed", "identity", "aside"]
"""A column's role in the source. An "extra" is a metric only if its name shows the better direction.

An "identity" names or dates trainings, or states where they ran. Both "identity" and "aside" are left out,
but trainings that differ in a column that is "aside" are never merged.
"""

State = Literal["finished", "failed", "pruned", "unfinished"]


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
    curves: Sequence[Mapping[str, Mapping[float, float]]],
    seconds: Sequence[Mapping[float, float]] = (),
) -> Points | None:
    """The points of curves, given as values by step for each training and metric; None if there are none.

    `seconds` has the seconds since the start by step for each training, if they are known.
    """
    names = list(dict.fromkeys(name for own in curves for name in own))
    places = [
        (row, step)
        for row, own in enumerate(curves)
        for step in sorted({step for each in own.values() for step in each})
    ]
    if not places:
        return None
    rows, steps = map(np.array, zip(*places, strict=True))
    values = {
        name: np.array([curves[row].get(name, {}).get(step, np.nan) for row, step in places])
        for name in names
    }
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
        roles: roles of columns, as far as the format shows them.
        names: shorter names of columns, such as lr for params_lr.
        reasons: why columns are left out, or why they have their roles.
        objectives: columns that the sweep optimised, if the source states them.
        directions: directions of metrics, if the source states them.
        scales: scales of hyperparameters, if the source states them.
        states: the State of each training, shape (N,); None if the source has no states.
        points: the learning curves; None if the source has no curves.
        notes: what the user should know about the reading of the source.
        place: returns the location of a row for messages, such as "line 3".
        typed: whether values have types: then a text is a text, even if it looks like a number.
    """

    kind: str
    path: Path
    title: str
    columns: Mapping[str, Column]
    roles: Mapping[str, Role] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    objectives: tuple[str, ...] = ()
    directions: Mapping[str, Direction] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    states: NDArray[Any] | None = None
    points: Points | None = None
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] = lambda row: f"training {row}"
    typed: bool = False

    def __len__(self) -> int:
        """The number of trainings."""
        return len(next(iter(self.columns.values()), ()))

    def name(self, column: str) -> str:
        """The name of a column in the table."""
        return self.names.get(column, column)


@dataclass(frozen=True)
class Choices:
    """The user's choices about a sweep. If a choice is empty, the sweep decides.

    Attributes:
        metrics: columns that are metrics, with ":min" or ":max" after the name if the direction is not known
            otherwise. The first is the objective.
        hyperparameters, ignored: columns that are hyperparameters, and columns to leave out, whatever the
            source states.
        seed: the column of seeds, which distinguishes trainings of the same configuration.
        study: the study to read, if a storage holds several.
        curves: files with the learning curves of the runs.
        scales: scales of hyperparameters by column.
        guessed: whether guesses are accepted.
    """

    metrics: tuple[str, ...] = ()
    hyperparameters: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    seed: str = ""
    study: str = ""
    curves: tuple[Path, ...] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    guessed: bool = False


_OPTIONS = {
    "metrics": "--metric",
    "hyperparameters": "--hyperparameter",
    "ignored": "--ignore",
    "seed": "--seed",
    "study": "--study",
}


class Ambiguous(InputError):
    """A sweep can be read in several ways: a question, and the choice that each answer stands for.

    The message names the command-line options for the answers.
    """

    def __init__(self, where: object, question: str, answers: Mapping[str, tuple[str, str]]) -> None:
        self.question = question
        self.answers = answers
        options = [f"{_OPTIONS[key]} {_quoted(value)}" for key, value in answers.values()]
        shown = options if len(options) <= _MOST else [*options[:_MOST], "…"]
        super().__init__(f"{where}: {question} Give {' or '.join(shown)}.")

    def answered(self, choices: Choices, answer: str) -> Choices:
        """The choices, with this answer added."""
        key, value = self.answers[answer]
        before = getattr(choices, key)
        changed: dict[str, Any] = {key: value if isinstance(before, str) else (*before, value)}
        return replace(choices, **changed)


_MOST = 8


def _quoted(text: str) -> str:
    plain = all(character.isalnum() or character in "_-.:/+@" for character in text)
    return text if plain and text else f"'{text}'"
