"""The learning curves of a table in sentences and frames: whether early stopping can work on it."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.analysis.tables.section import Section, section_on
from hpobench_nmt.benchmarking.task.clock import with_metrics_of_curves
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import short
from hpobench_nmt.evaluation.correlation import spearman_interval
from hpobench_nmt.evaluation.early_ranks import BEST, KEPT, EarlyRanks, early_ranks
from hpobench_nmt.lookup.table import Table

# From this coefficient on, an order is reported to hold.
_HOLDS = 0.9
# Of the rows that ever have a value, the share that must have one before their order is reported.
_MOST = 0.9


def table_early_ranks(table: Table, metric: str | None = None) -> EarlyRanks:
    """How well the curves of a table show its best rows early.

    The metric is a metric of the curves, as "metric" or "metric:min|max". By default, it is the first
    objective if the curves have it, or else their first metric that the table has. Raises InputError if there
    are no curves, or the curves lack the metric.
    """
    curves = table.curves
    if curves is None:
        raise InputError(f"table {table.name!r} has no learning curves.")
    followed = {curves.counterpart(each.name) for each in table.metrics}
    known = [each.name for each in curves.metrics if each.name in followed]
    name, *direction = (metric or table.main_metric).split(":")
    spec = ":".join([curves.counterpart(name) or name, *direction])
    if spec.partition(":")[0] not in known and metric is None and known:
        spec = known[0]
    wanted = spec.partition(":")[0]
    if wanted not in known:
        raise InputError(
            f"the learning curves have no {wanted}; they have {', '.join(known) or 'no metric of it'}."
        )
    rows = np.flatnonzero(curves.lengths > 0)
    part, configs, values = curves.of_rows(rows), table.configs[rows], table.values[rows]
    held = Table(table.name, table.hyperparameters, table.metrics, configs, values, curves=part)
    held = with_metrics_of_curves(held, [spec])
    objective = held.objective(spec)
    unit = curves.resource_unit
    resource = curves.resource if not unit or unit == f"{curves.resource}s" else f"{curves.resource} ({unit})"
    return early_ranks(table.name, objective, unit or resource, held.trainings([objective]), rows)


def curve_section(table: Table, metric: str | None = None) -> Section:
    """The section of `tables analyze` and of reports on a table's learning curves."""
    found = table_early_ranks(table, metric)
    lines = np.unique(np.geomspace(1, len(found.frame), 8).round().astype(int)) - 1
    return section_on(
        table,
        "curves",
        f"learning curves of {found.metric}",
        {"": found.frame, "-ranks": found.ranks},
        notes=of_curves(found),
        shown=found.frame.iloc[lines].reset_index(drop=True),
        analysis=found,
        unit=table.curves.metric(found.metric).unit if table.curves else "",
    )


def of_curves(found: EarlyRanks) -> tuple[str, ...]:
    """Sentences on how early the order of the rows agrees with the final order."""
    frame = found.frame
    # Rows that never have a value, because they diverged at once, are not counted.
    whole = frame[(frame["rows"] >= _MOST * frame["rows"].max()) & frame["order"].notna()]
    if not len(whole):
        curves = "row has" if found.n_rows == 1 else "rows have"
        return (f"{found.n_rows:,} {curves} a learning curve, and all curves are alike.",)
    first = whole.iloc[0]
    n = int(first["rows"])
    low, high = spearman_interval(float(first["order"]), n)
    notes = [
        f"{found.n_rows:,} rows have a learning curve. Once {n:,} have a value (at {found.resource} "
        f"{short(first['resource'])}), their order agrees with the final one by a Spearman coefficient of "
        f"{first['order']:.2f} (95% interval {low:.2f} to {high:.2f}), and {first['kept']:.0%} of the best "
        f"{_share(BEST)} in the end are among the best {_share(KEPT)}."
    ]
    held = whole[whole["order"] >= _HOLDS]
    if stays := [i for i in held.index if (whole.loc[i:, "order"] >= _HOLDS).all()]:
        at = whole.loc[stays[0]]
        notes.append(
            f"From {found.resource} {short(at['resource'])} on the coefficient is {_HOLDS} or more; by then "
            f"{1 - at['going'] / at['rows']:.0%} of the trainings have ended."
        )
    best = found.ranks[(found.ranks["place"] == 1) & (found.ranks["resource"] >= first["resource"])]
    if len(best):
        ranks = best["rank"].tolist()
        notes.append(
            f"The row that is best in the end (row {best['row'].tolist()[0]}) has rank {ranks[0]} at that "
            f"point, and never a worse rank than {max(ranks)} after it."
        )
    return tuple(notes)


def curve_summary(table: Table) -> str:
    """A line on a table's curves, for `tables show`."""
    curves = table.curves
    assert curves is not None
    held = curves.lengths[curves.lengths > 0]
    names = ", ".join(metric.name for metric in curves.metrics)
    text = (
        f"Learning curves of {names}: {len(held):,} of {len(table):,} rows, {held.min()} to {held.max()} "
        f"checkpoints, {np.median(held):g} in the median."
    )
    try:
        found = table_early_ranks(table)
    except InputError:
        return text
    # As long as fewer than two rows have a checkpoint, there is no order.
    frame = found.frame.dropna(subset="order")
    if not len(frame):
        return text
    chosen = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, 5).round().astype(int))]
    pairs = zip(chosen["resource"], chosen["order"], strict=True)
    orders = ", ".join(f"{order:.2f} at {short(at)}" for at, order in pairs)
    return f"{text} Order by {found.metric} against the final one (Spearman, by {found.resource}): {orders}."


def _share(one_in: int) -> str:
    return {3: "third", 10: "tenth"}[one_in]
