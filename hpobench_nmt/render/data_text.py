"""Frames and scores as CSV and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.leaderboard import score_records
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.space import label
from hpobench_nmt.core.text import csv_cell


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV without its index; what is not known is an empty cell.

    No cell holds a control character, and none is a formula to a spreadsheet.
    """
    safe = frame.rename(columns=lambda name: csv_cell(str(name)))
    for place, (_, column) in enumerate(frame.items()):
        if not pd.api.types.is_numeric_dtype(column):
            safe.isetitem(place, [csv_cell(v) if isinstance(v, str) else v for v in column])
    return str(safe.to_csv(index=False, lineterminator="\n"))


def as_in_tables(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with cells as the CSV files of tables have them: true and false, 8 and not 8.0."""
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
    """One line per table, method and score, with the exact random-search value beside it."""
    records = score_records(results)
    # As objects: a column of whole numbers stays one where a cell is empty.
    return csv_text(pd.DataFrame(records, dtype=object))


def scores_json(results: Results) -> str:
    """The scores as a JSON list; what is not known is null."""
    return json.dumps(score_records(results), indent=1) + "\n"
