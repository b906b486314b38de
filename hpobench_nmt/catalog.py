"""Where tables live, and how one is found by name.

In the order they are searched: the folders in HPOBENCH_NMT_TABLES, tables that the user added, tables
that were fetched, and the tables that ship with the package.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from hpobench_nmt.errors import InputError, unknown
from hpobench_nmt.table import Table
from hpobench_nmt.table_folder import DATASHEET, load_folder, read_toml

_APP = "hpobench-nmt"


def added_folder() -> Path:
    """Where `tables add` puts tables: user data, never cleaned up by the system."""
    home = os.environ.get("HPOBENCH_NMT_HOME")
    return (
        Path(home) / "tables" if home else Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "tables"
    )


def fetched_folder() -> Path:
    """Where `tables fetch` puts tables: a cache, which can be fetched again."""
    home = os.environ.get("HPOBENCH_NMT_HOME")
    return (
        Path(home) / "cache" if home else Path(platformdirs.user_cache_dir(_APP, appauthor=False)) / "tables"
    )


def training_cache() -> Path:
    """Where the runner keeps corpora and models that trainings share: a cache, which can be made again."""
    return fetched_folder().parent / "training"


def shipped_folder() -> Path:
    """The tables that come with the package."""
    return Path(__file__).parent / "tables"


def search_path() -> list[Path]:
    """Folders of table folders, first match wins."""
    extra = os.environ.get("HPOBENCH_NMT_TABLES", "")
    given = [Path(p) for p in extra.split(os.pathsep) if p]
    return [*given, added_folder(), fetched_folder(), shipped_folder()]


def installed() -> dict[str, Path]:
    """Folder of every installed table by name, in alphabetical order. Reads no rows."""
    found: dict[str, Path] = {}
    for root in search_path():
        if root.is_dir():
            for folder in sorted(root.iterdir()):
                if (folder / DATASHEET).is_file() and not folder.name.startswith("."):
                    found.setdefault(folder.name, folder)
    return dict(sorted(found.items()))


def collections() -> dict[str, list[str]]:
    """Names of installed tables by the collection that their datasheets say they belong to."""
    members: dict[str, list[str]] = {}
    for name, folder in installed().items():
        try:
            claims = read_toml(folder / DATASHEET).get("claims", {})
        except InputError:  # whoever asks for this table is told
            continue
        collection = claims.get("collection") if isinstance(claims, dict) else None
        if isinstance(collection, str):
            members.setdefault(collection, []).append(name)
    return members


def load_table(name_or_folder: str | Path) -> Table:
    """Load a table by name, or from a folder given as a path.

    Raises:
        InputError: no such table (with the nearest name), or a folder that fails its checks.
    """
    text = str(name_or_folder)
    if isinstance(name_or_folder, Path) or os.sep in text or (os.altsep and os.altsep in text):
        return load_folder(Path(name_or_folder))
    tables = installed()
    if text not in tables:
        if (Path(text) / DATASHEET).is_file():
            return load_folder(Path(text))
        hint = "'hpobench-nmt tables list' shows what is installed"
        if text in collections():
            raise InputError(f"{text!r} is a collection: take one of {', '.join(collections()[text])}.")
        if text in _fetchable():
            raise InputError(
                f"table {text!r} is not installed. Get it with 'hpobench-nmt tables fetch nmthpo'."
            )
        raise unknown("table", text, tables, f"({hint})")
    table = load_folder(tables[text])
    if table.name != text:
        raise InputError(f"{tables[text]}: the folder is named {text!r}, its datasheet says {table.name!r}.")
    return table


def _fetchable() -> tuple[str, ...]:
    from hpobench_nmt.nmthpo import TABLES

    return (*TABLES, "nmthpo")
