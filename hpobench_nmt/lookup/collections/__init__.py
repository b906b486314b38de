"""The published collections of tables. Each has its own file, and a line here."""

from __future__ import annotations

from hpobench_nmt.lookup.collections import (
    algoperf,
    gemstones,
    nas_bench_nlp,
    nmthpo,
    nmtlc,
    steplaw,
    taskset,
)
from hpobench_nmt.lookup.collections.collection import Collection

_ALL = (
    nmthpo.COLLECTION,
    nmtlc.COLLECTION,
    steplaw.COLLECTION,
    algoperf.COLLECTION,
    taskset.COLLECTION,
    gemstones.COLLECTION,
    nas_bench_nlp.COLLECTION,
)

COLLECTIONS: dict[str, Collection] = {collection.name: collection for collection in _ALL}
"""The collections by name, in the order in which they are listed."""


def collection_of(table: str) -> Collection | None:
    """The published collection that has a table of this name, or None."""
    return next((c for c in COLLECTIONS.values() if table in c.tables), None)
