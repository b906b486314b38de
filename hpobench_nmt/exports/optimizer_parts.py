"""Parts of an optimizer: its method, checks of what it is given, the best, main effects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.contestants.method_settings import split_spec
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod, refuse_objectives, resolve_methods
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.known_values import KnownValue, known_of
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.system.errors import InputError, prefixed, unknown, warn
from hpobench_nmt.core.system.text import brief, counted
from hpobench_nmt.methods import BUILT_IN, KNOWN, USES_PRIOR

BINS = 12
USUAL_METHOD = "BO_auto"
"""The default method."""
USUAL_BEFORE = ("BO_EI_M_std", "BO_M_std", "ParEGO_M")
"""The default methods of version 1.0, for one loss, two losses, and more."""


def named_method(method: str | MethodFactory | None, objectives: int) -> NamedMethod:
    """The method, which must be for that many objectives."""
    if method is None:
        method = USUAL_METHOD
    if isinstance(method, Number | np.number):
        raise InputError(f"{method} stands where the method does; give the budget as budget={method}.")
    (named,) = resolve_methods([method])
    refuse_objectives(named, objectives)
    if named.built_in and BUILT_IN[split_spec(named.spec)[0]].partial:
        raise InputError(
            f"method {named.name} stops trainings early, but evaluations of a function cannot be stopped "
            "early."
        )
    return named


def best_rows(losses: Floats, missed: Floats, most: int = 5) -> list[int]:
    """The places of the best configurations, given losses (n, m) and missed bounds (n, c).

    With one loss, there are at most `most`. With several losses, it is the whole front. Only configurations
    that satisfy all bounds count. If there are none, the `most` that miss the bounds by least count.
    """
    known = np.flatnonzero(~np.isnan(losses).any(axis=1))
    excess = np.nan_to_num(np.maximum(missed, 0.0), nan=math.inf).sum(axis=1)[known]
    kept = known[excess == 0] if (excess == 0).any() else known[np.argsort(excess, kind="stable")[:most]]
    if losses.shape[1] == 1:
        return [int(k) for k in kept[np.argsort(losses[kept, 0], kind="stable")[:most]]]
    return [int(k) for k in kept[pareto_front(losses[kept])]]


def as_nulls(values: Floats) -> list[float | None]:
    """Numbers for a JSON file, which has no NaN."""
    return [None if math.isnan(v) else v for v in values.tolist()]


def checked_losses(given: float | Sequence[float] | Floats | None, n_objectives: int) -> Floats:
    """The losses that were passed to `tell`, shape (n_objectives,), NaN if the evaluation failed."""
    if given is None:
        return np.full(n_objectives, math.nan)
    expected = f"{counted(n_objectives, 'loss', 'losses')} expected"
    try:
        values = _floats(given)
    except (TypeError, ValueError):
        kind = "a number" if n_objectives == 1 else "numbers"
        raise InputError(f"{expected}, as {kind}, not {brief(given)}.") from None
    if values.shape != (n_objectives,):
        told = counted(values.size, "loss", "losses")
        advice = f" For {told}, pass objectives={values.size}." if values.ndim == 1 and values.size else ""
        raise InputError(f"{expected}, not {brief(values.tolist())}.{advice}")
    return measured(values)


def _floats(given: object) -> Floats:
    """Numbers as an array of one dimension or more, NaN for None."""
    return np.atleast_1d(np.array(_plain(given), dtype=np.float64))


def _plain(given: Any) -> float | list[Any]:
    """Numbers, arrays and tensors as floats and lists of floats."""
    if hasattr(given, "detach"):  # a tensor that has its graph
        given = given.detach()
    if hasattr(given, "ndim") and hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return [_plain(each) for each in given]
    return _float(given)


def _float(given: Any) -> float:
    """Any scalar as a float, NaN for None. A whole number beyond the range of floats is infinite.

    Raises TypeError for a text, also one of a number: a function that returns it has a fault.
    """
    if isinstance(given, str | bytes):
        raise TypeError
    try:
        return math.nan if given is None else float(given)
    except OverflowError:
        return math.inf


def violations_of(rules: Sequence[Constraint], losses: Floats, metrics: Mapping[str, float] | None) -> Floats:
    """By how much the metrics of an evaluation miss the bounds, shape (c,), NaN if a metric is missing.

    The metrics are those that were passed to `tell`. None counts as NaN.
    """
    if not isinstance(metrics, Mapping | None):
        raise InputError(
            f"metrics must be numbers by name, such as {{'seconds': 12.5}}, not {brief(metrics)}."
        )
    named, given = metrics or {}, {}
    for name in (rule.metric for rule in rules if rule.metric in named):
        try:
            given[name] = _floats(named[name]).item()
        except (TypeError, ValueError):
            raise InputError(f"metrics must be numbers, not {brief({name: named[name]})}.") from None
    for rule in rules:
        if rule.metric not in given and not np.isnan(losses).any():
            known = ", ".join(map(str, named)) or "none"
            raise InputError(f"the constraint {rule} needs the metric {rule.metric!r}; given: {known}.")
    return measured(np.array([rule.missed_by(given) for rule in rules], dtype=np.float64))


KNOWS_VALUES = "BO_known"


def known_values(space: Space, method: NamedMethod, guess: Mapping[str, Value]) -> dict[str, KnownValue]:
    """What the method expects of hyperparameters by name, without those of the user's prior."""
    return known_of(space, without=guess) if _base(method) == KNOWS_VALUES else {}


