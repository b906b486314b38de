"""Lookup tables: the metrics of every configuration of a grid, trained once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows, frozen
from hpobench_nmt.core.front import Front
from hpobench_nmt.core.objectives import Direction, Metric, Objective, Objectives, measured, metric_place
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import find_row
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import Config, Hyperparameter, Space, Value, row_index
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_distinct, check_name
from hpobench_nmt.core.system.from_above import from_above
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.lookup.curves import Curve, Curves
from hpobench_nmt.lookup.descriptors import Descriptors, row_features
from hpobench_nmt.lookup.replicates import Replicates
from hpobench_nmt.lookup.valid_rows import check_configs, check_curves

if TYPE_CHECKING:  # pandas is slow to import, and a run does not need it
    import pandas as pd

Otherwise = Literal["error", "none", "nearest"]
"""What to do if a configuration has no row, or the row lacks a metric."""
# The default tolerance, as a share of the way from the best row to the median row.
_TOLERANCE = 0.05
# At most this many values or rows are listed in a message.
_MOST_SHOWN = 10
# The number of rows that are shown in a notebook.
_ROWS_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Metrics of N configurations. Immutable; rows are numbered from 0.

    Attributes:
        name: short, and usable as a file name.
        hyperparameters: the H axes of the search space.
        metrics: the M measured quantities.
        configs: the hyperparameters' values as numbers, shape (N, H), all rows different: a number in its own
            unit (possibly rounded to float32), or a label's position among the values; NaN where inactive.
            `Space.encode_all` makes these codes from dictionaries, and `config(row)` returns a dictionary.
        values: raw metric values, shape (N, M); NaN if missing, infinite or beyond 1e150.
        objectives: default metrics to optimise. A run with one objective uses the first.
        provenance: free texts by key, such as the source, the licence, and how values were measured.
        claims: statements of the source about the table, which `tables check` verifies.
        curves: the learning curves of the rows; None if the table does not have curves.
        replicates: trainings of some or all rows with other seeds; None if the table does not have any. A
            table with a subset of the rows keeps them.
        descriptors: features of the rows that are not hyperparameters; None if the table does not have any.
    """

    name: str
    hyperparameters: tuple[Hyperparameter, ...]
    metrics: tuple[Metric, ...]
    configs: Floats
    values: Floats
    objectives: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    curves: Curves | None = None
    replicates: Replicates | None = None
    descriptors: Descriptors | None = None

    def __post_init__(self) -> None:
        check_name("table", self.name)
        where = f"table {self.name!r}"
        for attribute, kind in (("hyperparameters", Hyperparameter), ("metrics", Metric)):
            parts = getattr(self, attribute)
            if not isinstance(parts, Sequence) or not all(isinstance(part, kind) for part in parts):
                raise InputError(f"{where}: {attribute} must be a tuple of {kind.__name__} objects.")
            object.__setattr__(self, attribute, tuple(parts))
        self._set_array("configs", np.array(self.configs, dtype=np.float64), len(self.hyperparameters))
        self._set_array("values", measured(np.array(self.values, dtype=np.float64)), len(self.metrics))
        if len(self.configs) != len(self.values):
            raise InputError(
                f"{where}: {counted(len(self.configs), 'configuration')} but "
                f"{counted(len(self.values), 'row')} of metrics."
            )
        if len(self.configs) == 0:
            raise InputError(f"{where} has no rows.")
        described = self.descriptors
        if described and len(described.codes) != len(self.configs):
            raise InputError(f"{where}: {len(described.codes)} rows of features, {len(self.configs)} rows.")
        metrics = tuple(metric.name for metric in self.metrics)
        features = described.axes if described else ()
        check_distinct([*(h.name for h in (*self.hyperparameters, *features)), *metrics], where)
        if not self.hyperparameters or not self.metrics:
            raise InputError(f"{where} needs at least one hyperparameter and one metric.")
        chosen = [self.objective(objective).metric for objective in self.objectives]
        if len(set(chosen)) < len(chosen):
            raise InputError(f"{where}: the same objective twice.")
        pairs = zip(self.hyperparameters, self.configs.T, strict=True)
        snapped = [h.snapped(codes) if h.is_numeric else codes for h, codes in pairs]
        self._set_array("configs", np.column_stack(snapped), len(snapped))
        check_configs(self.hyperparameters, self.configs, where)
        if self.curves is not None:
            check_curves(self.curves, self.metrics, len(self), where)
        again = self.replicates
        if again and (again.hyperparameters, again.metrics) != (self.hyperparameters, metrics):
            raise InputError(f"{where}: its replicates have other hyperparameters or metrics.")
        for metric, values in zip(self.metrics, self.values.T, strict=True):
            marked = np.flatnonzero(values == metric.missing)  # no number equals None
            if len(marked):
                raise InputError(
                    f"{where}, row {marked[0]}: {metric.name} is {metric.missing:g}, which means a missing "
                    f"value in its files: use NaN there, or another number as the metric's `missing`."
                )

    def _set_array(self, attribute: str, array: Floats, columns: int) -> None:
        if array.ndim != 2 or array.shape[1] != columns:
            raise InputError(
                f"table {self.name!r}: {attribute} must have shape (rows, {columns}), not {array.shape}."
            )
        object.__setattr__(self, attribute, frozen(array))

    def __len__(self) -> int:
        return len(self.configs)

    def __repr__(self) -> str:
        axes = ", ".join(h.name for h in self.hyperparameters[:_MOST_SHOWN])
        metrics = ", ".join(m.name for m in self.metrics[:_MOST_SHOWN])
        more = [", …" * (len(part) > _MOST_SHOWN) for part in (self.hyperparameters, self.metrics)]
        rows = counted(len(self), "row")
        return f"<Table {self.name!r}: {rows} of {axes}{more[0]}; measured: {metrics}{more[1]}>"

    def _repr_html_(self) -> str:
        names = ", ".join(map(str, map(self.objective, self.objectives)))
        goal = f", optimised for {names}" if names else ""
        head = f"<p><b>{escape(self.name)}</b>: {counted(len(self), 'row')}{escape(goal)}</p>"
        return head + str(self.to_frame(_ROWS_SHOWN).to_html(na_rep="", max_cols=20))

    @cached_property
    def space(self) -> Space:
        """The search space; it can be exported to other libraries."""
        return Space(self.hyperparameters)

    def config(self, row: int) -> dict[str, Value]:
        """A row's hyperparameters by name, without inactive ones; InputError if the row does not exist."""
        return self.space.decode(self.configs[self._checked(row)])

    def _checked(self, row: int) -> int:
        is_row = isinstance(row, int | np.integer) and not isinstance(row, bool)
        if not is_row or not 0 <= row < len(self):
            raise InputError(f"table {self.name!r} has rows 0 to {len(self) - 1:,}, and no row {row!r}.")
        return row

    def row(self, config: Config) -> int:
        """The row of a configuration. The first call takes O(N), others O(H).

        Raises:
            InputError: a hyperparameter is missing or unknown, a value is not on the grid (the message names
                the nearest value), or no row has this configuration.
        """
        before, after = f"table {self.name!r}: no row has", ": it was not trained, or its training failed."
        return find_row(self._rows, self.space, config, before, after)

    def lookup(self, config: Config) -> dict[str, float]:
        """The metrics of a configuration by name, NaN if missing: the table as a function to optimise.

        Raises InputError like `row`, for example if the configuration was not trained or its training failed.
        """
        row = self.values[self.row(config)].tolist()
        return {metric.name: value for metric, value in zip(self.metrics, row, strict=True)}

    def function(
        self, objectives: Objectives = (), otherwise: Otherwise = "error"
    ) -> Callable[[Config], float | list[float] | None]:
        """The table as a function to minimise, which returns a loss or a list of losses, for `hb.minimize`.

        Args:
            objectives: by default, the table's first objective.
            otherwise: what the function does if a configuration has no row, or the row lacks a metric.
                "error" raises an InputError, "none" returns None, which means a failed evaluation, and
                "nearest" uses the row with the nearest features.
        """
        made: Callable[[Config], float | list[float] | None] = from_above(
            "lookup.table_function:table_function"
        )(self, objectives, otherwise)
        return made

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return row_index(self.configs)

    @cached_property
    def features(self) -> Floats:
        """Features of the rows in [0, 1], shape (N, F), read-only: configurations, then descriptors."""
        if self.descriptors:
            return frozen(row_features(self.hyperparameters, self.configs, self.descriptors))
        return frozen(self.space.features(self.configs))

    @cached_property
    def sha256(self) -> str:
        """Hash of the rows, the search space and the metrics, but not of name, objectives and tolerances."""
        digest = hashlib.sha256()
        for h in self.hyperparameters:
            # The first version supported only numbers. Hashes of such tables must not change.
            kind = (h.kind, h.default) if h.active_if or not h.is_numeric else ()
            more = (h.active_if,) if h.active_if else ()
            if h.integer is False and all(map(float.is_integer, h.numbers)):
                more = (*more, "real")  # numbers between its values can be suggested as well
            digest.update(repr((h.name, h.values, h.scale, *kind, *more)).encode())
        for m in self.metrics:
            digest.update(repr((m.name, m.direction)).encode())
        described = self.descriptors
        if described:
            digest.update(repr([(h.name, h.values, h.scale, h.kind) for h in described.axes]).encode())
        for array in (self.configs, self.values, *([described.codes] if described else [])):
            # Adding 0 turns -0.0 into 0. A file cannot tell the two apart.
            canonical = np.where(np.isnan(array), np.nan, array + 0.0)
            digest.update(np.ascontiguousarray(canonical).astype("<f8").tobytes())
        return digest.hexdigest()

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        return self.metrics[self._place(name)]

    def column(self, metric: str) -> Floats:
        """Raw values of a metric, shape (N,), NaN if missing."""
        return self.values[:, self._place(metric)]

    def _place(self, metric: str) -> int:
        return metric_place(self.metrics, metric, f"(table {self.name!r})")

    def objective(self, spec: str | Objective) -> Objective:
        """An objective from "metric" (its own direction) or "metric:min" or "metric:max"."""
        if isinstance(spec, Objective):
            self.metric(spec.metric)
            return spec
        if ":" not in spec or any(metric.name == spec for metric in self.metrics):
            return Objective(spec, self.metric(spec).direction)  # a name may contain a colon
        name, _, direction = spec.rpartition(":")
        self.metric(name)
        for known in get_args(Direction):
            if direction == known:
                return Objective(name, known)
        raise InputError(f"objective {spec!r}: the direction after ':' must be 'min' or 'max'.")

    def losses(self, objectives: Objectives) -> Floats:
        """The objectives as losses to minimise, shape (N, m), NaN if missing."""
        if isinstance(objectives, str) or not objectives:
            raise InputError(f"objectives must be a list of one or more metrics, not {objectives!r}.")
        goals = map(self.objective, objectives)
        return np.column_stack([goal.to_loss(self.column(goal.metric)) for goal in goals])

    def curve(self, row: int) -> Curve:
        """The learning curve of a row; a curve without checkpoints if the row does not have one.

        Raises InputError if the table does not have curves, or does not have this row.
        """
        return self._some_curves[self._checked(row)]

    def of_rows(self, rows: Rows) -> Table:
        """The table with these rows, in this order. Replicates of other rows are kept, and do not count."""
        return replace(
            self,
            configs=self.configs[rows],
            values=self.values[rows],
            curves=self.curves and self.curves.of_rows(rows),
            descriptors=self.descriptors and self.descriptors.of_rows(rows),
        )

    def with_replicates(self, frame: pd.DataFrame, averaged: bool = False) -> Table:
        """The table with other replicates, one training per row of the frame (see `Replicates.to_frame`).

        `averaged` states whether the table's rows are their means. An empty frame removes the replicates.
        """
        found = None
        if len(frame):
            metrics = tuple(metric.name for metric in self.metrics)
            found = Replicates.of_frame(frame, self.hyperparameters, metrics, averaged)
        return replace(self, replicates=found)

    @property
    def averaged(self) -> bool:
        """The old name of `replicates.averaged`, which is False for a table without replicates."""
        warn_deprecated("Table.averaged", "Table.replicates.averaged", since="1.1", removed_in="2.0")
        return self.replicates is not None and self.replicates.averaged

    def trainings(self, objectives: Objectives, resume: bool = True) -> Trainings:
        """The trainings of all rows with their costs, to be simulated on a clock (core/trial_loop.py).

        The first objective decides which checkpoint is the best. An objective that is not in the curves has
        the row's value at every checkpoint. With `resume`, a training can be paused and resumed.

        Raises:
            InputError: the table or one of its rows has no curve, or the curves lack the first objective.
        """
        curves = self._some_curves
        goals = [self.objective(spec) for spec in objectives]
        known = [metric.name for metric in curves.metrics]
        if goals[0].metric not in known:
            raise InputError(
                f"table {self.name!r}: its learning curves lack {goals[0].metric!r}, which would decide on "
                f"the best checkpoint. They have {', '.join(known)}: name one of these first."
            )
        none = np.flatnonzero(curves.lengths == 0)
        if len(none):
            raise InputError(
                f"table {self.name!r}: {len(none)} of {counted(len(self), 'row')} "
                f"{'has' if len(none) == 1 else 'have'} no learning curve, row {none[0]} for one."
            )
        columns = [
            goal.to_loss(
                curves.column(goal.metric)
                if goal.metric in known
                else np.repeat(self.column(goal.metric), curves.lengths)
            )
            for goal in goals
        ]
        return Trainings(curves.starts, curves.resources, curves.costs, np.column_stack(columns), resume)

    @property
    def _some_curves(self) -> Curves:
        if self.curves is None:
            raise InputError(f"table {self.name!r} has no learning curves.")
        return self.curves

    def response(self, objective: str | Objective | None = None) -> Response:
        """One metric as a function of the configuration; by default `main_metric`. O(1)."""
        goal = self.objective(objective or self.main_metric)
        return Response(self.name, goal, self.hyperparameters, self.configs, self.column(goal.metric))

    @property
    def main_metric(self) -> str:
        """The default metric: the first objective, or the first metric if there are no objectives."""
        return self.objectives[0] if self.objectives else self.metrics[0].name

    def tolerance(self, objective: str | Objective) -> float:
        """The largest gap to the best value that counts as reaching it: the metric's own tolerance.

        If the metric does not have a tolerance, it is 5% of the way from the best row to the median row, or
        to the worst row if half of the rows are as good as the best. NaN if every value is missing.
        """
        goal = self.objective(objective)
        own = self.metric(goal.metric).tolerance
        return default_tolerance(self.losses([goal])[:, 0]) if own is None else own

    def best_rows(self, objective: str | Objective) -> Rows:
        """Numbers of the rows that share the best value, ascending; empty if every value is missing."""
        loss = self.losses([objective])[:, 0]
        return np.flatnonzero(loss == np.nanmin(loss)) if not np.isnan(loss).all() else np.empty(0, np.int64)

    def front(self, objectives: Objectives) -> Rows:
        """Numbers of the rows on the Pareto front of the objectives, ascending."""
        return pareto_front(self.losses(objectives))

    def pareto(
        self, objectives: Objectives = (), constraints: Sequence[str] = (), curves: bool = False
    ) -> Front:
        """The Pareto front as an object with `rows`, `frame`, `hypervolume`, `steps` and `plot()`.

            table.pareto(["dev_bleu", "dev_gpu_time"], constraints=["num_param<=5e7"]).plot()

        The arguments are those of `hb.pareto`. By default, the objectives are the table's.
        """
        front: Front = from_above("analysis.table_front:pareto")(self, objectives, constraints, curves)
        return front

    def to_frame(self, rows: int | None = None) -> pd.DataFrame:
        """A data frame with all columns in raw units, one row per configuration; or only the first rows.

        Columns of labels have Python values, and None where inactive. Columns of whole numbers have integers,
        unless some cells are inactive. All other columns have floats.
        """
        import pandas as pd

        columns = {h.name: h.column(self.configs[:rows, j]) for j, h in enumerate(self.hyperparameters)}
        if self.descriptors:
            pairs = zip(self.descriptors.axes, self.descriptors.codes[:rows].T, strict=True)
            columns |= {h.name: h.column(codes) for h, codes in pairs}
        columns |= {m.name: self.values[:rows, j] for j, m in enumerate(self.metrics)}
        return pd.DataFrame(columns)


def default_tolerance(loss: Floats) -> float:
    """The tolerance of a metric without its own, from losses of shape (N,); see Table.tolerance."""
    if np.isnan(loss).all():
        return np.nan
    to_median = float(np.nanmedian(loss) - np.nanmin(loss))
    return _TOLERANCE * (to_median or float(np.nanmax(loss) - np.nanmin(loss)))
