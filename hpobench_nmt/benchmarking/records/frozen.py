"""Frozen suites: each table is pinned by a hash of all that the suite's trials and scores depend on.

A suite is frozen if its file has a hash for each of its tables (`pinned`). Such a suite runs only on tables
with these hashes, and only with its own settings, except for the number of trials. Tables that are not
installed are left out. Everything that shows the results then states that they cover only a part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from hpobench_nmt.benchmarking.records.manifest import TableEntry
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import tracks
from hpobench_nmt.core.system.errors import InputError, Notify, check_known
from hpobench_nmt.core.system.text import counted, some_of
from hpobench_nmt.lookup.catalogue import installed, load_table, members
from hpobench_nmt.lookup.collections import collection_of


def pin_of(suite: Suite, instance: Instance) -> str:
    """The hash of a table as a suite uses it: its rows, objectives, targets, curves, replicates and source.

    It is computed from the tables' own hashes, so it is the same on every machine.
    """
    entry = TableEntry.of(instance)
    source = suite.source_of.get(instance.installed.name)
    known = [
        entry.sha256,
        list(entry.objectives),
        sorted(entry.targets.items()),
        entry.curves,
        entry.trainings,
        [source, load_table(source).sha256] if source else [],
    ]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def suite_hash(suite: Suite) -> str:
    """The hash of a suite: of every setting that changes its figures, and of its tables' hashes.

    The number of trials is left out, because the first trials of a longer run are those of a shorter one.
    """
    settings = {key: value for key, value in suite.settings().items() if key != "trials"}
    return hashlib.sha256(json.dumps([suite.name, settings], sort_keys=True).encode()).hexdigest()


def check_pinned(suite: Suite, instances: Mapping[str, Instance]) -> None:
    """Raise InputError if a table differs from what a frozen suite pins; other suites are not checked."""
    for name, instance in instances.items() if suite.pinned else ():
        found = pin_of(suite, instance)
        if name not in suite.pinned:
            raise InputError(
                f"table {name!r} has no hash in suite {suite.name!r}, which is frozen: add pinned = "
                f"{found!r} for it, or remove pinned of all tables."
            )
        if found != suite.pinned[name]:
            raise InputError(
                f"table {name!r} has hash {found[:12]}…, but suite {suite.name!r} is frozen with hash "
                f"{suite.pinned[name][:12]}…: fetch {name!r} again, or update hpobench-nmt."
            )


def chosen_part(suite: Suite, tables: tuple[str, ...], notify: Notify) -> Suite:
    """The suite on the given tables, or on its own tables if none are given.

    A frozen suite's own tables are left out if they are not installed, and a notice names them. Raises
    InputError if none of them is installed, or if a given table does not belong to the frozen suite.
    """
    if tables:
        named = [member for spec in tables for member in members(spec)] if suite.pinned else []
        check_known("table", named, suite.pinned, f"(suite {suite.name} is frozen)")
        return changed(suite, tables=tables)
    if not suite.pinned:
        return suite
    kept = tuple(table for table in suite.tables if _is_there(suite, table))
    if not kept:
        raise InputError(f"no table of {suite.name} is installed. {how_to_get(suite)}")
    if missing := [table for table in suite.tables if table not in kept]:
        notify(
            f"Only a part of {suite.name}: of its {counted(len(suite.tables), 'table')}, {len(missing)} are "
            f"not installed ({some_of(missing)}). {how_to_get(suite)}"
        )
    return changed(suite, tables=kept)


def _is_there(suite: Suite, table: str) -> bool:
    """Whether a table is installed with all that the suite needs. Curves come with another collection."""
    there = installed()
    if not {table, suite.source_of.get(table, table)} <= there.keys():
        return False
    return not suite.curves or load_table(table).curves is not None


def how_to_get(suite: Suite) -> str:
    """The command that installs a frozen suite's tables."""
    whole = suite.name.rpartition("-")[0]
    name = whole if suite.name in tracks(whole).values() else suite.name
    return f"'hpobench-nmt tables fetch {name}' installs the tables that can be fetched."


def part_note(suite: Suite, tables: Mapping[str, Instance]) -> str:
    """A note for results of only a part of a frozen suite; empty for results of the whole suite."""
    if not suite.pinned or len(tables) == len(suite.pinned):
        return ""
    return (
        f"This run has only a part of {suite.name}: {len(tables)} of its "
        f"{counted(len(suite.pinned), 'table')}. The figures are not those of the whole suite."
    )


def collections_of(suite_names: list[str]) -> list[str]:
    """The published collections from which suites take tables."""
    from hpobench_nmt.benchmarking.task.suite_files import load_suite

    found: dict[str, None] = {}
    for suite in map(load_suite, suite_names):
        for collection in map(collection_of, (*suite.tables, *suite.source_of.values())):
            names = (collection.name, collection.given.curves if suite.curves else "") if collection else ()
            found |= dict.fromkeys(filter(None, names))
    return list(found)
