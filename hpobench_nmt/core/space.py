"""The search space: configurations as dictionaries, as codes and as features.

symbol   shape    meaning
config            a configuration: values by name, without inactive hyperparameters
codes    (N, H)   N configurations as numbers: a number itself, or a label's position among the values;
                  NaN where the hyperparameter is inactive
features (N, F)   the input of surrogates, in [0, 1]; F is H, or larger if there are categories

core/hyperparameter.py describes how a hyperparameter becomes features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core import space_exchange
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.hyperparameter import Hyperparameter as Hyperparameter
from hpobench_nmt.core.hyperparameter import Kind as Kind
from hpobench_nmt.core.hyperparameter import Scale as Scale
from hpobench_nmt.core.hyperparameter import Value as Value
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.hyperparameter import label as label
from hpobench_nmt.core.hyperparameter import short_label as short_label
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.text import brief

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.distributions import BaseDistribution

Config = Mapping[str, Value]
"""Values by name, without inactive hyperparameters."""
# Names of scales here and in other libraries. "log2" is not listed: in some, it is a hyperparameter's value.
_SCALES = ("linear", "log", "log10", "ln", "uniform", "loguniform", "log-uniform", "log_uniform")


@dataclass(frozen=True)
class Space(Sequence[Hyperparameter]):
    """A search space: one or more hyperparameters with different names, in the order of a table's columns."""

    hyperparameters: tuple[Hyperparameter, ...]

    def __post_init__(self) -> None:
        """Refuse repeated names, and conditions that are unknown, empty or circular."""
        names = self.names
        if not names:
            raise InputError("a search space needs at least one hyperparameter.")
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"the search space has two hyperparameters {name!r}.")
        for h in self.hyperparameters:
            for parent, values in h.active_if:
                if parent not in names:
                    raise unknown("hyperparameter", parent, names, f"(active_if of {h.name!r})")
                if not values:
                    raise InputError(f"active_if of {h.name!r}: {parent} needs at least one value.")
                for value in values:
                    self[parent].code(value)
        if len(self.parents_first) < len(names):
            left = next(h.name for h in self if h not in self.parents_first)
            raise InputError(f"active_if of {left!r}: the condition depends on itself.")

    @cached_property
    def parents_first(self) -> tuple[Hyperparameter, ...]:
        """The hyperparameters, each after those that its condition names, without circular conditions."""
        order: list[Hyperparameter] = []
        left = list(self.hyperparameters)
        while left:
            known = {h.name for h in order}
            ready = [h for h in left if all(parent in known for parent, _ in h.active_if)]
            if not ready:
                break
            order += ready
            left = [h for h in left if h not in ready]
        return tuple(order)

    def active(self, codes: Floats) -> Bools:
        """Which hyperparameters are active in configurations given as codes, shape (N, H)."""
        found = np.ones(codes.shape, dtype=bool)
        place = {name: j for j, name in enumerate(self.names)}
        for h in self.parents_first:
            for parent, values in h.active_if:
                wanted = [self[parent].code(value) for value in values]
                at = place[parent]
                found[:, place[h.name]] &= found[:, at] & np.isin(codes[:, at], wanted)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters, in order."""
        return tuple(h.name for h in self.hyperparameters)

    def __len__(self) -> int:
        return len(self.hyperparameters)

    def __iter__(self) -> Iterator[Hyperparameter]:
        return iter(self.hyperparameters)

    def __getitem__(self, key: Any) -> Any:
        """A hyperparameter by name or position."""
        if isinstance(key, str):
            for hyperparameter in self.hyperparameters:
                if hyperparameter.name == key:
                    return hyperparameter
            raise unknown("hyperparameter", key, self.names)
        return self.hyperparameters[key]

    def __contains__(self, key: object) -> bool:
        return key in self.names or key in self.hyperparameters

    @classmethod
    def of(cls, axes: Mapping[str, object]) -> Space:
        """A space from a short description, by name.

        A list of numbers is a grid, and a list of other values is a list of categories. A tuple is a range:
        (low, high) or (low, high, "log"). If both ends have the type int, the range has whole numbers only:
        (0, 1) has the two values 0 and 1, but (0.0, 1.0) has all numbers between them. A value can also be a
        Hyperparameter, such as Hyperparameter("x", (1, 10, 100), "log") for a grid on a log scale, or one of
        Optuna's distributions; its name here is its key. A ConfigSpace is taken as it is.

            Space.of({"layers": [1, 2], "rule": ["sgd", "adam"], "rate": (1e-4, 1e-1, "log")})

        Raises InputError for anything else.
        """
        if space_exchange.is_configspace(axes):
            return cls(space_exchange.from_configspace(axes))
        if isinstance(axes, space_exchange.Distributions):
            return cls(space_exchange.from_optuna(axes))
        if not isinstance(axes, Mapping):
            raise InputError(
                "a search space must be a Space, or hyperparameters by name such as {'x': (0.0, 1.0)}, not "
                f"{brief(axes)}."
            )
        return cls(tuple(_described(name, axis) for name, axis in axes.items()))

    def encode(self, config: Config) -> Floats:
        """A configuration as codes, shape (H,).

        Raises InputError if it is not a mapping, or a name or value is missing, unknown or off the grid.
        """
        if not isinstance(config, Mapping):
            raise InputError(
                f"a configuration must be values by name, such as {{{self.names[0]!r}: …}}, not "
                f"{brief(config)}."
            )
        names = self.names
        for name in config:
            if name not in names:
                raise unknown("hyperparameter", str(name), names)
        codes = np.empty(len(self))
        for j, h in enumerate(self.hyperparameters):
            if h.name not in config and not h.active_if:
                raise InputError(f"the configuration lacks the hyperparameter {h.name!r}.")
            codes[j] = h.code(config.get(h.name))
        if wrong := self.wrongly_active(codes[None]):
            raise InputError(f"the configuration: {wrong[1]}")
        return codes

    def wrongly_active(self, codes: Floats) -> tuple[int, str] | None:
        """The first of N configurations that violates a condition, and what is wrong; None if none does."""
        if not any(h.active_if for h in self.hyperparameters):
            return None
        active, given = self.active(codes), ~np.isnan(codes)
        places = np.argwhere(active != given)
        if not len(places):
            return None
        row, j = places[0].tolist()
        h = self.hyperparameters[j]
        if active[row, j]:
            return row, f"{h.name} has no value, but it is active if {h.condition}."
        return row, f"{h.name} has a value, but it is only active if {h.condition}: leave it out."

    def decode(self, codes: Floats) -> dict[str, Value]:
        """The configuration with these codes, shape (H,)."""
        pairs = zip(self.hyperparameters, np.asarray(codes).tolist(), strict=True)
        return {h.name: h.value(code) for h, code in pairs if code == code}

    def encode_all(self, configs: Iterable[Config]) -> Floats:
        """Configurations as codes, shape (N, H)."""
        return np.array([self.encode(config) for config in configs]).reshape(-1, len(self))

    def to_configspace(self, seed: int | None = None) -> ConfigurationSpace:
        """The space as a ConfigSpace, including conditions; `seed` is the seed for sampling from it."""
        return space_exchange.to_configspace(self, seed)

    @staticmethod
    def from_configspace(space: ConfigurationSpace) -> Space:
        """A space from a ConfigSpace; InputError if a part has no equivalent, such as forbidden clauses."""
        return Space(space_exchange.from_configspace(space))

    def to_optuna(self) -> dict[str, BaseDistribution]:
        """Optuna's distributions by name, for `study.ask(distributions)`. Conditions are lost."""
        return space_exchange.to_optuna(self)

    @staticmethod
    def from_optuna(distributions: Mapping[str, BaseDistribution]) -> Space:
        """A space from Optuna's distributions by name."""
        return Space(space_exchange.from_optuna(distributions))

    def features(self, codes: Floats) -> Floats:
        """The features of configurations given as codes, shape (N, F), in [0, 1]."""
        return scaled_features(self.hyperparameters, codes)


