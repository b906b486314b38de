"""Numbers as text for people, in cells and columns; `short` in core/system/text.py writes a single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.space import label
from hpobench_nmt.core.system.text import NONE, VAST, short

if TYPE_CHECKING:  # slow to import
    import pandas as pd

# Numbers with more decimals than this add no zeros to others.
_MOST_ZEROS = 8


def with_interval(value: float, low: float, high: float) -> str:
    """A number with its interval in brackets, if it has one."""
    return short(value) if np.isnan(low) else f"{short(value)} ({span(low, high)})"


def span(low: float, high: float) -> str:
    """An interval; "" if there is none."""
    return "" if np.isnan(low) else f"{short(low)}–{short(high)}"


def p_text(p: float) -> str:
    """A p-value for a sentence: "p = 0.03"."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3g}"


def p_cell(p: float) -> str:
    """A p-value in a column; a dash for NaN."""
    return NONE if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.2g}"


def listed(names: Sequence[str]) -> str:
    """Names, with commas between them."""
    return ", ".join(names)


def cell_text(value: Any, digits: int | None = None) -> str:
    """A cell: a dash for no value, true and false as in tables, and numbers with this many digits.

    By default, a number has the fewest digits that are read back as the same number.
    """
    import pandas as pd

    if pd.isna(value):
        return NONE
    if isinstance(value, bool | np.bool_):
        return label(bool(value))
    if digits is None and isinstance(value, float | np.floating):
        return str(float(str(value))).removesuffix(".0")  # also of float32, whose own text of 0.0001 is 1e-04
    if digits is None or isinstance(value, str):
        return str(value)
    return f"{value:.{digits}g}"


def column_text(values: pd.Series, exact: bool = False) -> list[str]:
    """A column with the same number of decimals in every line; a dash for NaN.

    Numbers have at most five digits. With `exact`, as hyperparameters need it, they have all of their digits.
    """
    import pandas as pd

    if not pd.api.types.is_float_dtype(values):
        return [cell_text(v) for v in values]
    if exact:
        return _aligned([cell_text(v) for v in values.array])  # the Series would widen float32
    known = values.dropna().abs()
    brief = [f"{v:.5g}" for v in known if v < 1e5]
    decimals = max((len(text.partition(".")[2]) for text in brief if "e" not in text), default=0)
    # A tiny value among large ones must not force all of its decimals on every line.
    decimals = min(decimals, 4) if len(known) and known.max() >= 0.01 else decimals
    brief_only = any("e" in text for text in brief) or (known >= VAST).any()
    return [NONE if np.isnan(v) else f"{v:.5g}" if brief_only else f"{v:.{decimals}f}" for v in values]


def _aligned(texts: list[str]) -> list[str]:
    """Numbers with zeros at their ends, so that all have the same decimals, if none is very long."""
    parts = [text.partition(".") for text in texts]
    decimals = max((len(fraction) for _, _, fraction in parts), default=0)
    if not 0 < decimals <= _MOST_ZEROS or any("e" in text for text in texts):
        return texts
    return [
        f"{whole}.{fraction.ljust(decimals, '0')}" if whole.lstrip("-").isdigit() else whole
        for whole, _, fraction in parts
    ]
