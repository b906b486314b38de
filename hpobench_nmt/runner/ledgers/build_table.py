"""Make a table folder from a ledger."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.objectives import LARGEST_VALUE, Metric, Objective, measured
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError, Notify, prefixed
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.lookup.checks.curve_checks import best_places
from hpobench_nmt.lookup.curves import AT_CHECKPOINTS, Curves, Own
from hpobench_nmt.lookup.disk.datasheet import read_datasheet
from hpobench_nmt.lookup.disk.folder import DATASHEET, LEDGER, SPEC, write_into_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.runner.devices import mixed_devices
from hpobench_nmt.runner.ledgers.ledger import Ledger, Reader, Record, read_content, uncovered_note
from hpobench_nmt.runner.ledgers.plan import (
    Placed,
    best_rows,
    placed,
    planned_rows,
    refuse_misfit,
    rows_beside,
)
from hpobench_nmt.runner.specs.search_file import load_any
from hpobench_nmt.runner.specs.spec import SAME_SEED, Spec

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d.,]*(e[+-]?\d+)?(?!\w)")
# The numbers of a checkpoint that are not metrics.
_UPDATE, _TOKENS, _SECONDS, _FLOPS = "update", "tokens", "seconds", "flops"
# Metrics that families measure at checkpoints only.
_OF_SAMPLE = "sacrebleu of a sample of dev, decoded in training"
_AT_CHECKPOINTS = {"dev_bleu_sample": Metric("dev_bleu_sample", "max", "BLEU", description=_OF_SAMPLE)}
# Keys of the provenance that only people write, into the datasheet.
_BY_PEOPLE = ("creator", "citation", "url", "version")
# The largest relative difference between two records of the same measurement.
_SAME = 1e-9


def build(ledger_path: Path, notify: Notify = lambda message: None) -> tuple[Table, Path]:
    """Write table.csv, datasheet.toml and, if there are any, replicates.csv and curves.csv beside a ledger.

    Failed configurations are left out and counted, as in Zhang & Duh (2020). If a user's program has trained
    configurations again, which `tune` chose by their results, a row is the mean of its trainings that did not
    fail. In tables of model families, it is the configuration's first training, and the others are its
    replicates.

    Metrics that no training measured are also left out, and so are the neighbours of the best points and all
    other rows outside the spec's points, which were chosen by results. If the ledger's folder has a
    datasheet, the creator, citation, url and version in it are kept.

    The path is that of the ledger or of its folder, which also has spec.toml. `notify` gets a sentence if the
    ledger has no hashes, and one if no training measured an objective. Returns the table and its folder.
    """
    path = ledger_path / LEDGER if ledger_path.is_dir() else ledger_path
    content = read_content(path)
    ledger = Reader.of(content, path).ledger
    if ledger.uncovered:
        notify(uncovered_note(path, ledger))
    spec = load_any(path.parent / SPEC, follow_link=False)
    refuse_misfit(path, ledger, spec, to_train=False)
    records = placed(spec, ledger)
    near = rows_beside(spec, records)
    neighbours = _neighbours(spec, records, near)
    # Rows that lie close together would reveal to methods where the best row is.
    records = [(row, record) for row, record in records if row not in near]
    own = {row: record for row, record in records if record.replicate == 0}
    again = [record for row, record in records if row in own and 0 < record.replicate <= SAME_SEED]
    averaged = bool(again) and spec.family.program is not None
    if averaged:
        own = _means([(row, record) for row, record in records if row in own])
    ended = [own[row] for row in sorted(own)]
    done = [record for record in ended if record.status == "done"]
    if not done:
        raise InputError(f"{path}: no configuration has been trained with success yet.")
    metrics = [m for m in spec.metrics if any(m.name in record.metrics for record in done)]
    if not metrics:
        wanted = ", ".join(m.name for m in spec.metrics)
        raise InputError(f"{path}: no record has one of the spec's metrics ({wanted}).")
    names = [m.name for m in metrics]
    failed = [record for record in ended if record.status == "failed"]
    planned = len({*spec.sample.tolist(), *own})
    axes = _trained_axes(spec, done)
    with prefixed(path):
        curves = ledger_curves(done, metrics, renamed=not ledger.uncovered)
    provenance = _provenance(spec, ledger, content, done, failed, planned) | neighbours
    claims = {"configurations": planned, "failed": len(failed), "complete": len(ended) == planned}
    table = Table(
        name=spec.name,
        hyperparameters=axes,
        metrics=tuple(metrics),
        configs=Space(axes).encode_all(record.config for record in done),
        values=np.array([[record.metrics.get(name, np.nan) for name in names] for record in done]),
        objectives=tuple(o for o in spec.objectives if o in names),
        provenance=provenance | (_of_means(again) if averaged else {}),
        claims=claims | _baseline(spec, names),
        curves=curves,
    )
    if not table.objectives:
        notify(
            f"{path}: no training measured {' or '.join(spec.objectives)}, so the table has no objective. "
            f"Name a measured metric as objectives = [...] in {path.parent / SPEC}, and build it again."
        )
    # A configuration that failed has no row, even if it succeeded with another seed.
    with_row = [record for row, record in records if row in own and own[row].status == "done"]
    table = table.with_replicates(_replicates(table.space, with_row, names, averaged), averaged)
    told = "; ".join(filter(None, (_noise(table, name) for name in table.objectives)))
    noise = {"seed_noise": told} if told else {}
    table = replace(table, provenance={**table.provenance, **noise, **_by_people(path.parent / DATASHEET)})
    write_into_folder(table, path.parent)
    return table, path.parent


def _by_people(datasheet: Path) -> dict[str, str]:
    """What people added to the provenance of an earlier datasheet; empty without one that can be read."""
    with suppress(InputError):
        told = read_datasheet(datasheet).provenance
        return {key: told[key] for key in _BY_PEOPLE if key in told}
    return {}


def _baseline(spec: Spec, names: Sequence[str]) -> dict[str, Any]:
    """The claim of the spec's baseline, if the table has its metric."""
    if spec.baseline is None or spec.baseline.metric not in names:
        return {}
    return {"baseline": msgspec.structs.asdict(spec.baseline)}


