"""An old sweep as one plain value, whatever program wrote it; and what a user says about it.

symbol   shape   meaning
N                trainings, one row each
P                points of all learning curves
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.hyperparameter import Scale
from hpobench_nmt.core.objectives import Direction

Column = NDArray[Any]
"""Doubles, NaN for no value; or objects: texts, booleans, numbers, None, tuples, and "" for no value."""

Role = Literal["hyperparameter", "metric", "extra", "seconds", "seed", "aside"]
"""A column's role, by the source. An "extra" is a metric only if its name tells which way is better."""

State = Literal["finished", "failed", "pruned", "unfinished"]


@dataclass(frozen=True, eq=False)
class Points:
    """The learning curves of a sweep, in any order.

    Attributes:
        resource: what a training is measured by, such as "epoch".
        rows: the training of each point, shape (P,).
        steps: how far it was, shape (P,).
        values: metrics by the name of their column, each of shape (P,), NaN where it was not measured.
        seconds: since the start of the training, shape (P,), NaN where not known; None: never known.
    """

    resource: str
    rows: Ints
    steps: Floats
    values: Mapping[str, Floats]
    seconds: Floats | None = None


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep of N trainings.

    Attributes:
        kind: the format, for people: "an Optuna storage".
        path: the file or folder.
        title: what a table of it could be called.
        columns: by their name in the source, each of shape (N,).
        roles: of columns, as far as the format tells.
        names: shorter names of columns, such as lr of params_lr.
        reasons: why a column is set aside; of others where their role is from.
        objectives: columns that the sweep optimised, if it says so.
        directions: of metrics, where the source tells.
        scales: of hyperparameters, where the source tells.
        states: one of State for each training, shape (N,); None: the source has none.
        points: the learning curves, None if there are none.
        notes: what a user should know of the reading.
        place: a row for messages, such as "line 3".
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

    def __len__(self) -> int:
        """The number of trainings."""
        return len(next(iter(self.columns.values()), ()))

    def name(self, column: str) -> str:
        """The name of a column in the table."""
        return self.names.get(column, column)


@dataclass(frozen=True)
class Choices:
    """What a user says about a sweep; what is empty is decided by the sweep itself.

    Attributes:
        metrics: columns, with ":min" or ":max" after the name where that is not known otherwise. The first
            is the objective.
        hyperparameters, ignored: columns that are these, whatever the source says.
        seed: the column that tells trainings of a configuration apart.
        study: which one, where a storage holds several.
        curves: files with the learning curves of the runs.
    """

    metrics: tuple[str, ...] = ()
    hyperparameters: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    seed: str = ""
    study: str = ""
    curves: tuple[Path, ...] = ()


_OPTIONS = {
    "metrics": "--metric",
    "hyperparameters": "--hyperparameter",
    "ignored": "--ignore",
    "seed": "--seed",
    "study": "--study",
}


class Ambiguous(InputError):
    """A sweep that can be read in several ways: a question, and the choice that each answer stands for.

    Its message names the options that give the answers.
    """

    def __init__(self, where: object, question: str, answers: Mapping[str, tuple[str, str]]) -> None:
        self.question = question
        self.answers = answers
        options = [f"{_OPTIONS[key]} {_quoted(value)}" for key, value in answers.values()]
        shown = options if len(options) <= _MOST else [*options[:_MOST], "…"]
        super().__init__(f"{where}: {question} Give {' or '.join(shown)}.")

    def answered(self, choices: Choices, answer: str) -> Choices:
        """The choices with this answer."""
        key, value = self.answers[answer]
        before = getattr(choices, key)
        changed: dict[str, Any] = {key: value if isinstance(before, str) else (*before, value)}
        return replace(choices, **changed)


_MOST = 8


def _quoted(text: str) -> str:
    plain = all(character.isalnum() or character in "_-.:/+@" for character in text)
    return text if plain and text else f"'{text}'"
