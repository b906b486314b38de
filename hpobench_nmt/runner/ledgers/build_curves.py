"""Turn the learning curves of a ledger's trainings into the curves of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import LARGEST_VALUE, Metric, Objective, measured
from hpobench_nmt.lookup.curve_checks import best_places
from hpobench_nmt.lookup.curves import AT_CHECKPOINTS, Curves, Own
from hpobench_nmt.runner.ledgers.ledger import Record

# The numbers of a checkpoint that are not metrics.
_UPDATE, _TOKENS, _SECONDS, _FLOPS = "update", "tokens", "seconds", "flops"
# Metrics that families measure at checkpoints only.
_AT_CHECKPOINTS = {
    "dev_bleu_sample": Metric(
        "dev_bleu_sample", "max", "BLEU", description="sacrebleu of a sample of dev, decoded in training"
    )
}
# The largest relative difference between two records of the same measurement.
_SAME = 1e-9


def ledger_curves(
    records: Sequence[Record], metrics: Sequence[Metric], renamed: bool = True
) -> Curves | None:
    """The curves of trainings, one for each row; None if they have no curves.

    The resource is tokens if every checkpoint has them, otherwise updates. The cost is floating-point
    operations if every checkpoint has them. Otherwise it is the time of training if every checkpoint has it
    and it always increases, or else updates. A metric is included if every checkpoint has it and it is one of
    the table's metrics or of `_AT_CHECKPOINTS`.

    If the row values of a metric are neither the best nor the last of their curves, it was measured in
    another way at checkpoints. For instance, dev perplexity was measured on ten streams there and on one
    stream at the end, or the weights were averaged at the end. With `renamed`, such a metric gets another
    name.

    Args:
        records: those of the table's rows, in the table's order.
        metrics: the table's metrics.
        renamed: see above.
    """
    curves = [_until_diverged(record.curve) for record in records]
    points = [point for curve in curves for point in curve]
    known = {metric.name: metric for metric in metrics} | _AT_CHECKPOINTS
    names = [name for name in (points[0] if points else ()) if name in known]
    names = [name for name in names if all(name in point for point in points)]
    if not names:
        return None
    starts = np.cumsum([0, *map(len, curves)])
    resource, resource_unit = (_TOKENS, "tokens") if _all_have(points, _TOKENS) else (_UPDATE, "updates")
    resources = np.array([point[resource] for point in points])
    costs, unit = np.array([point[_UPDATE] for point in points]), "updates"
    if _all_have(points, _FLOPS):
        costs, unit = np.array([point[_FLOPS] for point in points]), "FLOPs"
    elif _all_have(points, _SECONDS):
        seconds = np.array([point[_SECONDS] for point in points])
        if all((np.diff(part) > 0).all() for part in np.split(seconds, starts[1:-1])):
            costs, unit = seconds, "s"
    # Column by column, because a million short lists would take most of the time of a large ledger.
    values = np.column_stack([np.array([point[n] for point in points], np.float64) for n in names])
    own = [
        _own(known[name], column, starts, [record.metrics.get(name, np.nan) for record in records])
        if name not in _AT_CHECKPOINTS
        else None
        for name, column in zip(names, values.T, strict=True)
    ]
    described = tuple(
        _described(known[name], renamed and each is None) for name, each in zip(names, own, strict=True)
    )
    return Curves(resource, described, tuple(own), starts, resources, costs, values, unit, resource_unit)


def _described(metric: Metric, otherwise: bool) -> Metric:
    """A metric of the curves. With `otherwise`, it gets another name than the table's metric."""
    name, direction, unit = metric.name, metric.direction, metric.unit
    if name in _AT_CHECKPOINTS:
        return metric
    if not otherwise:
        return Metric(name, direction, unit)
    how = f"{name} as checkpoints measure it, in another way than the rows' own {name}"
    return Metric(name + AT_CHECKPOINTS, direction, unit, description=how)


def _all_have(points: Sequence[Mapping[str, float]], key: str) -> bool:
    return all(key in point for point in points)


def _until_diverged(curve: Sequence[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """The checkpoints up to the first with a value that is too large to store, where it is missing."""
    found: list[Mapping[str, float]] = []
    for point in curve:
        if _UPDATE not in point:
            return []
        if max(map(abs, point.values())) > LARGEST_VALUE:
            return [*found, {k: float(measured(np.array(v))) for k, v in point.items()}]
        found.append(point)
    return found


def _own(
    metric: Metric, column: Floats, starts: NDArray[np.int64], row_values: Sequence[float]
) -> Own | None:
    """Whether the rows' own values are the best or the last of their curves; None if neither."""
    held = np.flatnonzero(np.diff(starts))
    bounds = np.concatenate([[0], starts[1:][held]])
    losses = Objective(metric.name, metric.direction).to_loss(column)
    values = np.asarray(row_values)[held]
    candidates: list[tuple[Own, NDArray[np.int64]]] = [
        ("best", best_places(losses, bounds)),
        ("last", bounds[1:] - 1),
    ]
    for own, places in candidates:
        if np.allclose(column[places], values, rtol=_SAME, atol=0.0, equal_nan=True):
            return own
    return None
