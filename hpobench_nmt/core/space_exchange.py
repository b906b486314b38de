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
its files, and so is the order of the hyperparameters. Optuna has no such place. Instead, the dictionary that
`to_optuna` returns remembers the hyperparameters, and `from_optuna` returns them unchanged; a copy of the
dictionary loses conditions, units and the order of labels. For other distributions, and for spaces that were
made with these libraries, the kind and scale of a list of values are inferred: ascending numbers are a grid,
on a log scale if their ratios vary less than their differences. All other lists are categories.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
    theirs = {h.name: _configspace_axis(cs, h, place) for place, h in enumerate(axes)}
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


def is_configspace(space: object) -> bool:
    """Whether this is a space of ConfigSpace, which need not be installed."""
    return type(space).__module__.partition(".")[0] == "ConfigSpace"


def from_configspace(space: ConfigurationSpace) -> tuple[Hyperparameter, ...]:
    """The hyperparameters of a space of ConfigSpace. Normal and beta distributions become ranges.

    Raises InputError with the clause for a forbidden clause other than values of a grid or categories, a
    condition that does not list values of its parent, or another kind of hyperparameter.
    """
    cs = library("ConfigSpace", "smac")
    axes = {axis.name: _from_configspace_axis(cs, axis) for axis in sorted(space.values(), key=_place)}
    for clause in space.forbidden_clauses:
        of_one = isinstance(clause, cs.ForbiddenEqualsClause | cs.ForbiddenInClause)
        if not of_one or (axis := axes[clause.hyperparameter.name]).continuous:
            raise InputError(f"a forbidden clause cannot be expressed here: {clause}.")
        allowed = [v for v in _values(axis, axis.values) if not clause.is_forbidden_value({axis.name: v})]
        axes[axis.name] = replace(axis, values=tuple(allowed))
    for condition in space.conditions:
        parts = condition.components if isinstance(condition, cs.AndConjunction) else [condition]
        for part in parts:
            held = _holding(cs, part, axes)
            child = axes[part.child.name]
            axes[child.name] = replace(child, active_if=(*child.active_if, held))
    return tuple(axes.values())


def _place(axis: Any) -> float:
    """The place of a hyperparameter that `to_configspace` has made. ConfigSpace sorts them by name."""
    told = (axis.meta or {}).get(_OWN)
    place = told.get("place") if isinstance(told, dict) else None
    return place if isinstance(place, int) else np.inf


def _from_configspace_axis(cs: ModuleType, axis: Any) -> Hyperparameter:
    match axis:
        case cs.hyperparameters.FloatHyperparameter() | cs.hyperparameters.IntegerHyperparameter():
            whole = isinstance(axis, cs.hyperparameters.IntegerHyperparameter)
            return _range(axis.name, axis.lower, axis.upper, axis.log, whole)
        case cs.OrdinalHyperparameter():
            return _listed(axis.name, axis.sequence, "ordinal", axis.meta)
        case cs.CategoricalHyperparameter():
            return _listed(axis.name, axis.choices, "categorical")
        case cs.Constant():
            return _listed(axis.name, [axis.value], "categorical", axis.meta)
    raise InputError(f"{axis.name}: a {type(axis).__name__} cannot be expressed here.")


def _holding(cs: ModuleType, part: Any, axes: Mapping[str, Hyperparameter]) -> tuple[str, tuple[Value, ...]]:
    """The parent's name, and its values for which a condition holds."""
    match part:
        case cs.EqualsCondition():
            return part.parent.name, (_plain(part.value),)
        case cs.InCondition():
            return part.parent.name, tuple(map(_plain, part.values))
        case cs.NotEqualsCondition() | cs.GreaterThanCondition() | cs.LessThanCondition():
            parent = axes[part.parent.name]
            values = _values(parent, parent.values)
            if parent.continuous:
                low, high = map(int, parent.ends)
                values = [*range(low, high + 1)] if parent.whole and high - low < _MOST_STEPS else []
            if values:
                held = [value for value in values if part.satisfied_by_value({parent.name: value})]
                return parent.name, tuple(held)
    raise InputError(f"the condition {part} cannot be expressed here.")


def prior_of_configspace(space: object) -> dict[str, Value]:
    """The central 80% of the normal and beta distributions of a space of ConfigSpace, as a prior by name.

    They are those of 10,000 values that ConfigSpace draws. Other spaces have no prior.
    """
    found: dict[str, Value] = {}
    for axis in space.values() if is_configspace(space) else ():  # type: ignore[attr-defined]
        if type(axis).__name__.startswith(("Normal", "Beta")):
            drawn = axis.sample_value(10_000, seed=np.random.RandomState(0))
            low, high = (float(f"{end:.4g}") for end in np.quantile(drawn, [0.1, 0.9]))
            found[axis.name] = (low, high) if low < high else low
    return found


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
        met = (p in config and key_of(config[p]) in map(key_of, values) for p, values in h.active_if)
        if all(met):
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
                axes.append(_listed(name, given.choices, _kind_of(given.choices)))
            case known.FloatDistribution() | known.IntDistribution():
                whole = isinstance(given, known.IntDistribution)
                if given.step is None or (whole and given.step == 1):
                    axes.append(_range(name, given.low, given.high, given.log, whole))
                else:
                    count = round((given.high - given.low) / given.step) + 1
                    if count > _MOST_STEPS:
                        told = f"at most {_MOST_STEPS:,} are allowed"
                        raise InputError(f"{name}: {count:,} steps are too many; {told}.")
                    grid = [given.low + i * given.step for i in range(count)]
                    axes.append(Hyperparameter(name, tuple(grid), integer=whole))
            case _:
                raise InputError(f"{name}: a {type(given).__name__} cannot be expressed here.")
    return tuple(axes)


def _configspace_axis(cs: ModuleType, h: Hyperparameter, place: int) -> Any:
    values = _values(h, h.values)
    if h.continuous:
        kind = cs.UniformIntegerHyperparameter if h.whole else cs.UniformFloatHyperparameter
        return kind(h.name, *values, log=h.scale == "log", meta={_OWN: {"place": place}})
    told = {"kind": h.kind, "scale": h.scale, "unit": h.unit, "integer": h.integer, "place": place}
    meta = {_OWN: {key: value for key, value in told.items() if value not in ("", None)}}
    if len(values) == 1:
        return cs.Constant(h.name, values[0], meta=meta)
    kind = cs.CategoricalHyperparameter if h.kind == "categorical" else cs.OrdinalHyperparameter
    return kind(h.name, values, meta=meta)


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


def _range(name: str, low: float, high: float, log: bool, whole: bool) -> Hyperparameter:
    if low == high:
        return Hyperparameter(name, (low,), integer=whole)
    return Hyperparameter(name, (low, high), "log" if log else "linear", integer=whole, continuous=True)


def _listed(name: str, values: Any, kind: Any, meta: Any = None) -> Hyperparameter:
    """A hyperparameter with these labels, or a numeric one if ordinal labels are ascending numbers.

    If `to_configspace` has described a valid hyperparameter in `meta`, it is that one.
    """
    plain = tuple(map(_plain, values))
    told, needed = (meta or {}).get(_OWN), {"kind", "scale"}
    if isinstance(told, dict) and needed <= told.keys() <= needed | {"unit", "integer", "place"}:
        with suppress(InputError, TypeError):
            return Hyperparameter(name, plain, **{key: told[key] for key in told if key != "place"})
    if kind == "ordinal" and _ascending(plain):
        return Hyperparameter(name, plain, _scale_of(plain))
    return Hyperparameter(name, plain, kind=kind)


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
