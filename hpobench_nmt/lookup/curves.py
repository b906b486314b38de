"""Learning curves: the metrics of a table's rows during training, and the costs up to each checkpoint.

symbol      shape     meaning
starts      (N + 1,)  where each row's checkpoints begin in the arrays below, and their number P at the end
resources   (P,)      how far the training was at a checkpoint (updates, say), increasing within a row
costs       (P,)      what the training had cost up to there, increasing within a row
values      (P, M)    raw values of the curve's M metrics

A row without a curve has no checkpoints. NaN means that a metric was not measured. It occurs at a row's last
checkpoint, because a training that diverges stops there, or at all of the row's checkpoints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Rows, frozen
from hpobench_nmt.core.objectives import LARGEST_VALUE, Metric, measured, metric_place
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_column, check_distinct
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trainings import checkpoint_text, not_increasing, owners_of, places_of

Own = Literal["best", "last"]

AT_CHECKPOINTS = "_at_checkpoints"
"""The suffix of a curve's metric that is measured differently from the row's own value of that metric."""


class Curve(NamedTuple):
    """The curve of one row; the arrays are read-only.

    Resources and costs up to each checkpoint have shape (k,). Values have shape (k, M), with the metrics in
    the order of `Curves.metrics`.
    """

    resources: Floats
    costs: Floats
    values: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Curves:
    """The learning curves of a table's N rows. The symbols are explained at the top of this file.

    Attributes:
        resource: the measure of a training's progress, such as "update"; also the name of its column on disk.
        metrics: the M metrics. A metric that the table also has must have the table's direction.
        own: for each metric, whether the row's own value is the "best" or the "last" of its curve; None if
            the table does not have this metric, or measured it in another way.
        starts, resources, costs, values: see the symbols; read-only.
        cost_unit, resource_unit: units for display.
    """

    resource: str
    metrics: tuple[Metric, ...]
    own: tuple[Own | None, ...]
    starts: Rows
    resources: Floats
    costs: Floats
    values: Floats
    cost_unit: str = ""
    resource_unit: str = ""

    def __post_init__(self) -> None:
        for name, kind in (("starts", np.int64), ("resources", float), ("costs", float), ("values", float)):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=kind)))
        object.__setattr__(self, "values", frozen(measured(self.values)))
        check_column("resource", self.resource, self.resource_unit)
        check_column("cost", "cost", self.cost_unit)
        names = [metric.name for metric in self.metrics]
        check_distinct(["row", "checkpoint", "cost", self.resource, *names], "curves")
        if not self.metrics or len(self.own) != len(self.metrics):
            told = "for each of them how it gives the row's own value"
            raise InputError(f"curves need one metric or more, and {told}.")
        if self.values.ndim != 2 or self.values.shape[1] != len(self.metrics):
            raise InputError(
                f"curves: values must have shape (checkpoints, {len(self.metrics)}), not {self.values.shape}."
            )
        if not len(self.resources) == len(self.costs) == len(self.values):
            raise InputError(
                f"curves: {len(self.resources)} resources, {len(self.costs)} costs and {len(self.values)} "
                "values; there must be one of each for every checkpoint."
            )
        lengths = np.diff(self.starts)
        ends = (0, len(self.costs))
        if len(lengths) == 0 or (self.starts[0], self.starts[-1]) != ends or (lengths < 0).any():
            count = f"{len(self.costs)}, the number of checkpoints"
            raise InputError(f"curves: starts must go from 0 up to {count}.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for what, numbers in ((self.resource, self.resources), ("cost", self.costs)):
            self._refuse(~np.isfinite(numbers), f"{what} is missing or not finite.")
            self._refuse(numbers < 0, f"{what} is below 0.")
            self._refuse(numbers > LARGEST_VALUE, f"{what} is beyond {LARGEST_VALUE:g}.")
            stays = not_increasing(self.starts, numbers)
            self._refuse(stays, f"{what} must increase from one checkpoint to the next.")
        if len(self.costs) and not self.costs.any():
            raise InputError("curves: the cost is 0 everywhere.")
        owners = owners_of(self.starts)
        not_last = np.diff(owners, append=len(self)) == 0
        for metric, values in zip(self.metrics, self.values.T, strict=True):
            absent = np.isnan(values)
            measured_somewhere = np.bincount(owners, ~absent, len(self)) > 0
            self._refuse(
                absent & not_last & measured_somewhere[owners],
                f"{metric.name} is missing before the last checkpoint. A training that diverges stops there: "
                'leave out what follows, or say truncate_at = "nan" in [curves] of a datasheet to be added.',
            )

    def _refuse(self, wrong: Bools, message: str) -> None:
        if wrong.any():
            place = checkpoint_text(self.starts, int(np.flatnonzero(wrong)[0]))
            raise InputError(f"curves, {place}: {message}")

    def __len__(self) -> int:
        """The number of rows, including rows without a curve."""
        return len(self.starts) - 1

    def __repr__(self) -> str:
        names = ", ".join(metric.name for metric in self.metrics)
        return f"Curves({counted(len(self), 'row')}, {counted(len(self.costs), 'checkpoint')} of {names})"

    def __getitem__(self, row: int) -> Curve:
        """The curve of a row; it has no checkpoints if the row does not have a curve."""
        here = slice(*self.starts[range(len(self))[row] :][:2])
        return Curve(self.resources[here], self.costs[here], self.values[here])

    @property
    def lengths(self) -> Rows:
        """The number of checkpoints of each row, shape (N,)."""
        return np.diff(self.starts)

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        return self.metrics[metric_place(self.metrics, name, "(curves)")]

    def column(self, name: str) -> Floats:
        """Raw values of a metric at all checkpoints, shape (P,)."""
        return self.values[:, metric_place(self.metrics, name, "(curves)")]

    def counterpart(self, name: str) -> str | None:
        """The curves' metric for a table's metric: of the same name, or with AT_CHECKPOINTS; or None."""
        names = [metric.name for metric in self.metrics]
        return next((each for each in (name, name + AT_CHECKPOINTS) if each in names), None)

    def of_rows(self, rows: Sequence[int] | Rows) -> Curves:
        """The curves of these rows, in this order."""
        return self._taken(*places_of(self.starts, np.asarray(rows, dtype=np.int64)))

    def only(self, kept: Bools) -> Curves:
        """The curves without the checkpoints of rows that are not `kept`, shape (N,)."""
        there = np.repeat(kept, self.lengths)
        return self._taken(np.concatenate([[0], np.cumsum(np.where(kept, self.lengths, 0))]), there)

    def _taken(self, starts: Rows, places: NDArray[Any]) -> Curves:
        resources, costs, values = (array[places] for array in (self.resources, self.costs, self.values))
        return replace(self, starts=starts, resources=resources, costs=costs, values=values)

    @cached_property
    def sha256(self) -> str:
        """Hash of the checkpoints and of the metrics' names and directions."""
        digest = hashlib.sha256(repr((self.resource, [(m.name, m.direction) for m in self.metrics])).encode())
        digest.update(self.starts.astype("<i8").tobytes())
        for array in (self.resources, self.costs, np.where(np.isnan(self.values), np.nan, self.values)):
            # Adding 0 turns -0.0 into 0. A file cannot tell the two apart.
            digest.update(np.ascontiguousarray(array + 0.0).astype("<f8").tobytes())
        return digest.hexdigest()


def until_missing(starts: Rows, values: Floats) -> tuple[Rows, Bools]:
    """Where N curves begin, and which checkpoints are kept, shape (P,), if diverged trainings were logged on.

    A curve keeps its checkpoints up to and including the first that lacks a metric, at which the training had
    diverged.
    """
    absent = np.isnan(values).any(axis=1)
    before = np.concatenate([[0], np.cumsum(absent)])[:-1]  # earlier checkpoints that lack one, in all rows
    kept = np.asarray(before == before[starts[owners_of(starts)]])
    return np.concatenate([[0], np.cumsum(kept)])[starts], kept
