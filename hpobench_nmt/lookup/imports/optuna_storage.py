"""SQLite storages of all versions of Optuna, read without Optuna.

The file is opened read-only, its views and triggers are not used, and no file is created beside it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.optuna_trials import (
    METRIC_NAMES,
    Distributions,
    Study,
    Trial,
    named_metrics,
    sweep_of_study,
)
from hpobench_nmt.lookup.imports.sweep import Sweep, one_study

MAGIC = b"SQLite format 3\x00"
_LONGEST = 10**7  # the most bytes of a text
_INFINITE = {"INF_POS": float("inf"), "INF_NEG": float("-inf"), "NAN": float("nan")}
_DIRECTIONS: dict[str, Direction | None] = {"MINIMIZE": "min", "MAXIMIZE": "max"}


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that is opened read-only. Errors of SQLite become InputError."""
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise InputError(
            f"{path}: a program has not written all of it yet ({wal.name} lies beside it). End that program, "
            "or copy the database with sqlite3's command .backup."
        )
    # With `immutable`, SQLite takes no lock and creates no file beside the database.
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            yield database
    except sqlite3.Error as error:
        raise InputError(f"{path}: not a database that can be read ({error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: holds a text that is not UTF-8.") from None


def table_columns(database: sqlite3.Connection) -> dict[str, list[str]]:
    """The columns of each table of a database, without views."""
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        name: [column for (column,) in database.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        for name in names
    }


def is_optuna(tables: dict[str, list[str]]) -> bool:
    """Whether these are the tables of an Optuna storage."""
    return "studies" in tables and "trials" in tables and "trial_params" in tables


def read_storage(path: Path, database: sqlite3.Connection, study: str) -> Sweep:
    """The sweep of a study in an SQLite storage. O(cells).

    Raises InputError if it is not a valid storage, or has several studies and none is named.
    """
    tables = table_columns(database)
    ids = dict(database.execute("SELECT study_name, study_id FROM studies ORDER BY study_id").fetchall())
    name = one_study(list(map(str, ids)), study, path)
    found = Study(name, _directions(database, tables, ids[name]))

    def rows(table: str, columns: str, special: str = "", order: str = "rowid") -> Iterator[Any]:
        """Rows of the study in a table, if the storage has the table; NULL for `special` in old versions."""
        if table in tables:
            more = "" if not special else f", {special}" if special in tables[table] else ", NULL"
            yield from database.execute(
                f"SELECT trial_id, {columns}{more} FROM {table} WHERE trial_id IN "
                f"(SELECT trial_id FROM trials WHERE study_id = ?) ORDER BY {order}",
                (ids[name],),
            )

    if "study_system_attributes" in tables:
        wanted = "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND key = ?"
        for (text,) in database.execute(wanted, (ids[name], METRIC_NAMES)):
            found.metric_names = named_metrics({METRIC_NAMES: json.loads(text)})
    trials = _trials(database, tables, ids[name])
    known = Distributions(path)
    # In the order in which they were suggested.
    for trial, param, value, text in rows("trial_params", "param_name, param_value, distribution_json"):
        trials[trial].params[str(param)] = known.value(found, str(param), value, str(text))
    if "objective" in tables.get("trial_values", ()):
        for trial, place, value, kind in rows("trial_values", "objective, value", "value_type"):
            trials[trial].values[int(place)] = _number(value, kind, path)
    steps, kind, order = "trial_intermediate_values", "intermediate_value_type", "trial_id, step"
    for trial, step, value, special in rows(steps, "step, intermediate_value", kind, order):
        trials[trial].steps[float(step)] = _number(value, special, path)
    for trial, key, value in rows("trial_user_attributes", "key, value_json"):
        trials[trial].attributes[str(key)] = _json(value)
    found.trials = list(trials.values())
    return sweep_of_study(found, "an Optuna storage", path)


def _trials(database: sqlite3.Connection, tables: dict[str, list[str]], study: int) -> dict[int, Trial]:
    """The trials of a study by their id. Old versions have no column `number`, and keep the value here."""
    number = "number" if "number" in tables["trials"] else "NULL"
    value = "value" if "value" in tables["trials"] else "NULL"
    trials = {}
    rows = database.execute(
        f"SELECT trial_id, {number}, state, datetime_start, datetime_complete, {value} FROM trials "
        "WHERE study_id = ? ORDER BY trial_id",
        (study,),
    )
    for place, (trial, given, state, start, end, only) in enumerate(rows):
        trials[trial] = Trial(place if given is None else int(given), str(state), start=start, end=end)
        if only is not None:
            trials[trial].values[0] = float(only)
    return trials


def _directions(
    database: sqlite3.Connection, tables: dict[str, list[str]], study: int
) -> list[Direction | None]:
    if "study_directions" in tables and "objective" in tables["study_directions"]:
        rows = database.execute(
            "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective", (study,)
        )
    else:
        rows = database.execute("SELECT direction FROM studies WHERE study_id = ?", (study,))
    return [_DIRECTIONS.get(str(direction)) for (direction,) in rows] or [None]


def _json(text: Any) -> Any:
    """A value parsed as JSON; its text if it is nested or is not JSON."""
    try:
        value = json.loads(str(text))
    except (ValueError, RecursionError):
        return str(text)
    return value if not isinstance(value, list | dict) else str(text)


def _number(value: Any, special: Any, path: Path) -> float:
    if special in _INFINITE:
        return _INFINITE[special]
    try:
        return float("nan") if value is None else float(value)
    except (ValueError, TypeError):
        shown = repr(str(value)[:40])
        raise InputError(f"{path}: a trial has the value {shown}, which is not a number.") from None
