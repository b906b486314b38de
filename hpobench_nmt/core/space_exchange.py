"""Search spaces to and from other libraries: ConfigSpace and Optuna.

Every configuration that one of these libraries draws from an exported grid is a configuration of the grid,
with the same Python values, so that `table.row(config)` takes it as it is.

Here                          ConfigSpace                     Optuna
range of numbers              Float or Integer                FloatDistribution or IntDistribution
grid of numbers               Ordinal of the numbers          IntDistribution with a step, if steps are equal;
                                                              else CategoricalDistribution
ordered labels                Ordinal                         CategoricalDistribution, which has no order
categories                    Categorical                     CategoricalDistribution
condition (active_if)         InCondition                     none: ask only for what is active

What ConfigSpace cannot express, such as the scale of a grid, is in the `meta` of its hyperparameter, also in
its files. Optuna has no such place. Instead, the dictionary that `to_optuna` returns remembers the
hyperparameters, and `from_optuna` returns them unchanged; a copy of the dictionary loses conditions, units
and the order of labels. For other distributions, and for spaces that were made with these libraries, the kind
and scale of a list of values are inferred: ascending numbers are a grid, on a log scale if their ratios vary
less than their differences. All other lists are categories.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.hyperparameter import Hyperparameter, Scale, Value, key_of
from hpobench_nmt.core.system.errors import InputError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.distributions import BaseDistribution

_MOST_STEPS = 100_000
_OWN = "hpobench-nmt"
"""The key of what this package adds to the meta of ConfigSpace's hyperparameters."""
# The scale of a grid is not inferred from two numbers, with one ratio and one difference, or from rounding.
_FEWEST = 3
_CLEARLY = 1e-9


def library(name: str, extra: str) -> ModuleType:
    """An optional library, imported now; InputError with the command that installs it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed: pip install 'hpobench-nmt[{extra}]'.") from None


class Distributions(dict[str, "BaseDistribution"]):
    """Optuna's distributions by name, which remembers the hyperparameters that they were made from."""

    def __init__(self, made: Mapping[str, BaseDistribution], axes: Sequence[Hyperparameter]) -> None:
        super().__init__(made)
        self._origin = {h.name: (made[h.name], h) for h in axes}

    def origin(self) -> tuple[Hyperparameter, ...] | None:
        """The hyperparameters, or None if a distribution was changed, added or removed since."""
        if self.keys() != self._origin.keys():
            return None
        if any(self[name] != made for name, (made, _) in self._origin.items()):
            return None
        return tuple(h for _, h in self._origin.values())


def to_configspace(axes: Sequence[Hyperparameter], seed: int | None = None) -> ConfigurationSpace:
    """The hyperparameters as a space of ConfigSpace, which draws with the seed."""
    cs = library("ConfigSpace", "smac")
    ours = {h.name: h for h in axes}
    theirs = {h.name: _configspace_axis(cs, h) for h in axes}
    made = cs.ConfigurationSpace(seed=seed)
    made.add(*theirs.values())
    for h in axes:
        tests = [
            cs.InCondition(theirs[h.name], theirs[parent], _values(ours[parent], values))
            for parent, values in h.active_if
        ]
        if tests:
            made.add(tests[0] if len(tests) == 1 else cs.AndConjunction(*tests))
    space_there: ConfigurationSpace = made
    return space_there


