"""Datasheets: what `datasheet.toml` may say of a table, read and written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.table import Table

Floats = NDArray[np.float64]

_FORMAT = 1
_KEYS = {"format", "name", "objectives", "rows", "replicates", "hyperparameters", "metrics", "provenance"}
_KEYS |= {"claims"}
ROW_KEYS = {"count", "sha256"}
_HYPERPARAMETER_KEYS = {"values", "scale", "unit"}
_METRIC_KEYS = {"direction", "unit", "missing", "tolerance", "description"}


def check_keys(sheet: Mapping[str, Any], path: Path) -> None:
    """Raise InputError for a key or a format that this version does not know."""
    known(sheet, _KEYS, path, "")
    if sheet.get("format", _FORMAT) != _FORMAT:
        raise InputError(
            f"{path}: format {sheet['format']!r} is not supported; this version reads {_FORMAT}."
        )


def axis_of(name: str, entry: Mapping[str, Any], column: Floats, path: Path) -> Hyperparameter:
    """A hyperparameter from its section; values that are left out are those of the column."""
    where = f"hyperparameters.{name}"
    known(entry, _HYPERPARAMETER_KEYS, path, where)
    values = entry.get("values", sorted(set(column.tolist())))
    if not isinstance(values, list) or not all(_is_number(v) for v in values):
        raise InputError(f"{path}: {where}.values must be a list of numbers.")
    grid = tuple(float(v) for v in values)
    return Hyperparameter(name, grid, entry.get("scale", "linear"), str(entry.get("unit", "")))


def metric_of(name: str, entry: Mapping[str, Any], path: Path) -> Metric:
    """A metric from its section."""
    where = f"metrics.{name}"
    known(entry, _METRIC_KEYS, path, where)
    if "direction" not in entry:
        raise InputError(f"{path}: {where} needs a direction, 'min' or 'max'.")
    for key in ("missing", "tolerance"):
        if key in entry and not _is_number(entry[key]):
            raise InputError(f"{path}: {where}.{key} must be a number, not {entry[key]!r}.")
    for key in ("unit", "description"):
        if not isinstance(entry.get(key, ""), str):
            raise InputError(f"{path}: {where}.{key} must be a string, not {entry[key]!r}.")
    return Metric(name, **entry)


def claims_of(sheet: Mapping[str, Any], n_rows: int, path: Path) -> dict[str, Any]:
    """What the source says of the table, in the form that `tables check` reads."""
    claims = section(sheet, "claims", path, required=False)
    for key in ("collection_rows", "collection_tables"):
        if key in claims and not (type(claims[key]) is int and claims[key] > 0):
            raise InputError(f"{path}: claims.{key} must be a whole number, not {claims[key]!r}.")
    for key in ("configurations", "failed"):
        if key in claims and not (type(claims[key]) is int and claims[key] >= 0):
            raise InputError(f"{path}: claims.{key} must be a whole number, not {claims[key]!r}.")
    if not isinstance(claims.get("complete", True), bool):
        raise InputError(f"{path}: claims.complete must be true or false, not {claims['complete']!r}.")
    front, objectives = claims.get("front", []), claims.get("front_objectives", [])
    if not isinstance(front, list) or not all(isinstance(r, int) and 0 <= r < n_rows for r in front):
        raise InputError(f"{path}: claims.front must be a list of row numbers, 0 to {n_rows - 1}.")
    if not isinstance(objectives, list) or not all(isinstance(o, str) for o in objectives):
        raise InputError(f"{path}: claims.front_objectives must be a list of metric names.")
    return claims


def objectives_of(sheet: Mapping[str, Any], metrics: list[Metric], path: Path) -> tuple[str, ...]:
    """The table's own objectives; the first metric where none are named."""
    objectives = sheet.get("objectives", [metrics[0].name] if metrics else [])
    if not isinstance(objectives, list) or not all(isinstance(o, str) for o in objectives):
        raise InputError(f"{path}: objectives must be a list of metric names.")
    return tuple(objectives)


def section(
    sheet: Mapping[str, Any], key: str, path: Path, keys: Iterable[str] = (), required: bool = True
) -> dict[str, Any]:
    """A section of a datasheet, empty where it is not there and need not be; its keys are checked."""
    section = sheet.get(key, {})
    if not isinstance(section, dict) or (required and not section):
        raise InputError(f"{path}: needs a section [{key}].")
    if keys:
        known(section, keys, path, key)
    return section


def known(section: Any, keys: Iterable[str], path: Path, where: str) -> None:
    """Raise InputError for a key that is not among these, with the nearest that is."""
    if not isinstance(section, dict):
        raise InputError(f"{path}: [{where}] must be a section, not {section!r}.")
    prefix = f"{where}." if where else ""
    for key in section:
        if key not in keys:
            raise unknown("key", prefix + key, [prefix + k for k in keys], f"({path})")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(number: float) -> int | float:
    """Whole numbers as integers, so that files read `1024` and not `1024.0`."""
    return int(number) if number == math.floor(number) and abs(number) < 2**53 else float(number)


def datasheet(table: Table, content: bytes) -> dict[str, Any]:
    """What a datasheet says of a table whose CSV file has this content."""
    sheet: dict[str, Any] = {
        "format": _FORMAT,
        "name": table.name,
        "objectives": list(table.objectives),
        "rows": {"count": len(table), "sha256": hashlib.sha256(content).hexdigest()},
        "hyperparameters": {},
        "metrics": {},
    }
    for h in table.hyperparameters:
        entry: dict[str, Any] = {"values": [plain(v) for v in h.values], "scale": h.scale}
        sheet["hyperparameters"][h.name] = entry | ({"unit": h.unit} if h.unit else {})
    for m in table.metrics:
        entry = {"direction": m.direction}
        for key in ("unit", "missing", "tolerance", "description"):
            value = getattr(m, key)
            if value not in ("", None):
                entry[key] = value
        sheet["metrics"][m.name] = entry
    if table.provenance:
        sheet["provenance"] = dict(table.provenance)
    if table.claims:
        sheet["claims"] = dict(table.claims)
    return sheet
