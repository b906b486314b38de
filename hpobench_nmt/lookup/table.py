"""Lookup tables: the metrics of every configuration of a grid, trained once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.files import check_name
from hpobench_nmt.core.objectives import Direction, Metric, Objective
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import Hyperparameter, scaled_features

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
# Of the way from the best row to the median one, where a metric does not say what is near enough.
_TOLERANCE = 0.05


@dataclass(frozen=True, eq=False)
class Table:
    """Metrics of N configurations. Immutable; rows are numbered from 0.

    Attributes:
        name: short, and usable as a file name.
        hyperparameters: the H axes of the search space.
        metrics: the M measured quantities.
        configs: raw hyperparameter values, shape (N, H), distinct rows.
        values: raw metric values, shape (N, M), NaN where missing.
        objectives: metrics to optimise by default; the first is the single objective.
        provenance: source, licence, how it was measured: free text by key.
        claims: what the source says of the table, for `tables check` to verify.
    """

    name: str
    hyperparameters: tuple[Hyperparameter, ...]
    metrics: tuple[Metric, ...]
    configs: Floats
    values: Floats
    objectives: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the parts against one another and freeze the arrays."""
        check_name("table", self.name)
        where = f"table {self.name!r}"
        for attribute in ("configs", "values"):
            array = np.array(getattr(self, attribute), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, attribute, array)
        expected = {"configs": len(self.hyperparameters), "values": len(self.metrics)}
        for attribute, columns in expected.items():
            shape = getattr(self, attribute).shape
            if len(shape) != 2 or shape[1] != columns:
                raise InputError(f"{where}: {attribute} must have shape (rows, {columns}), not {shape}.")
        if len(self.configs) != len(self.values):
            raise InputError(
                f"{where}: {len(self.configs)} configurations but {len(self.values)} rows of metrics."
            )
        if len(self.configs) == 0:
            raise InputError(f"{where} has no rows.")
        names = [h.name for h in self.hyperparameters] + [m.name for m in self.metrics]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            raise InputError(f"{where}: the column name {repeated[0]!r} is used more than once.")
        if not self.hyperparameters or not self.metrics:
            raise InputError(f"{where} needs at least one hyperparameter and one metric.")
        for objective in self.objectives:
            self.objective(objective)
        self._check_configs(where)
        for j, metric in enumerate(self.metrics):
            infinite = np.flatnonzero(np.isinf(self.values[:, j]))
            if len(infinite):
                raise InputError(
                    f"{where}, row {infinite[0]}: metric {metric.name!r} is infinite. "
                    "Leave the cell empty where a training failed."
                )

    def _check_configs(self, where: str) -> None:
        for j, hyperparameter in enumerate(self.hyperparameters):
            column = self.configs[:, j]
            off_grid = np.flatnonzero(~np.isin(column, hyperparameter.values))
            if len(off_grid):
                row = int(off_grid[0])
                raise InputError(
                    f"{where}, row {row}: {hyperparameter.name} is {column[row]:g}, which is not among its "
                    f"values {[float(f'{v:g}') for v in hyperparameter.values]}."
                )
        distinct, first = np.unique(self.configs, axis=0, return_index=True)
        if len(distinct) < len(self.configs):
            again = int(np.setdiff1d(np.arange(len(self.configs)), first)[0])
            same = np.flatnonzero((self.configs == self.configs[again]).all(axis=1))
            raise InputError(
                f"{where}: rows {', '.join(map(str, same))} have the same configuration. "
                "A table has one row a configuration: keep one, or average them."
            )

    def __len__(self) -> int:
        return len(self.configs)

    @cached_property
    def features(self) -> Floats:
        """Configurations scaled to [0, 1] by the search space, shape (N, H), read-only."""
        scaled = scaled_features(self.hyperparameters, self.configs)
        scaled.setflags(write=False)
        return scaled

    @cached_property
    def sha256(self) -> str:
        """Hash of the rows, the search space and the metrics. Not of name, objectives and tolerances."""
        digest = hashlib.sha256()
        for h in self.hyperparameters:
            digest.update(repr((h.name, h.values, h.scale)).encode())
        for m in self.metrics:
            digest.update(repr((m.name, m.direction)).encode())
        digest.update(np.ascontiguousarray(self.configs).astype("<f8").tobytes())
        canonical = np.where(np.isnan(self.values), np.nan, self.values)
        digest.update(np.ascontiguousarray(canonical).astype("<f8").tobytes())
        return digest.hexdigest()

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise unknown("metric", name, [m.name for m in self.metrics], f"(table {self.name!r})")

    def column(self, metric: str) -> Floats:
        """Raw values of a metric, shape (N,), NaN where missing."""
        self.metric(metric)
        return self.values[:, [m.name for m in self.metrics].index(metric)]

    def objective(self, spec: str | Objective) -> Objective:
        """An objective from "metric" (its own direction) or "metric:min" or "metric:max"."""
        if isinstance(spec, Objective):
            self.metric(spec.metric)
            return spec
        name, colon, direction = spec.partition(":")
        metric = self.metric(name)
        if not colon:
            return Objective(name, metric.direction)
        for known in get_args(Direction):
            if direction == known:
                return Objective(name, known)
        raise InputError(f"objective {spec!r}: the direction after ':' must be 'min' or 'max'.")

    def losses(self, objectives: Sequence[str | Objective]) -> Floats:
        """The objectives as losses to minimise, shape (N, m), NaN where missing."""
        columns = []
        for spec in objectives:
            objective = self.objective(spec)
            values = self.column(objective.metric)
            columns.append(objective.to_loss(values))
        return np.column_stack(columns)

    def response(self, objective: str | Objective | None = None) -> Response:
        """One metric as a function of the configuration; by default `main_metric`. O(1)."""
        goal = self.objective(objective or self.main_metric)
        return Response(self.name, goal, self.hyperparameters, self.configs, self.column(goal.metric))

    @property
    def main_metric(self) -> str:
        """The metric to speak of where none is named: the first objective, or else the first metric."""
        return self.objectives[0] if self.objectives else self.metrics[0].name

    def tolerance(self, objective: str | Objective) -> float:
        """How near the best is near enough: the metric's own tolerance.

        Where it has none, 5% of the way from the best row to the median one, or to the worst one where half
        of the rows are as good as the best. NaN where every value is missing.
        """
        goal = self.objective(objective)
        own = self.metric(goal.metric).tolerance
        if own is not None:
            return own
        loss = self.losses([goal])[:, 0]
        if np.isnan(loss).all():
            return np.nan
        to_median = float(np.nanmedian(loss) - np.nanmin(loss))
        return _TOLERANCE * (to_median or float(np.nanmax(loss) - np.nanmin(loss)))

    def best_rows(self, objective: str | Objective) -> Rows:
        """Row numbers, ascending, that share the best value; none where every value is missing."""
        loss = self.losses([objective])[:, 0]
        return np.flatnonzero(loss == np.nanmin(loss)) if not np.isnan(loss).all() else np.empty(0, np.int64)

    def front(self, objectives: Sequence[str | Objective]) -> Rows:
        """Row numbers, ascending, on the Pareto front of the objectives."""
        return pareto_front(self.losses(objectives))

    def to_frame(self) -> pd.DataFrame:
        """All columns in raw units, a row a configuration."""
        columns = [h.name for h in self.hyperparameters] + [m.name for m in self.metrics]
        return pd.DataFrame(np.hstack([self.configs, self.values]), columns=columns)