def _trained_axes(spec: Spec, done: Sequence[Record]) -> tuple[Hyperparameter, ...]:
    """The axes of a table. If all configurations with a value failed, its space does not have the value."""
    grid = {axis.name: {r.config[axis.name] for r in done if axis.name in r.config} for axis in spec.axes}
    return tuple(
        replace(
            a,
            values=tuple(v for v in a.values if v in grid[a.name]),
            active_if=tuple((p, tuple(v for v in of if v in grid[p])) for p, of in a.active_if),
        )
        for a in spec.axes
        if grid[a.name]
    )


def _neighbours(spec: Spec, records: Placed, near: Set[int]) -> dict[str, str]:
    """The results of the neighbours of the best points, for the provenance; empty without neighbours."""
    name = spec.objectives[0]
    measured = [(row, r) for row, r in records if r.replicate == 0 and name in r.metrics]
    found = [pair for pair in measured if pair[0] in near]
    if not found or len(found) == len(measured):
        return {}
    values = {row: record.metrics[name] for row, record in measured}
    (first,) = best_rows(spec, found, 1)
    (best,) = best_rows(spec, [pair for pair in measured if pair[0] not in near], 1)
    planned = near <= set(planned_rows(spec, records).tolist())
    what = "grid neighbours of the best points" if planned else "rows outside the spec's points"
    return {
        "neighbours": f"{len(found)} {what} were trained as well, and are in the ledger alone: "
        f"their best {name} is {values[first]:.5g}, that of the rows {values[best]:.5g}"
    }


def _means(records: Placed) -> dict[int, Record]:
    """By row, its first training that did not fail, with the mean metrics of all of these; else the first."""
    by_row: dict[int, list[Record]] = {}
    for row, record in records:
        if record.replicate <= SAME_SEED:
            by_row.setdefault(row, []).append(record)
    found = {}
    for row, trainings in by_row.items():
        trainings.sort(key=lambda record: record.replicate)
        done = [record for record in trainings if record.status == "done"]
        names = {name for record in done for name in record.metrics}
        metrics = {n: statistics.fmean(r.metrics[n] for r in done if n in r.metrics) for n in names}
        found[row] = msgspec.structs.replace(done[0], metrics=metrics) if done else trainings[0]
    return found


def _of_means(again: Sequence[Record]) -> dict[str, str]:
    failed = [record for record in again if record.status == "failed"]
    told = f"{len(again)} trainings again, whose configurations were chosen by results; {len(failed)} failed"
    return {"rows_are_means": f"{told}: {_reasons(failed)}" if failed else told}


def _replicates(space: Space, records: Iterable[Record], names: list[str], averaged: bool) -> pd.DataFrame:
    """Trainings with other seeds: hyperparameters, replicate, seed, metrics.

    If rows are means, also their first trainings, and numbers are counted from 1.
    """
    axes, first = space.names, 0 if averaged else 1
    again = sorted(
        (r for r in records if first <= r.replicate <= SAME_SEED and r.status == "done"),
        key=lambda r: (space.encode(r.config).tolist(), r.replicate),
    )
    frame = pd.DataFrame([[r.config.get(a) for a in axes] for r in again], columns=axes)
    numbers = {"replicate": [r.replicate + 1 - first for r in again], "seed": [r.seed for r in again]}
    return frame.assign(**numbers, **{n: [r.metrics.get(n, np.nan) for r in again] for n in names})


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
        for name, column in zip(names, values.T, strict=True)
    ]
    described = tuple(_described(known[n], renamed and o is None) for n, o in zip(names, own, strict=True))
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


def _own(metric: Metric, column: Floats, starts: Ints, row_values: Sequence[float]) -> Own | None:
    """Whether the rows' own values are the best or the last of their curves; None if neither."""
    if metric.name in _AT_CHECKPOINTS:
        return None
    held = np.flatnonzero(np.diff(starts))
    bounds = np.concatenate([[0], starts[1:][held]])
    losses = Objective(metric.name, metric.direction).to_loss(column)
    values = np.asarray(row_values)[held]
    candidates: dict[Own, Ints] = {"best": best_places(losses, bounds), "last": bounds[1:] - 1}
    same = partial(np.allclose, b=values, rtol=_SAME, atol=0.0, equal_nan=True)
    return next((own for own, places in candidates.items() if same(column[places])), None)