def from_configspace(space: ConfigurationSpace) -> tuple[Hyperparameter, ...]:
    """The hyperparameters of a space of ConfigSpace.

    Raises InputError for a forbidden clause, a condition other than "equals" or "in", or a hyperparameter
    that is neither uniform, ordinal, categorical nor constant.
    """
    cs = library("ConfigSpace", "smac")
    if space.forbidden_clauses:
        raise InputError(f"a forbidden clause cannot be expressed here: {space.forbidden_clauses[0]}.")
    conditions: dict[str, list[tuple[str, tuple[Value, ...]]]] = {}
    for condition in space.conditions:
        parts = condition.components if isinstance(condition, cs.AndConjunction) else [condition]
        for part in parts:
            if not isinstance(part, cs.EqualsCondition | cs.InCondition):
                raise InputError(f"the condition {condition} cannot be expressed here.")
            values = part.values if isinstance(part, cs.InCondition) else [part.value]
            conditions.setdefault(part.child.name, []).append((part.parent.name, tuple(map(_plain, values))))
    axes = []
    for axis in space.values():
        about: dict[str, Any] = {"active_if": tuple(conditions.get(axis.name, ()))}
        match axis:
            case cs.UniformFloatHyperparameter() | cs.UniformIntegerHyperparameter():
                whole = isinstance(axis, cs.UniformIntegerHyperparameter)
                axes.append(_range(axis.name, axis.lower, axis.upper, axis.log, whole, about))
            case cs.OrdinalHyperparameter():
                axes.append(_listed(axis.name, axis.sequence, "ordinal", about, axis.meta))
            case cs.CategoricalHyperparameter():
                axes.append(_listed(axis.name, axis.choices, "categorical", about))
            case cs.Constant():
                axes.append(_listed(axis.name, [axis.value], "categorical", about, axis.meta))
            case _:
                raise InputError(f"{axis.name}: a {type(axis).__name__} cannot be expressed here.")
    return tuple(axes)


def to_optuna(axes: Sequence[Hyperparameter]) -> dict[str, BaseDistribution]:
    """Hyperparameters as Optuna's distributions by name, for `study.ask(fixed_distributions)`."""
    distributions = library("optuna", "optuna").distributions
    return Distributions({h.name: _optuna_axis(distributions, h) for h in axes}, axes)


def suggested_by_optuna(
    trial: Any, axes: Iterable[Hyperparameter], distributions: Mapping[str, BaseDistribution]
) -> dict[str, Value]:
    """A configuration from an Optuna trial; hyperparameters that are inactive are left out.

    Each axis comes after those that its condition names (`Space.parents_first`).
    """
    config: dict[str, Value] = {}
    for h in axes:
        if all(
            parent in config and key_of(config[parent]) in map(key_of, values)
            for parent, values in h.active_if
        ):
            config[h.name] = _suggested(trial, h.name, distributions[h.name])
    return config


def _suggested(trial: Any, name: str, axis: Any) -> Any:
    known = library("optuna", "optuna").distributions
    if isinstance(axis, known.CategoricalDistribution):
        return trial.suggest_categorical(name, axis.choices)
    suggest = trial.suggest_int if isinstance(axis, known.IntDistribution) else trial.suggest_float
    return suggest(name, axis.low, axis.high, step=axis.step, log=axis.log)


def from_optuna(distributions: Mapping[str, BaseDistribution]) -> tuple[Hyperparameter, ...]:
    """Optuna's distributions by name as hyperparameters: numbers with a step are a grid, others a range.

    Distributions from `to_optuna` become the original hyperparameters. Choices that are ascending numbers
    are a grid.
    """
    if isinstance(distributions, Distributions) and (whole_space := distributions.origin()) is not None:
        return whole_space
    known = library("optuna", "optuna").distributions
    axes = []
    for name, given in distributions.items():
        match given:
            case known.CategoricalDistribution():
                axes.append(_listed(name, given.choices, _kind_of(given.choices), {}))
            case known.FloatDistribution() | known.IntDistribution():
                whole = isinstance(given, known.IntDistribution)
                if given.step is None or (whole and given.step == 1):
                    axes.append(_range(name, given.low, given.high, given.log, whole, {}))
                else:
                    count = round((given.high - given.low) / given.step) + 1
                    if count > _MOST_STEPS:
                        raise InputError(
                            f"{name}: {count:,} steps are too many; at most {_MOST_STEPS:,} are allowed."
                        )
                    grid = [given.low + i * given.step for i in range(count)]
                    axes.append(Hyperparameter(name, tuple(grid), integer=whole))
            case _:
                raise InputError(f"{name}: a {type(given).__name__} cannot be expressed here.")
    return tuple(axes)


