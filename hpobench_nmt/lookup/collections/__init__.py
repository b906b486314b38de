"""The published collections of tables. Each has a file here: a declaration, or a module and a line below."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.lookup.collections import (
    algoperf,
    nas_bench_nlp,
    nmthpo,
    nmtlc,
    steplaw,
    taskset,
)
from hpobench_nmt.lookup.collections.collection import Collection
from hpobench_nmt.lookup.collections.declared import read_declaration

_ALL = (
    nmthpo.COLLECTION,
    nmtlc.COLLECTION,
    steplaw.COLLECTION,
    algoperf.COLLECTION,
    taskset.COLLECTION,
    nas_bench_nlp.COLLECTION,
    *map(read_declaration, sorted(Path(__file__).parent.glob("*.toml"))),
)

COLLECTIONS: dict[str, Collection] = {collection.name: collection for collection in _ALL}
"""The collections by name, in the order in which they are listed."""


def collection_of(table: str) -> Collection | None:
    """The published collection that has a table of this name, or None."""
    return next((c for c in COLLECTIONS.values() if table in c.tables), None)
