"""A spec and its ledger: whether they belong together, and which trainings are planned and left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import short_label
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.runner.ledgers.ledger import Ledger, Record, read_ledger
from hpobench_nmt.runner.specs.spec import SAME_SEED, Spec

Training = tuple[int, int]
"""Row of the grid, and number of the replicate."""

Placed = Sequence[tuple[int, Record]]
"""Records with their rows of a spec's grid."""


def refuse_misfit(
    path: Path, ledger: Ledger, spec: Spec, to_train: bool = True, corpus: Mapping[str, str] | None = None
) -> None:
    """Raise InputError if a ledger belongs to another spec, or has a record off the spec's grid.

    With the provenance of a corpus, also if the ledger belongs to another corpus.
    """
    refuse_other_spec(path, ledger, spec.identity, spec.family.defaults, to_train)
    if corpus is not None:
        refuse_other_corpus(path, ledger, corpus)
    refuse_rows_off_the_grid(path, ledger, spec)


def refuse_rows_off_the_grid(path: Path, ledger: Ledger, spec: Spec) -> None:
    """Raise InputError if a record's configuration is not on the spec's grid."""
    axes = spec.grid
    for record in ledger.records:
        inactive = spec.inactive(record.config)
        if record.config.keys() != axes.keys() - inactive:
            names = printable(", ".join(record.config)[:200]) or "no hyperparameters"
            active = ", ".join(name for name in axes if name not in inactive)
            raise InputError(f"{path}: has a record of {names}, but the grid has {active}. Remove its line.")
        for name, value in record.config.items():
            if value not in axes[name]:
                shown = printable(short_label(value))[:80]
                raise InputError(
                    f"{path}: has a record with {name} = {shown}, which is not on the grid. Put the value "
                    "back in [grid], or remove the line."
                )


def refuse_other_corpus(path: Path, ledger: Ledger, corpus: Mapping[str, str]) -> None:
    """Raise InputError if the corpus with this provenance is not that of a ledger."""
    then, now = (str(c.get("sha256"))[:12] for c in (ledger.corpus, corpus))
    if then != now:
        raise InputError(
            f"{path}: the corpus has changed since its first row (SHA-256 {then}… then, {now}… now). Use "
            f"another folder with --out."
        )


def refuse_other_spec(
    path: Path, found: Ledger, spec: Mapping[str, Any], usual: Mapping[str, Any], to_train: bool = True
) -> None:
    """Raise InputError if a ledger was started for another spec, or with another default of a setting.

    A new setting's default keeps the behaviour from before the setting existed. A setting that a ledger does
    not have therefore had its default, whether or not a spec now sets it. If nothing more is trained, changed
    defaults do not matter.

    Args:
        spec: the identity of the spec (Spec.identity).
        usual: the default of every setting of the family (Family.defaults).
        to_train: whether more rows are going to be trained.
    """
    then, now = (_flat(each, ("defaults", "fixed")) for each in (found.spec, spec))
    then = {key: value for key, value in usual.items() if key in now} | then
    explicit = _flat(spec, ("fixed",))
    for key in now | then:
        if key not in then and key not in explicit:
            continue
        if key in found.spec.get("defaults", {}) and key not in explicit:
            if to_train and key in now and then[key] != now[key]:
                raise InputError(
                    f"{path}: was started when the default of {key} was {then[key]!r}; now it is "
                    f"{now[key]!r}. To resume, write {key} = {json.dumps(then[key])} in the spec's [fixed]."
                )
            if to_train and key not in now:
                raise InputError(
                    f"{path}: was started with {key} = {then[key]!r}, which this version does not have. You "
                    f"can build a table from it, but not train more: use another folder."
                )
        elif then.get(key) != now.get(key):
            raise InputError(
                f"{path}: belongs to another spec: {key} is {then.get(key)!r} there, {now.get(key)!r} here. "
                f"A ledger belongs to one spec: use another folder."
            )


def _flat(spec: Mapping[str, Any], sections: Sequence[str]) -> dict[str, Any]:
    """A spec's identity with the settings of these sections. Later sections override earlier ones."""
    flat = {key: value for key, value in spec.items() if key not in ("defaults", "fixed")}
    for section in sections:
        flat |= spec.get(section, {})
    return flat


def placed(spec: Spec, ledger: Ledger) -> list[tuple[int, Record]]:
    """The records of a ledger whose configurations lie on the grid, in their order. O(H) per record."""
    rows = ((spec.row(record.config), record) for record in ledger.records)
    return [(row, record) for row, record in rows if row is not None]


