"""Numbers as text for people."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Stands for "no value".
NONE = "–"


def short(value: float, digits: int = 3) -> str:
    """A number with a few significant digits; a dash where there is none."""
    if np.isnan(value):
        return NONE
    if np.isinf(value):
        return "∞"
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def column_text(values: pd.Series) -> list[str]:
    """A column with five digits and the same number of decimals in every line; a dash where there is none."""
    if not pd.api.types.is_float_dtype(values):
        return [NONE if v is None else str(v) for v in values]
    known = values.dropna().abs()
    brief = [f"{v:.5g}" for v in known if v < 1e5]
    decimals = max((len(text.partition(".")[2]) for text in brief if "e" not in text), default=0)
    # A tiny value among large ones must not drag all of its decimals into every line.
    decimals = min(decimals, 4) if len(known) and known.max() >= 0.01 else decimals
    tiny = any("e" in text for text in brief)
    return [NONE if np.isnan(v) else f"{v:.5g}" if tiny else f"{v:.{decimals}f}" for v in values]
