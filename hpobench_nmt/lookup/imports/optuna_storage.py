"""SQLite storages of all versions of Optuna, read without Optuna.

The file is opened read-only, its views and triggers are not used, and no file is created beside it.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.optuna_trials import (
    Study,
    Trial,
    named_metrics,
    set_parameter,
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

    Raises InputError if the storage has several studies and none is named.
    """
    tables = table_columns(database)
    ids = dict(database.execute("SELECT study_name, study_id FROM studies ORDER BY study_id").fetchall())
    name = one_study(list(map(str, ids)), study, path)

    def rows(table: str, *columns: str) -> Iterable[Any]:
        """Rows of the study in a table; NULL for columns that old versions lack."""
        there = tables.get(table, ())
        picked = ", ".join(column if column in there else "NULL" for column in columns)
        trials = "trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?)"
        which = "study_id = ?" if "study_id" in there else trials
        select = f"SELECT {picked} FROM {table} WHERE {which} ORDER BY rowid"
        return database.execute(select, (ids[name],)) if there else ()

    where = "study_directions" if "study_directions" in tables else "studies"
    directions = sorted(rows(where, "objective", "direction"), key=lambda row: row[0] or 0)
    found = Study(name, [_DIRECTIONS.get(str(direction)) for _, direction in directions])
    for key, text in rows("study_system_attributes", "key", "value_json"):
        found.metric_names = named_metrics({key: json.loads(text)}) or found.metric_names
    dates = ("datetime_start", "datetime_complete")
    trials: dict[int, Trial] = {}
    for trial, number, state, only, *times in rows("trials", "trial_id", "number", "state", "value", *dates):
        trials[trial] = Trial(len(trials) if number is None else int(number), str(state))
        trials[trial].start, trials[trial].end = times
        trials[trial].values |= {} if only is None else {0: float(only)}
    # In the order in which they were suggested.
    columns = ("trial_id", "param_name", "param_value", "distribution_json")
    for trial, param, value, text in rows("trial_params", *columns):
        set_parameter(found, trials[trial], str(param), value, str(text))
    for trial, place, value, kind in rows("trial_values", "trial_id", "objective", "value", "value_type"):
        trials[trial].values |= {} if place is None else {int(place): _number(value, kind)}
    columns = ("trial_id", "step", "intermediate_value", "intermediate_value_type")
    for trial, step, value, kind in rows("trial_intermediate_values", *columns):
        trials[trial].steps[float(step)] = _number(value, kind)
    for trial, key, text in rows("trial_user_attributes", "trial_id", "key", "value_json"):
        trials[trial].attributes[str(key)] = json.loads(text)
    found.trials = list(trials.values())
    return sweep_of_study(found, "an Optuna storage", path)


def _number(value: Any, special: Any) -> float:
    return _INFINITE[special] if special in _INFINITE else math.nan if value is None else float(value)