def _configspace_axis(cs: ModuleType, h: Hyperparameter) -> Any:
    values = _values(h, h.values)
    if h.continuous:
        kind = cs.UniformIntegerHyperparameter if h.whole else cs.UniformFloatHyperparameter
        return kind(h.name, *values, log=h.scale == "log")
    if len(values) == 1:
        return cs.Constant(h.name, values[0], meta=_meta(h))
    if h.kind == "categorical":
        return cs.CategoricalHyperparameter(h.name, values)
    return cs.OrdinalHyperparameter(h.name, values, meta=_meta(h))


def _meta(h: Hyperparameter) -> dict[str, Any]:
    """The attributes that ConfigSpace cannot express."""
    told = {"kind": h.kind, "scale": h.scale, "unit": h.unit, "integer": h.integer}
    return {_OWN: {key: value for key, value in told.items() if value not in ("", None)}}


def _optuna_axis(distributions: ModuleType, h: Hyperparameter) -> Any:
    values = _values(h, h.values)
    kind = distributions.IntDistribution if h.whole else distributions.FloatDistribution
    if h.continuous:
        return kind(*values, log=h.scale == "log")
    if h.is_numeric and h.scale == "linear" and len(values) > 1:
        steps = np.diff(h.numbers)
        if h.whole and (steps == steps[0]).all():
            return kind(values[0], values[-1], step=int(steps[0]))
    return distributions.CategoricalDistribution(values)


def _values(h: Hyperparameter, values: tuple[Value, ...]) -> list[Value]:
    """Values as in a configuration: numbers as int if the hyperparameter takes only whole numbers."""
    return [h.value(h.code(value)) for value in values]


def _range(
    name: str, low: float, high: float, log: bool, whole: bool, about: Mapping[str, Any]
) -> Hyperparameter:
    if low == high:
        return Hyperparameter(name, (low,), integer=whole, **about)
    return Hyperparameter(
        name, (low, high), "log" if log else "linear", integer=whole, continuous=True, **about
    )


def _listed(name: str, values: Any, kind: Any, about: Mapping[str, Any], meta: Any = None) -> Hyperparameter:
    """A hyperparameter with these labels, or a numeric one if ordinal labels are ascending numbers.

    If `_meta` has described a valid hyperparameter in `meta`, it is that one.
    """
    plain = tuple(map(_plain, values))
    told = (meta or {}).get(_OWN)
    if isinstance(told, dict) and {"kind", "scale"} <= told.keys() <= {"kind", "scale", "unit", "integer"}:
        with suppress(InputError, TypeError):
            return Hyperparameter(name, plain, **told, **about)
    if kind == "ordinal" and _ascending(plain):
        return Hyperparameter(name, plain, _scale_of(plain), **about)
    return Hyperparameter(name, plain, kind=kind, **about)


def _kind_of(values: Sequence[Any]) -> str:
    plain = tuple(map(_plain, values))
    return "ordinal" if len(plain) > 1 and _ascending(plain) else "categorical"


def _ascending(values: Sequence[Any]) -> bool:
    """Whether values are numbers, each above the one before."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return numbers and list(values) == sorted(set(values))


def _scale_of(values: Sequence[float]) -> Scale:
    """The scale of a grid of ascending numbers: log if their ratios vary less than their differences."""
    if len(values) < _FEWEST or values[0] <= 0:
        return "linear"
    steps, ratios = np.diff(values), np.diff(np.log(values))
    return "log" if ratios.std() / ratios.mean() < steps.std() / steps.mean() - _CLEARLY else "linear"


def _plain(value: Any) -> Any:
    """A value as Python's own type, because these libraries hold some values as NumPy's types."""
    return value.item() if isinstance(value, np.generic) else value
