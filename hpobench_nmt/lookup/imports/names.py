"""What the name of a column shows: a metric and its better direction, a hyperparameter, or neither."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.validation import Strict, load_toml


class _Words(Strict, frozen=True):
    """The content of words.toml."""

    max: frozenset[str]
    min: frozenset[str]
    cost: frozenset[str]
    outcome: frozenset[str]
    per_time: frozenset[str]
    hyperparameter: frozenset[str]
    part: dict[str, frozenset[str]]
    joined: dict[str, frozenset[str]]
    whole: dict[str, list[str]]
    state: dict[str, list[str]]


WORDS = load_toml(Path(__file__).with_name("words.toml"), _Words)
_GOALS = {"target", "budget", "limit"}  # of a metric, and not the metric itself
_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")


def parts(name: str) -> list[str]:
    """The words of a name: ["val", "loss"] of val_loss, val/loss and valLoss."""
    return [part.lower() for part in _PARTS.findall(name)]


def _joined(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def direction(name: str) -> Direction | None:
    """The better direction of a metric of this name; None if the name does not show it."""
    if name.endswith(("+", "-")):
        return "max" if name.endswith("+") else "min"
    words = parts(name)
    if ("time" in words and {"start", "end", "created"} & set(words)) or _GOALS & set(words):
        return None
    if "per" in words[1:-1]:  # tokens_per_sec is larger where training is faster, and sec_per_token smaller
        return "max" if set(words[words.index("per") + 1 :]) & WORDS.per_time else "min"
    bare = {word.rstrip("0123456789") for word in words if word not in ("l1", "l2")} | set(words)
    low = bool(bare & WORDS.min) or bool(bare & WORDS.cost) or "crossentropy" in _joined(name)
    high = bool(bare & WORDS.max)
    if low == high:
        return None
    if "neg" in words or "negative" in words:  # scikit-learn's neg_mean_squared_error
        low = not low
        if "likelihood" in words or "log" in words:
            return None
    return "min" if low else "max"


def is_outcome(name: str) -> bool:
    """Whether it is a usual name of what was measured, which does not show the better direction."""
    return bool(set(parts(name)[-1:]) & WORDS.outcome)


def is_cost(name: str) -> bool:
    """Whether it is the name of a cost, which is rarely the objective."""
    words = parts(name)
    return bool({word.rstrip("0123456789") for word in words} & WORDS.cost) or "per" in words[1:-1]


def is_hyperparameter(name: str) -> bool:
    """Whether it is a usual name of a hyperparameter."""
    words = parts(name)
    bare = {*words, *(word.rstrip("0123456789").removesuffix("s") for word in words)}
    rate = "rate" in bare and bare & {"learning", "dropout", "decay", "sampling"}
    return bool(bare & WORDS.hyperparameter or rate)


def is_identity(name: str) -> bool:
    """Whether a column of this name names or dates trainings, or states where they ran."""
    last = parts(name)[-1:] in (["id"], ["uuid"], ["timestamp"], ["file"], ["path"], ["dir"], ["url"])
    return last or _joined(name) in WORDS.joined["identity"] or name.startswith("Unnamed:") or not name


def is_progress(name: str) -> bool:
    """Whether a column of this name says how far a training was."""
    return name.lower() in WORDS.whole["step"]


def is_seed(name: str) -> bool:
    """Whether it is the name of a column of seeds."""
    return parts(name)[-1:] == ["seed"] or "randomstate" in _joined(name)


def is_seconds(name: str) -> bool:
    """Whether it is the name of a column of durations."""
    return _joined(name) in WORDS.joined["seconds"]


def part_of_data(name: str) -> str:
    """The part of the data that the name mentions ("held out", "test" or "train"), or ""."""
    words = set(parts(name))
    return next((part for part, known in WORDS.part.items() if words & known), "")


def known_columns(names: list[str], what: Literal["step", "id"]) -> list[str]:
    """The columns that may measure the progress of a training, or identify it, the likeliest first."""
    lowered = {name.lower(): name for name in reversed(names)}
    return [lowered[known] for known in WORDS.whole[what] if known in lowered]
