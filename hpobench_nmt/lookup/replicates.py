"""Replicates: trainings of a table's configurations with other seeds.

symbol   shape    meaning
configs  (T, H)   the configuration of each training, as codes
numbers  (T,)     1, 2, … among the trainings of a configuration; 0 is the training of the table's row itself,
                  which does not count as a replicate
seeds    (T,)     NaN where unknown
values   (T, M)   raw metrics, NaN if missing
curves            the learning curves of the T trainings, in the same order; None if they are not known
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints, frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter, key_of
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.groups import configurations_of, training_numbers

if TYPE_CHECKING:  # pandas is slow to import, and a run does not need it
    import pandas as pd


class ReplicateRows(NamedTuple):
    """One row per training. The symbols are explained at the top of this file."""

    configs: Floats
    numbers: Floats
    seeds: Floats
    values: Floats
    curves: Curves | None = None

    def of_trainings(self, places: Ints) -> ReplicateRows:
        """Some of the trainings, in this order."""
        curves = self.curves.of_rows(places) if self.curves and len(places) else None
        arrays = (self.configs, self.numbers, self.seeds, self.values)
        configs, numbers, seeds, values = (array[places] for array in arrays)
        return ReplicateRows(configs, numbers, seeds, values, curves)


@dataclass(frozen=True, eq=False, repr=False)
class Replicates:
    """The replicates of a table, read when they are first used.

    Attributes:
        hyperparameters: the H axes of the table.
        metrics: the names of its M metrics.
        read: returns the rows; called once.
        averaged: whether the table's rows are the means of these trainings, instead of separate trainings.
    """

    hyperparameters: tuple[Hyperparameter, ...]
    metrics: tuple[str, ...]
    read: Callable[[], ReplicateRows]
    averaged: bool = False

    @cached_property
    def rows(self) -> ReplicateRows:
        """The trainings; InputError if their file cannot be read, or does not match the datasheet."""
        configs, numbers, seeds, values, curves = self.read()
        if curves is not None and len(curves) != len(values):
            raise InputError(f"replicates: {len(values)} trainings, but curves of {len(curves)}.")
        values = frozen(measured(values))
        return ReplicateRows(frozen(configs), frozen(numbers), frozen(seeds), values, curves)

    def by_row(self, configs: Floats) -> tuple[Ints, Floats]:
        """The replicates of these configurations, in the order of `rows`. O((N + T) log(N + T)).

        The configurations are distinct and given as codes, shape (N, H). Returns the place of each training's
        configuration among them, shape (K,), and the training's metrics, shape (K, M).
        """
        place, found = self.places_of(configs)
        return place, self.rows.values[found]

    def places_of(self, configs: Floats) -> tuple[Ints, Ints]:
        """The same, but with the places of the trainings in `rows` instead of their metrics, shape (K,)."""
        place = self._places(configs)
        found = np.flatnonzero((place < len(configs)) & (self.rows.numbers != 0))
        return place[found], found

    def only(self, configs: Floats) -> Replicates:
        """The replicates of these distinct configurations, given as codes, shape (N, H)."""
        kept = np.flatnonzero(self._places(configs) < len(configs))
        return replace(self, read=partial(self.rows.of_trainings, kept))

    def _places(self, configs: Floats) -> Ints:
        """The place of each training's configuration among these; N or more if it is not one of them."""
        return configurations_of(np.vstack([configs, self.rows.configs]))[1][len(configs) :]

    def to_frame(self) -> pd.DataFrame:
        """One line per training: hyperparameters' values, `replicate`, `seed`, metrics."""
        import pandas as pd

        rows, axes = self.rows, self.hyperparameters
        columns = {h.name: h.column(codes) for h, codes in zip(axes, rows.configs.T, strict=True)}
        columns |= {"replicate": rows.numbers, "seed": rows.seeds}
        return pd.DataFrame(columns | dict(zip(self.metrics, rows.values.T, strict=True)))

    @classmethod
    def of_frame(
        cls,
        frame: pd.DataFrame,
        hyperparameters: tuple[Hyperparameter, ...],
        metrics: tuple[str, ...],
        averaged: bool = False,
    ) -> Replicates:
        """Replicates from a frame like that of `to_frame`; `replicate` and `seed` may be left out.

        Raises InputError if a column is missing, or a value is not on the grid.
        """
        names = [*(h.name for h in hyperparameters), *metrics]
        check_known("column", names, list(map(str, frame)), "(of the replicates)")
        configs = np.column_stack([_codes_of(h, frame[h.name].to_numpy()) for h in hyperparameters])
        number = configurations_of(configs)[1]
        numbers = frame["replicate"] if "replicate" in frame else training_numbers(number)
        seeds = frame["seed"] if "seed" in frame else np.full(len(frame), np.nan)
        values = frame[[*metrics]].to_numpy(np.float64, copy=True)
        read = partial(ReplicateRows, configs, np.array(numbers, float), np.array(seeds, float), values)
        return cls(hyperparameters, metrics, read, averaged)


def _codes_of(h: Hyperparameter, values: Any) -> Floats:
    """Values of a hyperparameter as codes. Each distinct value is looked up once."""
    if h.is_numeric:
        distinct, place = np.unique(values.astype(np.float64), return_inverse=True)
        return np.array([h.code(value) for value in distinct.tolist()], dtype=np.float64)[place]
    keys = list(map(key_of, values))
    codes = {key: h.code(value) for key, value in dict(zip(keys, values, strict=True)).items()}
    return np.array([codes[key] for key in keys], dtype=np.float64)
