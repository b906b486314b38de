"""The type of a published collection of tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits


class Fetch(Protocol):
    """Installs a collection's tables."""

    def __call__(
        self, target: Path, source: Path | None = None, address: str = "", limits: Limits = DEFAULT_LIMITS
    ) -> list[Path]:
        """Install all tables as folders under target, or none, and return these folders.

        Args:
            target: folder of table folders.
            source: take the authors' files from this folder instead of the network.
            address: where the files are; if empty, the authors' own.
            limits: of each download.
        """


@dataclass(frozen=True)
class Collection:
    """Tables that were published together, and how to get them.

    Attributes:
        name: of the collection; its tables' datasheets name it in their claims.
        title: what it is, in one line.
        tables: their names.
        licence: under which the authors' files are.
        address: where these files are.
        files: what a copy of them is called, for `tables fetch --from`.
        fetch: installs the tables.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    licence: str
    address: str
    files: str
    fetch: Fetch
