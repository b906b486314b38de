"""The JSON file from which an optimizer resumes: the calls of `ask` and `tell`, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from hpobench_nmt.core.candidates import MOST_CANDIDATES
from hpobench_nmt.core.space import Hyperparameter, Value
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import read_json
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.core.system.validation import Finite, Natural, Positive, Strict, checked

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


def read_state(path: Path) -> State:
    """The content of a file. Raises InputError if it is wrong."""
    content = read_json(path)
    if isinstance(content, dict) and content.get("format", _FORMATS[0]) not in _FORMATS:
        raise InputError(
            f"{path}: format {printable(repr(content['format']))[:60]} is not supported; "
            f"this version reads {' and '.join(map(str, _FORMATS))}."
        )
    return checked(content, State, str(path))
