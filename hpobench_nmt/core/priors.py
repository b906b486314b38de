"""Priors of users: a log-weight for each candidate, largest where the user expects the best value.

A prior is a Gaussian around a configuration on the scales of the features, with a standard deviation of a
quarter of each hyperparameter's range (as in Mallik et al. 2023). Two categories are a whole range apart.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hpobench_nmt.core.arrays import Floats, frozen
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.system.errors import InputError, unknown

DEVIATION = 0.25


def around(features: Floats, centre: Floats) -> Floats:
    """Log-weights of N candidates, features of shape (N, k), around a place of shape (k,)."""
    return frozen(np.asarray(-0.5 * (((features - centre) / DEVIATION) ** 2).sum(axis=1)))


def guess_prior(space: Space, codes: Floats, guess: Mapping[str, Value], where: str) -> Floats:
    """Log-weights of N configurations, as codes of shape (N, H), around guessed values by name.

    A number need not be on the grid. Hyperparameters that are left out do not count. `where` begins the
    message of the InputError that is raised for an unknown name or label, or a number without a place on its
    scale.
    """
    if not guess:
        raise InputError(f"{where}: the prior is empty: give a value for at least one hyperparameter.")
    columns, centre = [], []
    for name, value in guess.items():
        if name not in space.names:
            raise unknown("hyperparameter", name, space.names, f"(prior, {where})")
        axis = space[name]
        try:
            code = float(value) if axis.is_numeric and is_number(value) else axis.code(value)
        except InputError as error:
            raise InputError(f"{where}: prior: {error}") from None
        with np.errstate(invalid="ignore", divide="ignore"):
            place = axis.features(np.array([code]))[0]
        if not np.isfinite(place).all():
            raise InputError(f"{where}: prior: {name} = {value} is not possible on the {axis.scale} scale.")
        columns.append(axis.features(codes[:, space.names.index(name)]))
        centre.append(place)
    return around(np.hstack(columns), np.concatenate(centre))
