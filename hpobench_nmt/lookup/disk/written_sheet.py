"""The datasheet of a table, as sections and keys for `datasheet.toml`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.disk.csv_writing import plain
from hpobench_nmt.lookup.disk.curve_files import curves_section
from hpobench_nmt.lookup.disk.datasheet import FORMATS, label_written, values_in
from hpobench_nmt.lookup.disk.file_names import CURVES, REPLICATE_CURVES, REPLICATES, ROWS
from hpobench_nmt.lookup.disk.section_hashes import section_hashes
from hpobench_nmt.lookup.table import Table

# A list of more numbers than this is left out if they are exactly the numbers in the hyperparameter's column.
_MOST_WRITTEN = 100


def written_sheet(table: Table, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The datasheet of a table with these files, given as contents by name."""
    features = table.descriptors.axes if table.descriptors else ()
    pairs = zip(table.hyperparameters, table.configs.T, strict=True)
    sheet: dict[str, Any] = {
        "format": _format_for(table),
        "name": table.name,
        "objectives": list(table.objectives),
        "rows": _file(files[ROWS], len(table)),
        "hyperparameters": {h.name: _axis_section(h, column) for h, column in pairs},
        "features": {h.name: _axis_section(h) for h in features},
        "metrics": {m.name: _metric_section(m) for m in table.metrics},
        "provenance": dict(table.provenance),
        "claims": dict(table.claims),
    }
    optional = ("features", "provenance", "claims")
    sheet = {key: value for key, value in sheet.items() if value or key not in optional}
    if table.replicates is not None:
        again = table.replicates.rows
        averaged = {"averaged": True} if table.replicates.averaged else {}
        sheet["replicates"] = _file(files[REPLICATES], len(again.values)) | averaged
        if again.curves is not None:
            sheet["replicate_curves"] = _file(files[REPLICATE_CURVES], len(again.curves.costs))
    if table.curves is not None and CURVES in files:
        section = curves_section(table.curves, table.metrics)
        sheet["curves"] = _file(files[CURVES], len(table.curves.costs)) | section
    return {**sheet, "claims": {**table.claims, **section_hashes(sheet)}}


def _file(content: bytes, count: int) -> dict[str, Any]:
    return {"count": count, "sha256": hashlib.sha256(content).hexdigest()}


def _metric_section(m: Metric) -> dict[str, Any]:
    keys = ("direction", "unit", "missing", "tolerance", "description")
    return {key: value for key in keys if (value := getattr(m, key)) not in ("", None)}


def _format_for(table: Table) -> int:
    axes = table.hyperparameters
    if table.replicates is not None and table.replicates.rows.curves is not None:
        return FORMATS[4]
    if table.descriptors:
        return FORMATS[3]
    labels = [value for h in axes if not h.is_numeric for value in h.values]
    if any(value is None or isinstance(value, tuple) for value in labels):
        return FORMATS[2]
    of_numbers = all(h.is_numeric and h.integer is None and not h.active_if for h in axes)
    return FORMATS[0] if of_numbers and table.curves is None else FORMATS[1]


def _axis_section(h: Hyperparameter, column: NDArray[Any] | None = None) -> dict[str, Any]:
    if h.is_numeric:
        many = column is not None and len(h.values) > _MOST_WRITTEN
        if column is not None and many and values_in(h.name, h.kind, column) == list(h.numbers):
            entry: dict[str, Any] = {"kind": h.kind, "scale": h.scale}  # values drawn at random, not a grid
        else:
            entry = {"values": list(map(plain, h.numbers)), "scale": h.scale}
    else:
        entry = {"kind": h.kind, "values": list(map(label_written, h.values))}
    more = {
        "unit": h.unit or None,
        "integer": h.integer,
        "active_if": {parent: list(map(label_written, values)) for parent, values in h.active_if} or None,
        "default": None if h.default is None else label_written(h.default),
    }
    return entry | {key: value for key, value in more.items() if value is not None}
