"""Tables in a suite's file that are written with their settings, one table per line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpobench_nmt.core.errors import InputError, shortened, unknown

OF_A_TABLE = ("tolerance", "score_at", "time", "source_of", "pinned")
"""The settings that may be written with a table."""
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
