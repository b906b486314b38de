"""Where tables are stored, and how a table is found by name.

The search goes through the folders in HPOBENCH_NMT_TABLES, the tables that the user added, the tables that
were fetched, and the tables that ship with the package, in this order.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.core.system.errors import InputError, Notify, check_known, not_written, unknown, warn
from hpobench_nmt.core.system.files import no_folder, read_toml
from hpobench_nmt.core.system.folders import remove_leftovers
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.lookup.collections import COLLECTIONS, collection_of
from hpobench_nmt.lookup.disk.folder import DATASHEET, ROWS, checked_datasheet, load_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.lookup.user_folders import added_folder, fetched_folder

if TYPE_CHECKING:
    import pandas as pd


SHIPPED = "shipped"
"""The group of the tables that come with the package."""


def shipped_folder() -> Path:
    """The tables that come with the package."""
    return Path(__file__).parents[1] / "tables"


def search_path() -> list[Path]:
    """The folders that contain table folders. The first match wins."""
    given = [Path(p) for p in os.environ.get("HPOBENCH_NMT_TABLES", "").split(os.pathsep) if p]
    return [*given, added_folder(), fetched_folder(), shipped_folder()]


def installed() -> dict[str, Path]:
    """Folder of every installed table by name, in alphabetical order. Reads no rows."""
    return _tables_in(search_path())


def own_tables() -> dict[str, Path]:
    """The same for added or fetched tables, even if another table of the same name hides them."""
    return _tables_in([added_folder(), fetched_folder()])


def _tables_in(roots: list[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots:
        if root.is_dir():
            remove_leftovers(root)  # this may restore a table that a killed process was replacing
            for folder in sorted(root.iterdir()):
                if (folder / DATASHEET).is_file() and not folder.name.startswith("."):
                    found.setdefault(folder.name, folder)
    return dict(sorted(found.items()))


def collections() -> dict[str, list[str]]:
    """Names of installed tables by collection, as their datasheets claim it."""
    members: dict[str, list[str]] = {}
    for name, folder in installed().items():
        try:
            state = (folder / DATASHEET).stat()
            about = (state.st_ino, state.st_mtime_ns, state.st_size)
            collection = _claimed_collection(folder / DATASHEET, about)
        except (OSError, InputError):  # loading this table reports it
            continue
        if collection is not None:
            members.setdefault(collection, []).append(name)
    return members


@lru_cache(maxsize=1024)  # parsing all datasheets is most of the work of finding a table
def _claimed_collection(sheet: Path, about: tuple[int, ...]) -> str | None:
    """The collection that a datasheet names, or None. `about` is a cache key that changes with the file."""
    claims = read_toml(sheet).get("claims", {})
    collection = claims.get("collection") if isinstance(claims, dict) else None
    return collection if isinstance(collection, str) else None


def groups() -> dict[str, list[str]]:
    """Names of installed tables by group: one group for each collection, and one for the shipped tables."""
    shipped = [name for name, folder in installed().items() if folder.parent == shipped_folder()]
    own = {SHIPPED: shipped} if shipped and SHIPPED not in installed() else {}
    return {**own, **collections()}


def family_of(table: Table) -> str:
    """The group with which a table's results are aggregated; the table's own name if it has no group."""
    collection = table.claims.get("collection")
    if isinstance(collection, str):
        return collection
    return SHIPPED if (shipped_folder() / table.name / DATASHEET).is_file() else table.name


def members(name: str) -> list[str]:
    """The tables of a group, or only the given name if it is a table's, or not a group's.

    Raises InputError if tables of the group are missing and some datasheet cannot be read, because that
    datasheet may belong to a missing table.
    """
    found = groups().get(name)
    if found is None or name in installed():
        return [name]
    if name not in collections():
        return found
    claimed = read_toml(installed()[found[0]] / DATASHEET)["claims"].get("collection_tables")
    if isinstance(claimed, int) and len(found) < claimed:
        for folder in installed().values():
            read_toml(folder / DATASHEET)
    return found


def left_from_before(added: Sequence[tuple[Table, Path]]) -> list[str]:
    """Tables beside the added ones that belong to their group, but that the file does not make.

    An earlier version of the file may have made them. They are part of the group until the user removes them.
    """
    claims = added[0][0].claims
    if claims.get("collection_tables") != len(added):  # one table of a group, and not a file that was split
        return []
    names, target = {folder.name for _, folder in added}, added[0][1].parent
    folders = installed()
    several = collections().get(str(claims["collection"]), [])
    return [name for name in several if name not in names and folders[name].parent == target]


def list_tables(notify: Notify = warn) -> pd.DataFrame:
    """A data frame of the installed tables: table, rows, hyperparameters, objectives, folder, group.

    For a table without a group, the column `group` has the table's name. Tables that cannot be used are left
    out, and `notify` is called with each reason. By default, the reasons are warnings.
    """
    import pandas as pd

    return pd.DataFrame(table_rows(notify), columns=COLUMNS)


COLUMNS = ("table", "rows", "hyperparameters", "objectives", "folder", "group")


def table_rows(notify: Notify = warn) -> list[tuple[str, int, int, str, str, str]]:
    """The lines of `list_tables`."""
    rows = []
    for name, folder in installed().items():
        try:
            sheet, count = checked_datasheet(folder)
            _check_name(folder, name, sheet.table_name(folder / ROWS))
        except InputError as error:
            notify(f"Cannot be used: {printable(str(error))}")
            continue
        group = sheet.claims.get("collection") or (SHIPPED if folder.parent == shipped_folder() else name)
        rows.append((name, count, len(sheet.hyperparameters), ", ".join(sheet.goals), str(folder), group))
    return rows


def fetch(collection: str, source: str | Path | None = None, mirror: str = "") -> list[str]:
    """Download a published collection of tables, install it, and return the tables' names.

    The hash of each file is compared with the hash in this package, wherever the file comes from.

    Args:
        collection: name of the collection, such as "nmthpo".
        source: folder to take the authors' files from, instead of the network.
        mirror: base address of a copy of the files, instead of the authors' own.

    Raises:
        InputError: the collection does not exist, or `source` lacks a file or has a different file of that
            name.
        RunError: a file cannot be downloaded, or the tables cannot be written.
    """
    check_known("collection", [collection], COLLECTIONS)
    found = COLLECTIONS[collection]
    folder = None if source is None else Path(source)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: {no_folder(folder)}. Give {found.files}.")
    try:
        return [path.name for path in found.fetch(fetched_folder(), folder, mirror)]
    except OSError as error:
        raise not_written(error.filename or fetched_folder(), error) from error


def load_table(name_or_folder: str | Path) -> Table:
    """Load a table by name, or from a folder given as a path.

    Raises InputError if the table does not exist (the message suggests the nearest name), or if its folder
    fails the checks.
    """
    folder = find_folder(name_or_folder)
    table = load_folder(folder)
    text = str(name_or_folder)
    if installed().get(text) == folder:
        _check_name(folder, text, table.name)
    return table


def _check_name(folder: Path, name: str, stated: str) -> None:
    if stated != name:
        raise InputError(f"{folder}: the folder is named {name!r}, its datasheet says {stated!r}.")


def find_folder(name_or_folder: str | Path) -> Path:
    """The folder of a table, given by name or as a path. A folder given as a path need not exist.

    Raises InputError if no table has this name; the message suggests the nearest name.
    """
    text = str(name_or_folder)
    if isinstance(name_or_folder, Path) or os.sep in text or (os.altsep and os.altsep in text):
        if text.lower().endswith(".csv") and Path(text).is_file():
            raise _no_table(text)
        return Path(name_or_folder)
    tables = installed()
    if text in tables:
        return tables[text]
    if (Path(text) / DATASHEET).is_file():
        return Path(text)
    if text in groups():
        raise InputError(f"{text!r} is a group: take one of {', '.join(groups()[text])}.")
    published = COLLECTIONS.get(text) or collection_of(text)
    if published:
        advice = f"Get it with 'hpobench-nmt tables fetch {published.name}'."
        raise InputError(f"table {text!r} is not installed. {advice}")
    if text.lower().endswith(".csv"):
        raise _no_table(text)
    raise unknown("table", text, tables, "('hpobench-nmt tables list' shows what is installed)")


def _no_table(csv: str) -> InputError:
    """The error if a CSV file is given instead of a table."""
    return InputError(
        f"{csv} is a CSV file, not a table. hb.import_table(file, metrics=…) or 'hpobench-nmt tables "
        f"import' makes a table from it; hb.pareto(file, objectives) or 'hpobench-nmt pareto' computes its "
        f"front."
    )


def remove_tables(name: str) -> list[Path]:
    """Delete an added or fetched table, or all tables of a group, and return their folders.

    Raises InputError for other names, and if a table of the group was neither added nor fetched.
    """
    several = members(name)
    absent = [member for member in several if member not in own_tables()]
    if several != [name] and absent:
        told = f"its table {absent[0]!r} was neither added nor fetched"
        raise InputError(f"{name!r}: {told}. Nothing is removed.")
    return [_removed(member) for member in several]


def _removed(name: str) -> Path:
    tables = own_tables()
    if name not in tables:
        if name in installed():
            told = f"{installed()[name]} was not changed"
            raise InputError(f"table {name!r} was neither added nor fetched: {told}.")
        raise unknown("table", name, installed())
    folder = tables[name]
    if folder.is_symlink():
        folder.unlink()
    else:
        (folder / DATASHEET).unlink()  # first, so that the remains of an interrupted removal are not a table
        shutil.rmtree(folder)
    return folder