def _described(name: str, axis: Any) -> Hyperparameter:
    match axis:
        case Hyperparameter():
            return replace(axis, name=name)
        case (low, high) | (low, high, "linear" | "log") if (
            isinstance(axis, tuple) and is_number(low) and is_number(high)
        ):
            whole = all(isinstance(end, int | np.integer) for end in (low, high))
            scale: Scale = "log" if axis[-1] == "log" else "linear"
            return Hyperparameter(name, (low, high), scale, integer=whole, continuous=True)
        case list() | tuple() if _names_a_scale(axis):
            raise _scale_among(name, axis)
        case list():
            if all(map(is_number, axis)):
                return Hyperparameter(name, tuple(sorted(axis)))
            return Hyperparameter(name, tuple(axis), kind="categorical")
    if type(axis).__module__ == "optuna.distributions":
        return space_exchange.from_optuna({name: axis})[0]
    raise InputError(
        f"hyperparameter {name!r} must be a list of values, a range such as (1e-4, 1e-1, 'log'), or a "
        f"Hyperparameter, not {brief(axis)}."
    )


def _names_a_scale(axis: Sequence[object]) -> bool:
    """Whether values are numbers with the name of a scale before or after them, and so not categories."""
    if len(axis) < 3 or isinstance(axis[0], str) == isinstance(axis[-1], str):
        return False
    scale, numbers = (axis[0], axis[1:]) if isinstance(axis[0], str) else (axis[-1], axis[:-1])
    return str(scale).lower() in _SCALES and all(map(is_number, numbers))


def _scale_among(name: str, axis: Sequence[object]) -> InputError:
    """The error for the name of a scale among numbers, with the valid ways to write what may be meant."""
    given = next(value for value in axis if isinstance(value, str))
    scale = "log" if given.lower().startswith(("log", "ln")) else "linear"
    return InputError(
        f"hyperparameter {name!r} lists {given!r} beside numbers. A range on a scale is "
        f"(low, high, {scale!r}), a grid hb.Hyperparameter({name!r}, (1, 10, 100), {scale!r}), and if "
        f"{given!r} is one of several labels, hb.Hyperparameter({name!r}, values, kind='categorical')."
    )


def scaled_features(axes: Sequence[Hyperparameter], codes: Floats) -> Floats:
    """The features of configurations given as codes, shape (N, F), with columns in the order of the axes."""
    return np.hstack([axis.features(codes[:, j]) for j, axis in enumerate(axes)])


def covered_share(axes: Sequence[Hyperparameter], codes: Floats) -> float:
    """The share of the grid's points that have a row, 1 if all do.

    The codes of the rows, shape (N, H), are distinct. A row covers all points that differ from it only where
    it is inactive.
    """
    sizes = np.array([len(h.values) for h in axes], dtype=np.float64)
    covered = (1.0 / np.where(np.isnan(codes), 1.0, sizes)).prod(axis=1).sum()
    return min(float(covered), 1.0)  # rounding


def row_index(codes: Floats) -> dict[bytes, int]:
    """The row of each configuration, by `config_key` of its codes; the first row if several are equal."""
    index: dict[bytes, int] = {}
    # 0.0 and -0.0 are the same value, as are NaNs of both signs.
    for row, same in enumerate(np.where(np.isnan(codes), np.nan, codes + 0.0)):
        index.setdefault(same.tobytes(), row)
    return index


def config_key(codes: Floats) -> bytes:
    """A key of one configuration given as codes, shape (H,)."""
    return next(iter(row_index(codes[None])))
