"""The tables that methods may learn from, on the scales of the table on which the methods run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.hyperparameter import key_of
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import Source
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import load_table, members
from hpobench_nmt.lookup.table import Table


def transfer_tables(
    names: Sequence[str], table: Table, objectives: Sequence[Objective]
) -> tuple[Source, ...]:
    """The sources that methods may learn from, of these tables and collections, without the table itself.

    Raises InputError if a source is not installed, lacks an objective or hyperparameter, or has no usable
    row.
    """
    sources = []
    for name in dict.fromkeys(member for spec in names for member in members(spec)):
        other = load_table(name)
        if other.name != table.name and other.sha256 != table.sha256:
            sources.append(transfer_table(other, table, objectives))
    return tuple(sources)


def shared_rows(table: Table, source: Table) -> tuple[Rows, Rows]:
    """The rows of a table and those of its source that have the same configurations, in the table's order.

    Raises InputError if they share none, or the source has other hyperparameters. O(N H).
    """
    where = f"table {source.name!r} as the source of {table.name!r}"
    if set(source.space.names) != set(table.space.names) or table.descriptors or source.descriptors:
        raise InputError(f"{where}: its rows have other hyperparameters.")
    theirs = {_as_key(source, row): row for row in range(len(source))}
    pairs = [(row, theirs.get(_as_key(table, row), -1)) for row in range(len(table))]
    found = np.array([pair for pair in pairs if pair[1] >= 0], dtype=np.int64).reshape(-1, 2)
    if not len(found):
        raise InputError(f"{where}: they have no configuration in common.")
    return found[:, 0], found[:, 1]


def _as_key(table: Table, row: int) -> frozenset[tuple[str, object]]:
    return frozenset((name, key_of(value)) for name, value in table.config(row).items())


def only_rows(table: Table, rows: Rows) -> Table:
    """The table with some of its rows, without curves and replicates."""
    return replace(table, curves=None, replicates=None).of_rows(rows)


def transfer_table(other: Table, table: Table, objectives: Sequence[Objective]) -> Source:
    """Another table's rows on the scales of this one's features; raises as transfer_tables does.

    Hyperparameters that this table lacks are ignored. Rows with a label that this table does not know, or a
    value that has no place on its scale, are left out.
    """
    where = f"table {other.name!r} as a source for {table.name!r}"
    codes = np.empty((len(other), len(table.space)))
    if table.descriptors or other.descriptors:
        raise InputError(f"{where}: one of them has features that are not hyperparameters.")
    for j, h in enumerate(table.space):
        if h.name not in other.space.names:
            raise InputError(f"{where}: it has no hyperparameter {h.name!r}.")
        theirs = other.space[h.name]
        if theirs.is_numeric != h.is_numeric:
            raise InputError(f"{where}: {h.name!r} has numbers in one and labels in the other.")
        column = other.configs[:, other.space.names.index(h.name)]
        if not h.is_numeric:
            place_of = {key_of(value): place for place, value in enumerate(h.values)}
            places = [place_of.get(key_of(value), np.inf) for value in theirs.values]
            known = ~np.isnan(column)
            column = np.where(known, np.array(places)[np.where(known, column, 0).astype(int)], np.nan)
        codes[:, j] = column
    usable = ~np.isinf(codes).any(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        features = table.space.features(codes[usable])
    losses = other.losses([other.objective(str(objective)) for objective in objectives])[usable]
    placed = np.isfinite(features).all(axis=1) & ~np.isnan(losses).any(axis=1)
    if not placed.any():
        raise InputError(f"{where}: none of its rows can be used.")
    source = Source(other.name, features[placed], losses[placed])
    for array in (source.features, source.losses):
        array.setflags(write=False)
    return source


def transfer_tables_sha256(sources: Sequence[Source]) -> str:
    """Hash of all that methods may learn from sources; empty if there are none."""
    if not sources:
        return ""
    found = hashlib.sha256()
    for source in sources:
        found.update(f"{source.name}\0{source.losses.shape}\0{source.features.shape}\0".encode())
        found.update(source.features.tobytes() + source.losses.tobytes())
    return found.hexdigest()
