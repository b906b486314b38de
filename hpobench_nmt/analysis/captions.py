"""Captions of figures. They give means; whether methods differ is left to the tests in `verdicts`."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.run_curves import LOOKUPS, Curves, time_in
from hpobench_nmt.analysis.runtimes import RuntimeDistribution
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.text import VAST, short


def curves_finding(curves: Curves, at: float) -> str:
    """The means after this many look-ups or at a time, best first. Curves that end earlier are named."""
    values: dict[str, float] = {}
    ended: list[str] = []
    not_begun: list[str] = []
    at = min(at, curves.frame.groupby("method")["lookups"].max().max())
    for method, part in curves.frame.groupby("method", sort=False):
        before = part[part["lookups"] <= at]
        if len(before) and part["lookups"].max() >= at and not np.isnan(before["mean"].iloc[-1]):
            values[str(method)] = float(before["mean"].iloc[-1])
        elif method != EXACT and part["lookups"].max() >= at:
            not_begun.append(str(method))
        elif method != EXACT:
            ended.append(f"{method} (at {_amount(part['lookups'].max())})")
    exact = values.pop(EXACT, np.nan)
    what = f"Mean {curves.quantity} after {_amount(at)} {curves.unit}"
    text = _ordered(what, values, exact, curves.lower_is_better, short)
    if not_begun:
        text += f" Without a mean, because some trials have not found a value yet: {', '.join(not_begun)}."
    return text + (f" Curves that end earlier: {', '.join(ended)}." if ended else "")


def distribution_finding(found: RuntimeDistribution, at: float) -> str:
    """Shares of targets met within a number of look-ups, largest first."""
    before = found.frame[found.frame["budget"] <= at * (1 + 1e-9)].groupby("method", sort=False).last()
    values, bounds = before["share"].to_dict(), before.index[~before["exact"].astype(bool)]
    exact = values.pop(EXACT, np.nan)
    budget = f"{_amount(at)} {found.unit}"
    if found.per_row:
        timed = found.unit.startswith("time")
        whole = "the time that all rows take" if timed else "a table's rows looked up"
        budget = f"{at:.0%} of {whole}"
    return _ordered(f"Targets met after {budget}", values, exact, False, lambda v: f"{v:.0%}", bounds)


def expected_finding(frame: pd.DataFrame, unit: str = LOOKUPS) -> str:
    """Expected look-ups, or time, to the hardest target, fewest first."""
    hardest = frame["target"].iloc[-1]
    last = frame[frame["target"] == hardest].set_index("method")["ert"]
    values = last[np.isfinite(last)].to_dict()
    none = list(last.index[~np.isfinite(last)])
    exact = values.pop(EXACT, np.nan)
    text = _ordered(f"Expected {time_in(unit)} to the hardest target ({hardest})", values, exact, True, short)
    return text + (f" In no trial: {', '.join(none)}." if none else "")


def _amount(value: float) -> str:
    """A number of look-ups, or a time."""
    if value >= VAST:
        return short(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _ordered(
    what: str,
    values: Mapping[Any, float],
    exact: float,
    lower: bool,
    text: Callable[[float], str],
    bounds: Container[str] = (),
) -> str:
    """The first and the last values in order. Values of methods in `bounds` are lower bounds."""
    order = sorted(values, key=lambda m: values[m] if lower else -values[m])
    shown = [f"{m} {'≥ ' if m in bounds else ''}{text(values[m])}" for m in order]
    if len(shown) > 4:
        shown = [*shown[:3], "…", shown[-1]]
    reference = "" if np.isnan(exact) else f"; random search, exact: {text(exact)}"
    return f"{what}: {', '.join(shown) or 'no method has one'}{reference}."