def _noise(table: Table, metric: str) -> str:
    """A sentence about the noise of a metric between seeds; "" if no training was repeated."""
    if table.replicates is None:
        return ""
    try:
        replicates = table.replicates
        found = seed_noise(table.response(metric), replicates.to_frame(), replicates.averaged)
    except InputError:  # no configuration was trained twice
        return ""
    if found.pooled.sd == 0:
        return f"{metric}: the same in all trainings of a configuration"
    sd, limit, unit = found.pooled.sd, found.pooled.smallest_difference, table.metric(metric).unit
    degrees = f"{found.pooled.df} degree{'s' * (found.pooled.df != 1)} of freedom"
    return (
        f"{metric}: standard deviation {f'{sd:.3g} {unit}'.strip()} between trainings of a configuration "
        f"({degrees}); rows less than {limit:.3g} apart cannot be distinguished, and "
        f"{found.rows_within} of {found.n_rows}, including the best, are that near to the best"
    )


def _provenance(
    spec: Spec, ledger: Ledger, content: bytes, done: Sequence[Record], failed: Sequence[Record], planned: int
) -> dict[str, str]:
    trained = [*done, *failed]
    seconds = [record.seconds for record in trained]
    limited = sum(not record.converged for record in done)
    of_grid = f", of {spec.size:,} on the grid" if planned < spec.size else ""
    command = "tune" if spec.family.program else "train"
    told = {
        "title": spec.title,
        "note": spec.note,
        **{f"corpus_{key}": value for key, value in ledger.corpus.items() if key != "licence"},
        "licence": ledger.corpus.get("licence", ""),
        "family": spec.family.name,
        "trained": f"{len(done)} of {planned} configurations" + of_grid,
        "same_seed": _same_seed(spec, ledger),
        "failed": _reasons(failed),
        "not_converged": f"{limited} (a limit of epochs or updates ended their training)" if limited else "",
        "not_repeatable": _not_repeatable(done),
        "device": _most(record.device for record in trained),
        "devices_differ": mixed_devices(record.device for record in done),  # failed trainings have no times
        "versions": _most(", ".join(f"{k} {v}" for k, v in sorted(r.versions.items())) for r in done),
        "first": min(record.started for record in trained),
        "last": max(record.started for record in trained),
        "seconds": f"{statistics.median(seconds):.0f} a training in the median, {sum(seconds):.0f} in all",
        "ledger_sha256": hashlib.sha256(content).hexdigest(),
        "reproduce": f"hpobench-nmt {command} spec.toml, with the spec that lies beside the ledger",
        "reproducible": "" if spec.family.program else _reproducible(done),
    }
    return {key: printable(value, lines=True) for key, value in told.items() if value}


def _same_seed(spec: Spec, ledger: Ledger) -> str:
    """The largest distance of trainings with a row's own seed from that row, in the first objective.

    "" without such trainings. They are not replicates of the table, because on one machine they show only the
    machine's own noise, which may be zero.
    """
    name = spec.objectives[0]
    own = {spec.row(r.config): r.metrics.get(name) for r in ledger.records if r.replicate == 0}
    away = [
        abs(r.metrics[name] - value)
        for r in ledger.records
        if r.replicate > SAME_SEED and name in r.metrics
        if (value := own.get(spec.row(r.config))) is not None
    ]
    if not away:
        return ""
    again = f"{len(away)} training{'s' * (len(away) != 1)} again with a row's own seed"
    return f"{again}: {name} is at most {max(away):.4g} away from the row's"


def _not_repeatable(done: Sequence[Record]) -> str:
    """The number of trainings that are not repeatable bit by bit, and why; "" if all are."""
    counted = Counter(record.nondeterministic for record in done if record.nondeterministic)
    return "; ".join(f"{count} (not the same each time: {what})" for what, count in counted.most_common())


def _reproducible(done: Sequence[Record]) -> str:
    """A sentence about where a training can be repeated exactly."""
    but = " and the metrics of the rows in not_repeatable" if _not_repeatable(done) else ""
    return (
        "on the same machine, with the same versions, a training gives the same bits except for its "
        f"times{but}; on another model of processor sums are rounded differently, and the result differs "
        "from the row about as much as with another seed"
    )


def _reasons(failed: Sequence[Record]) -> str:
    """The number of failed trainings for each reason. Reasons that differ only in a number are the same."""
    counted = Counter(_NUMBER.sub("…", record.reason) for record in failed)
    return "; ".join(f"{count} ({reason})" for reason, count in counted.most_common())


def _most(texts: Iterable[str]) -> str:
    """Distinct texts, the most frequent first."""
    counted = Counter(texts).most_common()
    if len(counted) == 1:
        return counted[0][0]
    return "; ".join(f"{text} ({count} row{'s' * (count != 1)})" for text, count in counted)
