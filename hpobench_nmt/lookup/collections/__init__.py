"""The published collections of tables. Each has a declaration here, NAME.toml."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.lookup.collections import nmtlc
from hpobench_nmt.lookup.collections.collection import Collection
from hpobench_nmt.lookup.collections.declared import read_declaration

# What a collection adds to installed tables of another one.
_MORE = {"nmtlc": nmtlc.published}

COLLECTIONS: dict[str, Collection] = {
    path.stem: read_declaration(path, _MORE.get(path.stem))
    for path in sorted(Path(__file__).parent.glob("*.toml"))
}
"""The collections by name, in the order in which they are listed."""


def collection_of(table: str) -> Collection | None:
    """The published collection that has a table of this name, or None."""
    return next((c for c in COLLECTIONS.values() if table in c.tables), None)
