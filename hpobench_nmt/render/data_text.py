"""Frames and scores as CSV and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.leaderboard import score_records
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.space import label
from hpobench_nmt.core.system.text import csv_cell


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV without its index. Missing values are empty cells.

    No cell has a control character, and spreadsheets do not take any cell for a formula.
    """
    safe = frame.rename(columns=lambda name: csv_cell(str(name)))
    for place, (_, column) in enumerate(frame.items()):
        if not pd.api.types.is_numeric_dtype(column):
            safe.isetitem(place, [csv_cell(v) if isinstance(v, str) else v for v in column])
    return str(safe.to_csv(index=False, lineterminator="\n"))


def as_in_tables(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with cells as in the CSV files of tables: true and false, 8 instead of 8.0."""
    shown = frame.copy()
    for place, (_, column) in enumerate(frame.items()):
        if not pd.api.types.is_integer_dtype(column):
            shown.isetitem(place, [*map(_as_in_tables, column)])
    return shown


def _as_in_tables(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return label(bool(value))
    return label(float(value)) if isinstance(value, float) and math.isfinite(value) else value


def scores_csv(results: Results) -> str:
    """One line per table, method and score, with the exact value of random search."""
    records = score_records(results)
    # As objects, because an empty cell would otherwise turn a column of whole numbers into floats.
    return csv_text(pd.DataFrame(records, dtype=object))


def scores_json(results: Results) -> str:
    """The scores as a JSON list. Missing values are null."""
    return json.dumps(score_records(results), indent=1) + "\n"