def planned_rows(spec: Spec, records: Placed) -> NDArray[np.intp]:
    """Rows of the grid that are trained: the spec's sample, then the neighbours of its best rows.

    Only rows of the sample can be the best rows, so that their neighbours stay the same as the ledger grows.
    """
    if not spec.neighbours:
        return spec.sample
    sample = set(spec.sample.tolist())
    of_sample = [(row, record) for row, record in records if record.replicate == 0 and row in sample]
    if len(of_sample) < len(sample):
        return spec.sample
    near = {row for best in best_rows(spec, of_sample, spec.neighbours) for row in spec.neighbours_of(best)}
    return np.append(spec.sample, np.array(sorted(near - sample), dtype=np.intp))


def best_rows(spec: Spec, records: Placed, count: int) -> list[int]:
    """The `count` best rows by the first objective, the best first.

    Of equal rows, those that come first on the grid are taken. Rows without a value are never taken.
    """
    name = spec.objectives[0]
    (metric,) = (metric for metric in spec.metrics if metric.name == name)
    sign = 1.0 if metric.direction == "min" else -1.0
    losses = sorted(
        (sign * record.metrics[name], row)
        for row, record in records
        if record.replicate == 0 and name in record.metrics
    )
    return [row for _, row in losses[:count]]


def rows_beside(spec: Spec, records: Placed) -> set[int]:
    """Rows in the ledger that are not rows of the table, such as the neighbours of the best points.

    These are all rows outside the spec's sample, whatever the spec now says about neighbours. If less than
    half of the sample is recorded, they are only the planned neighbours: the ledger is probably that of
    `tune`, which chooses among all rows of the grid.
    """
    sample = set(spec.sample.tolist())
    recorded = {row for row, record in records if record.replicate == 0}
    if 2 * len(recorded & sample) < len(sample):
        return set(planned_rows(spec, records).tolist()) - sample
    return {row for row, _ in records} - sample


def pending(
    spec: Spec, ledger: Ledger, rows: Sequence[int] | NDArray[np.intp], shard: tuple[int, int] = (1, 1)
) -> list[Training]:
    """(row, replicate) of the trainings that are still missing.

    Rows come in a random order, which is always the same, so that a stopped run has trained a fair sample of
    the grid. Repeated trainings come last, and those of the best rows only after all rows have ended.

    Only the given rows count. The shard is (i, n), counted from 1: every n-th training of that order,
    starting with the i-th. It depends on the spec alone, so that each training is in exactly one of the n
    shards. The best rows, and the neighbours of the best points, are known only from a ledger that has all
    rows.
    """
    first, parts = shard[0] - 1, shard[1]
    chosen = np.zeros(spec.size, dtype=bool)
    chosen[np.asarray(rows, dtype=np.intp)] = True
    records = placed(spec, ledger)
    finished = {(row, record.replicate) for row, record in records}
    ended = np.zeros(spec.size, dtype=bool)
    ended[[row for row, replicate in finished if replicate == 0]] = True
    wanted = np.zeros(spec.size, dtype=bool)
    wanted[planned_rows(spec, records)] = True
    twice = list(spec.replicate_rows)
    if spec.replicates.best and ended[wanted].all():
        sample = set(spec.sample.tolist())
        # Neighbours of the best points are not rows of the table, so they are not among its best rows.
        of_sample = [(row, record) for row, record in records if row in sample]
        twice += [row for row in best_rows(spec, of_sample, spec.replicates.best) if row not in twice]
    # The seeds of a row follow each other. Trainings with one seed may share a model, for which simultaneous
    # jobs would wait.
    turns = [turn + 1 for turn in range(spec.replicates.trainings)]
    turns += [SAME_SEED + turn + 1 for turn in range(spec.replicates.same_seed)]
    again = [(row, turn) for row in twice for turn in turns]
    again = [training for training in again[(first - spec.size) % parts :: parts] if chosen[training[0]]]
    order = generator(spec.seed, "order").permutation(spec.size)[first::parts]
    todo = order[(chosen & wanted & ~ended)[order]].tolist()
    return [*((row, 0) for row in todo), *(training for training in again if training not in finished)]


def planned(
    spec: Spec, path: Path, rows: Sequence[int] | NDArray[np.intp], shard: tuple[int, int] = (1, 1)
) -> tuple[Ledger, list[Training]]:
    """The current ledger (empty if it does not exist), and the trainings that a run would start now.

    Raises InputError if the ledger belongs to another spec.
    """
    ledger = Ledger({}, {}, ())
    if path.exists():
        ledger = read_ledger(path)
        refuse_misfit(path, ledger, spec)
    return ledger, pending(spec, ledger, rows, shard)
