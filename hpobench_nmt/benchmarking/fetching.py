"""Getting tables: of a published collection, or all that a frozen suite needs."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.benchmarking.records.frozen import collections_of
from hpobench_nmt.benchmarking.task.suite_files import load_suite, suite_files, tracks
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.lookup import catalogue
from hpobench_nmt.lookup.collections import COLLECTIONS


def fetch(collection: str, source: str | Path | None = None, mirror: str = "") -> list[str]:
    """Download a published collection of tables, install it, and return the tables' names.

    Wherever a file comes from, its hash must be the one that this package knows.

    Args:
        collection: name of a collection, such as "nmthpo"; or of a frozen suite, such as "lm-2026", for all
            collections that the suite needs and that are not installed.
        source: folder with the authors' files, to use instead of the network; for a suite, a folder that has
            a folder for each collection.
        mirror: base address of a copy of the files, to use instead of the authors' address.

    Raises:
        InputError: an unknown collection, or a file that `source` lacks or that has another hash there.
        RunError: a file cannot be downloaded, or the tables cannot be written.
    """
    if collection in COLLECTIONS:
        return catalogue.fetch(collection, source, mirror)
    needed = collections_for(collection)
    if mirror:
        raise InputError(f"a mirror has one collection, but {collection} needs {', '.join(needed)}.")
    there, found = catalogue.installed(), []
    for name in needed:
        if not all(table in there for table in COLLECTIONS[name].tables):
            found += catalogue.fetch(name, None if source is None else Path(source) / name, mirror)
    return found


def collections_for(name: str) -> list[str]:
    """A collection's own name, or the names of those that a frozen suite needs; InputError for others."""
    if name in COLLECTIONS:
        return [name]
    suites = list(tracks(name).values()) or ([name] if name in suite_files() else [])
    if not suites or not all(load_suite(each).pinned for each in suites):
        frozen = [suite for suite in suite_files() if load_suite(suite).pinned]
        raise unknown("collection", name, [*COLLECTIONS, *{s.rpartition("-")[0] for s in frozen}])
    return collections_of(suites)
