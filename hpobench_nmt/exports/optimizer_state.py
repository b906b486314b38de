"""The JSON file from which an optimizer resumes: the calls of `ask` and `tell`, in order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hpobench_nmt.benchmarking.contestants.method_settings import split_spec
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.candidates import MOST_CANDIDATES
from hpobench_nmt.core.space import Hyperparameter, Value
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_json, save_file
from hpobench_nmt.core.system.text import brief, printable
from hpobench_nmt.core.system.validation import Finite, Natural, Positive, Strict, checked
from hpobench_nmt.exports.optimizer_parts import checked_losses
from hpobench_nmt.methods import KNOWN

_FORMATS = (1, 2, 3)
"""The formats that this version reads. It writes the third, which has repeats and a start; the second
has constraints and priors."""


class Event(Strict, frozen=True, omit_defaults=True):
    """A configuration from `ask`, or a configuration and its losses from `tell`: null if it failed."""

    config: dict[str, Value]
    losses: list[Finite | None] | None = None
    violations: list[Finite | None] | None = None


class State(Strict, frozen=True):
    """A file from which an optimizer resumes."""

    space: list[Hyperparameter]
    method: str
    objectives: Positive
    budget: Positive | None
    seed: Natural
    n_initial: Natural
    candidates: Annotated[int, msgspec.Meta(ge=1, le=MOST_CANDIDATES)]
    events: list[Event]
    constraints: list[str] = msgspec.field(default_factory=list)
    prior: dict[str, Value] = msgspec.field(default_factory=dict)
    repeats: str | None = None
    start: dict[str, Value] | None = None
    format: int = _FORMATS[-1]

    @property
    def shown_method(self) -> str:
        """The method, for an error message."""
        return printable(self.method)[:100]


def read_state(path: Path) -> State:
    """The content of a file. Raises InputError if it is wrong."""
    content = read_json(path)
    if isinstance(content, dict) and content.get("format", _FORMATS[0]) not in _FORMATS:
        raise InputError(
            f"{path}: format {brief(content['format'], 60)} is not supported; "
            f"this version reads {' and '.join(map(str, _FORMATS))}."
        )
    return checked(content, State, str(path))


def write_state(path: Path, state: State) -> None:
    """Write the file, completely or not at all."""
    save_file(path, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")


def method_of(state: State, where: Path) -> str:
    """The method that a file names. It must be of this package: a file must not choose the code to run."""
    if split_spec(state.method)[0] not in KNOWN:
        raise InputError(
            f"{where}: the method '{state.shown_method}' is not a method of this package. If you trust it, "
            f"name it again: Optimizer.load(path, method=...)."
        )
    return state.method


def told_in(event: Event, n_losses: int, n_rules: int) -> tuple[Floats, Floats]:
    """The losses, shape (n_losses,), and violations, shape (n_rules,), that `tell` received; NaN for null."""
    losses = checked_losses([math.nan if v is None else v for v in event.losses or ()], n_losses)
    missed = np.array([math.nan if v is None else v for v in event.violations or ()])
    if len(missed) != n_rules:
        raise InputError(f"{event.config} has {len(missed)} violations of {n_rules} constraints.")
    return losses, missed
