"""Settings by table: how a suite's file lists them with its tables, and which tables they may name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpobench_nmt.benchmarking.task.suite import DEFAULT, INSTALLED, Suite
from hpobench_nmt.core.system.errors import InputError, Notify, shortened, unknown
from hpobench_nmt.lookup.catalogue import find_folder, installed, members
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import table_name

WITH_DEFAULT = ("tolerance", "score_at", "time")
"""The settings by table that may have a `default` for all other tables."""
OF_A_TABLE = (*WITH_DEFAULT, "source_of", "family", "pinned")
"""The settings that may be written with a table."""
BY_TABLE = (*OF_A_TABLE, "development")
"""The settings that name tables of a run."""
_HALVES = ("development", "test")


def spread_tables(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Convert a suite whose tables are written with their settings to one with a key for each setting.

    [tables]                    # or [tables.test] and [tables.development]
    zh-en = {tolerance = 0.5, score_at = 20}
    """
    written, half_of = {}, {}
    for name, value in content["tables"].items():
        halved = name in _HALVES and isinstance(value, dict)
        for table, settings in value.items() if halved else [(name, value)]:
            if table in written:
                raise InputError(f"{path}: table {shortened(table)} is in both halves.")
            if not isinstance(settings, dict):
                raise InputError(f"{path}: settings of table {shortened(table)} must be a table of TOML.")
            written[table], half_of[table] = settings, name if halved else ""
    found = {**content, "tables": list(written)}
    for table, settings in written.items():
        for key, value in settings.items():
            if key not in OF_A_TABLE:
                raise unknown("key", key, OF_A_TABLE, f"({path}, table {shortened(table)})")
            found[key] = {**found.get(key, {}), table: value}
    own = [table for table, half in half_of.items() if half == _HALVES[0]]
    return {**found, "development": own} if own else found


def unknown_tables(
    settings: Mapping[str, Iterable[str]], tables: Collection[str], where: str
) -> Iterator[InputError]:
    """An error for each setting of a table that is not one of these; the setting would be ignored."""
    for key in BY_TABLE:
        valid = {*tables, DEFAULT} if key in WITH_DEFAULT else tables
        for table in settings.get(key, ()):
            if table not in valid:
                yield unknown("table", table, valid, f"({where}, {key})")


def note_ignored(suite: Suite, specs: Iterable[str], loaded: Collection[str], notify: Notify) -> None:
    """Call `notify` for each setting that is for an unknown table, before the run's tables are read.

    Settings may also be for known tables outside of the run, because the same settings may serve for runs on
    other tables. As these need not be installed, an unknown table is not an error.

    Args:
        suite: the suite with its own tables.
        specs: names, groups and folders of the run's tables; empty for those of the suite.
        loaded: names of tables of the run that need not be installed.
        notify: called with a message.

    Raises:
        InputError: a table of the run does not exist.
    """
    settings = {key: value for key in BY_TABLE if (value := getattr(suite, key))}
    if not settings:
        return
    of_run = {name for spec in specs for name in ([spec] if spec in loaded else _named(spec))}
    published = {table for collection in COLLECTIONS.values() for table in collection.tables}
    known = of_run | _tables_of(suite) | published | installed().keys()
    for error in unknown_tables(settings, known, f"suite {suite.name!r}"):
        notify(f"A setting is ignored: {error}")


def _tables_of(suite: Suite) -> set[str]:
    """The names of a suite's tables, whether or not they are installed."""
    found = {*suite.pinned}  # on a part of a frozen suite, its tables are fewer
    for spec in suite.tables:
        try:
            found.update(_named(spec))
        except InputError:
            found.add(Path(spec).name)
    return found


def _named(spec: str) -> list[str]:
    """The names of the tables that a name, a group or a folder stands for; InputError if there are none."""
    there = installed()
    if spec == INSTALLED:
        return list(there)
    if spec in there:
        return [spec]
    return [name if name in there else table_name(find_folder(name)) for name in members(spec)]
