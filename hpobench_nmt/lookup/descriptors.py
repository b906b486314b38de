"""Features of rows that are not hyperparameters. Models may use them in addition to the configurations.

An example is the number of operations of an architecture. It is not part of a grid, and nobody chooses it.
A configuration identifies a row; descriptors characterise it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows, frozen
from hpobench_nmt.core.space import Hyperparameter, scaled_features
from hpobench_nmt.core.system.errors import InputError


@dataclass(frozen=True, eq=False)
class Descriptors:
    """The descriptors of a table's N rows.

    Attributes:
        axes: the D descriptors, with the values that occur; each is active everywhere.
        codes: their values as numbers, coded like those of hyperparameters, shape (N, D), read-only.
    """

    axes: tuple[Hyperparameter, ...]
    codes: Floats

    def __post_init__(self) -> None:
        codes = np.array(self.codes, dtype=np.float64)
        if not self.axes or codes.ndim != 2 or codes.shape[1] != len(self.axes):
            raise InputError(f"descriptors: codes must have shape (rows, {len(self.axes)}).")
        for axis, column in zip(self.axes, codes.T, strict=True):
            if axis.active_if or axis.continuous:
                raise InputError(f"the feature {axis.name!r} has a value in every row, and no condition.")
            wrong = np.flatnonzero(~np.isin(column, axis.numbers))
            if len(wrong):
                found = f"{column[wrong[0]]:g}, which is not one of its values"
                raise InputError(f"row {wrong[0]}: the feature {axis.name!r} is {found}.")
        object.__setattr__(self, "codes", frozen(codes))

    def features(self) -> Floats:
        """The descriptors as features for models, shape (N, F), in [0, 1]."""
        return scaled_features(self.axes, self.codes)

    def of_rows(self, rows: Rows) -> Descriptors:
        """The descriptors of these rows, in this order."""
        return replace(self, codes=self.codes[rows])


def names_rows(axis: Hyperparameter, codes: Floats) -> bool:
    """Whether a hyperparameter only identifies the rows: it is categorical, and no two rows share a value.

    All rows are equally far apart in it, so models learn nothing from it.
    """
    return axis.kind == "categorical" and len(np.unique(codes)) == len(codes) > 1


def row_features(axes: Sequence[Hyperparameter], configs: Floats, described: Descriptors) -> Floats:
    """Features of rows with descriptors, shape (N, F), without hyperparameters that only identify rows."""
    kept: Bools = np.array([not names_rows(h, codes) for h, codes in zip(axes, configs.T, strict=True)])
    own = [h for h, keep in zip(axes, kept, strict=True) if keep]
    parts = [scaled_features(own, configs[:, kept])] if own else []
    return np.hstack([*parts, described.features()])
