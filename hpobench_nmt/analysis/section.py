"""One analysis of a table, or of several together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes long to import
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Section:
    """One analysis: sentences, frames, and the value that figures are drawn from.

    Attributes:
        table: what it is about; "" for several tables together.
        kind: of analysis: "correlation", "importance", "front", "sensitivity", "noise" or "curves".
        title: for people.
        stem: the start of the names of its files.
        notes: what was found, in sentences.
        shown: the frame that a reader wants to see; None for none.
        files: all frames, by the stem of a file name.
        analysis: what was computed, of a type of the kind's own; None where there is a problem.
        unit: of the metric.
        problem: why there is nothing of the above; "" where there is.
    """

    table: str
    kind: str
    title: str
    stem: str = ""
    notes: tuple[str, ...] = ()
    shown: pd.DataFrame | None = None
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    analysis: Any = None
    unit: str = ""
    problem: str = ""
