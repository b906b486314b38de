"""One analysis of a table, or of several tables together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # slow to import
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Section:
    """One analysis: sentences, frames, and the value from which figures are drawn.

    Attributes:
        table: the table that it is about; "" for several tables together.
        kind: "correlation", "importance", "front", "sensitivity", "noise" or "curves".
        title: a title for people.
        stem: the start of the names of its files.
        notes: the findings, in sentences.
        shown: the frame that readers want to see; None if there is no such frame.
        exact: the columns of `shown` whose numbers are printed with all digits, such as hyperparameters.
        files: all frames, by the stem of a file name.
        analysis: the result, whose type depends on the kind; None if there is a problem.
        unit: the unit of the metric.
        problem: why the analysis is not possible; "" if it is possible.
    """

    table: str
    kind: str
    title: str
    stem: str = ""
    notes: tuple[str, ...] = ()
    shown: pd.DataFrame | None = None
    exact: tuple[str, ...] = ()
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    analysis: Any = None
    unit: str = ""
    problem: str = ""


def section_on(
    table: Table, kind: str, about: str, files: Mapping[str, pd.DataFrame], **content: Any
) -> Section:
    """A section on one table. `about` ends its title, and `files` are named by the ends of their stems."""
    stem = f"{table.name}-{kind}"
    named = {f"{stem}{end}": frame for end, frame in files.items()}
    return Section(table.name, kind, f"{table.name}: {about}", stem, files=named, **content)