def warn_of_ignored(method: NamedMethod, prior: Mapping[str, Value]) -> None:
    """Warn if a method of this package ignores the user's prior."""
    name = _base(method)
    if prior and name in KNOWN and name not in USES_PRIOR:
        warn(f"{method.name} ignores the prior; {KNOWS_VALUES} and piBO_M_std use it.")


def _base(method: NamedMethod) -> str:
    return split_spec(method.spec)[0] if method.built_in else ""


def checked_prior(space: Space, given: Mapping[str, Value] | None) -> dict[str, Value]:
    """A prior with values of Python's own types, as a file has them; empty for None.

    A number need not be on the grid. Raises InputError for other values that the space does not have.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        example = f"{{{space.names[0]!r}: …}}"
        raise InputError(f"prior must be values by name, such as {example}, not {brief(given)}.")
    found: dict[str, Value] = {}
    for name, value in given.items():
        if name not in space.names:
            raise unknown("hyperparameter", str(name), space.names, "(prior, the space)")
        axis = space[name]
        if axis.is_numeric and isinstance(value, list | tuple) and all(map(is_number, value)):
            found[str(name)] = tuple(map(_float, value))
            continue
        with prefixed("the space: prior"):
            code = _float(value) if axis.is_numeric and is_number(value) else axis.code(value)
        between = axis.is_numeric and axis.whole and not code.is_integer()
        found[str(name)] = code if between and not math.isnan(code) else axis.value(code)
    return found


def main_effects(space: Space, codes: Floats, values: Floats) -> dict[str, float]:
    """By name, the share of the variance of values, shape (N,), that each hyperparameter explains alone.

    It is the variance of the mean value given the hyperparameter, divided by the variance of all values. A
    hyperparameter with more than BINS numbers is divided into BINS parts of equal size. Configurations in
    which it is inactive are a separate part. Codes of the N configurations have shape (N, H).
    """
    variance, found = values.var(), {}
    for hyperparameter, column in zip(space, codes.T, strict=True):
        parts = np.nan_to_num(column, nan=np.inf)
        if hyperparameter.kind == "numeric" and len(np.unique(parts)) > BINS:
            inner = np.quantile(column[~np.isnan(column)], np.arange(1, BINS) / BINS)
            parts = np.where(np.isnan(column), BINS, np.searchsorted(inner, column, side="right"))
        _, place, counts = np.unique(parts, return_inverse=True, return_counts=True)
        means = np.bincount(place, weights=values - values.mean()) / counts
        found[hyperparameter.name] = float(counts @ means**2 / len(values) / variance) if variance else 0.0
    return found
