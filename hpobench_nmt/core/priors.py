"""Priors of users: a log-weight for each candidate, largest where the user expects the best value.

A prior is a Gaussian around a configuration on the scales of the features, with a standard deviation of a
quarter of each hyperparameter's range (as in Mallik et al. 2023). Two categories are a whole range apart. If
the user gives a pair of numbers, the Gaussian has 80% of its mass between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hpobench_nmt.core.arrays import Floats, frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter, is_number
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.system.errors import InputError, prefixed, unknown

DEVIATION = 0.25
_WIDTH_OF_80 = 2 * 1.2815515655446004
"""The width of the central 80% of a normal distribution, in standard deviations."""


def around(features: Floats, centre: Floats, deviation: float | Floats = DEVIATION) -> Floats:
    """Log-weights of N candidates, features of shape (N, k), around a place of shape (k,)."""
    return frozen(np.asarray(-0.5 * (((features - centre) / deviation) ** 2).sum(axis=1)))


def guess_prior(space: Space, codes: Floats, guess: Mapping[str, Value], where: str) -> Floats:
    """Log-weights of N configurations, as codes of shape (N, H), around guessed values by name.

    Two numbers enclose the central 80%. A number need not be on the grid. Hyperparameters that are left out
    do not count. `where` begins the message of the InputError that is raised for an unknown name or label, or
    a number without a place on its scale.
    """
    if not guess:
        raise InputError(f"{where}: the prior is empty: give a value for at least one hyperparameter.")
    columns, centres, deviations = [], [], []
    for name, value in guess.items():
        if name not in space.names:
            raise unknown("hyperparameter", name, space.names, f"(prior, {where})")
        axis = space[name]
        pair = axis.is_numeric and isinstance(value, tuple)
        with prefixed(f"{where}: prior"):
            codes_of = [_code(axis, each) for each in (value if pair else (value,))]  # type: ignore[union-attr]
        if pair and (len(codes_of) != 2 or not codes_of[0] < codes_of[1]):
            raise InputError(f"{where}: prior: {name} = {value} must be two numbers, the smaller one first.")
        with np.errstate(invalid="ignore", divide="ignore"):
            places = axis.features(np.array(codes_of))
        if not np.isfinite(places).all():
            raise InputError(f"{where}: prior: {name} = {value} is not possible on the {axis.scale} scale.")
        column = axis.features(codes[:, space.names.index(name)])
        columns.append(column)
        centres.append(places.mean(axis=0))
        deviation = float(np.ptp(places)) / _WIDTH_OF_80 if pair else DEVIATION
        deviations.append(np.full(column.shape[1], deviation or DEVIATION))
    return around(np.hstack(columns), np.concatenate(centres), np.concatenate(deviations))


def _code(axis: Hyperparameter, value: Value) -> float:
    return float(value) if axis.is_numeric and is_number(value) else axis.code(value)
