"""Learning curves on disk: `curves.csv` beside `table.csv`, and the section [curves] of the datasheet.

    row,checkpoint,update,cost,dev_ppl
    0,1,2000,2000,35.2
    0,2,4000,4000,21.7
    1,1,2000,2000,30.1

Rows are numbered from 0, as in table.csv, and checkpoints from 1, both in ascending order without gaps. A row
without a curve is left out. The cost is the cost of the training up to the checkpoint, in any unit. If it is
not known, repeat the column of the resource under this name. The section describes the columns. `tables add`
writes its count and sha256:

    [curves]
    count = 3                    # checkpoints
    sha256 = "..."
    resource = "update"          # the column that counts the progress of a training
    resource_unit = "updates"
    cost_unit = "updates"
    truncate_at = "nan"          # for `tables add`: curves end at the first missing metric
    [curves.metrics.dev_ppl]
    own = "best"                 # the row's own is its curve's best; or "last", or left out
    [curves.metrics.sample_bleu]
    direction = "max"            # only for a metric that the table does not have
    unit = "BLEU"
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError, prefixed
from hpobench_nmt.core.system.files import check_distinct
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import Natural, Strict
from hpobench_nmt.core.trainings import owners_of
from hpobench_nmt.lookup.curves import Curves, until_missing
from hpobench_nmt.lookup.disk.csv_writing import csv_of
from hpobench_nmt.lookup.disk.rows import Wanted, parse_columns, values_of

# A file is parsed in parts of this many bytes, to limit the memory that parsing takes.
_PART = 2**23


class FileSection(Strict, frozen=True):
    """A file beside the datasheet: the number of its lines, without the header, and its hash."""

    count: Natural | None = None
    sha256: str | None = None


class CurveMetricSection(Strict, frozen=True):
    """A metric of the curves."""

    own: Literal["best", "last"] | None = None
    direction: Literal["min", "max"] | None = None
    unit: str = ""
    description: str = ""


class CurvesSection(FileSection, frozen=True, kw_only=True):
    """The section [curves], which describes curves.csv."""

    resource: str
    metrics: dict[str, CurveMetricSection]
    resource_unit: str = ""
    cost_unit: str = ""
    truncate_at: Literal["nan"] | None = None


def read_curves(
    content: bytes,
    section: CurvesSection,
    metrics: Sequence[Metric],
    n_rows: int,
    path: Path,
    words: Mapping[str, str] = MappingProxyType({}),
) -> Curves:
    """The curves of a table with n_rows rows and these metrics, from the content of its curves.csv.

    `words` has the word that marks a missing value, by metric of the table. A number that marks one in the
    table also marks one here.

    Raises:
        InputError: a column is missing or unknown, a cell is not a number, rows or checkpoints are not in
            order, or the numbers do not form valid curves.
    """
    with prefixed(path):
        if not section.metrics:
            raise InputError("[curves] needs a section [curves.metrics.NAME].")
        in_table = {metric.name: metric for metric in metrics}
        described = tuple(_metric(name, entry, in_table.get(name)) for name, entry in section.metrics.items())
        names = ["row", "checkpoint", section.resource, "cost", *section.metrics]
        check_distinct(names, str(path))
        _check_cost(content, section.resource)
        lengths = np.zeros(n_rows, dtype=np.int64)
        columns: list[list[Floats]] = [[] for _ in names[2:]]
        before = (0, 0)
        for part, first_line in _parts(content, Wanted(names, words=words), path):
            before = _check_order(part["row"], part["checkpoint"], before, n_rows, first_line)
            lengths += np.bincount(part["row"].astype(np.int64), minlength=n_rows)
            for parts, name in zip(columns, names[2:], strict=True):
                parts.append(part[name])
        whole = [np.concatenate(columns.pop(0)) for _ in names[2:]]  # frees each column's parts in turn
        if section.count is not None and section.count != len(whole[0]):
            held = counted(len(whole[0]), "checkpoint")
            raise InputError(f"has {held}; [curves] count is {section.count}.")
        for place, metric in enumerate(described, 2):
            whole[place] = values_of(in_table.get(metric.name, metric), whole[place])
        starts, values = np.concatenate([[0], np.cumsum(lengths)]), np.column_stack(whole[2:])
        if section.truncate_at == "nan":
            starts, kept = until_missing(starts, values)
            whole, values = [column[kept] for column in whole[:2]], values[kept]
        own = tuple(each.own for each in section.metrics.values())
        units = section.cost_unit, section.resource_unit
        return Curves(section.resource, described, own, starts, whole[0], whole[1], values, *units)


def _check_cost(content: bytes, resource: str) -> None:
    """Refuse a file without a column of costs, which logs of trainings often lack."""
    head = content[: content.find(b"\n") + 1].decode("utf-8-sig", errors="replace")
    try:
        names = next(csv.reader(io.StringIO(head, newline="")), [])
    except csv.Error:  # the first line is not a header; the parser of columns reports it
        return
    if "row" in names and "cost" not in names:
        raise InputError(
            "has no column cost, the cost of the training up to each checkpoint in seconds or "
            f"any other unit. If it is not known, repeat the column {resource} under this name."
        )


def _metric(name: str, entry: CurveMetricSection, own: Metric | None) -> Metric:
    """The metric of the curves; `own` is the table's metric of this name."""
    if own is not None:
        if entry.direction not in (None, own.direction):
            where = f"[curves.metrics.{name}]"
            raise InputError(f"{where}: direction is {entry.direction!r}, the table's is not.")
        return Metric(name, own.direction, entry.unit or own.unit, description=entry.description)
    if entry.own is not None:
        raise InputError(f"[curves.metrics.{name}]: own is {entry.own!r}, but the table has no {name}.")
    if entry.direction is None:
        raise InputError(f"[curves.metrics.{name}]: direction is missing, and the table has no {name}.")
    return Metric(name, entry.direction, entry.unit, description=entry.description)


def _parts(content: bytes, wanted: Wanted, path: Path) -> Iterator[tuple[Mapping[str, Floats], int]]:
    """The columns in parts of whole lines, each with the number of its first line."""
    head = content[: content.find(b"\n") + 1]
    if len(content) <= _PART or len(head) in (0, len(content)):
        yield parse_columns(content, wanted, path), 2
        return
    begin, line = len(head), 2
    while begin < len(content):
        end = content.rfind(b"\n", begin, begin + _PART) + 1 or len(content)
        try:
            part = parse_columns(head + content[begin:end], wanted, path)
        except InputError:
            # This raises the error with the line's number in the whole file.
            parse_columns(content, wanted, path)
            raise
        yield part, line
        line += len(part["row"])
        begin = end


def _check_order(
    rows: Floats, checkpoints: Floats, before: tuple[int, int], n_rows: int, first_line: int
) -> tuple[int, int]:
    """Refuse rows or checkpoints that are out of order; return the last row and checkpoint of this part.

    The part begins at line `first_line` of the file. `before` is the row and checkpoint just before the part;
    at the start of the file, the checkpoint is 0.
    """

    def refuse(wrong: Bools, message: str) -> None:
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            shown = f"line {first_line + at}: row {rows[at]:g}, checkpoint {checkpoints[at]:g}"
            raise InputError(f"{shown}: {message}")

    refuse(~((rows >= 0) & (rows < n_rows) & (rows == np.floor(rows))), f"rows go from 0 to {n_rows - 1}.")
    former_rows = np.concatenate([[before[0]], rows[:-1]])
    former = np.concatenate([[before[1]], checkpoints[:-1]])
    refuse(rows < former_rows, "rows must be in ascending order.")
    expected = np.where((rows == former_rows) & (former > 0), former + 1, 1)
    refuse(checkpoints != expected, "a row's checkpoints must be numbered 1, 2, 3, … without gaps.")
    return (int(rows[-1]), int(checkpoints[-1])) if len(rows) else before


def curves_csv(curves: Curves) -> bytes:
    """The content of curves.csv. Every number is read back as the same double."""
    owners = owners_of(curves.starts)
    columns: dict[str, NDArray[Any]] = {
        "row": owners,
        "checkpoint": np.arange(len(owners)) - curves.starts[owners] + 1,
        curves.resource: curves.resources,
        "cost": curves.costs,
    }
    columns |= {metric.name: values for metric, values in zip(curves.metrics, curves.values.T, strict=True)}
    return csv_of(columns)


def curves_section(curves: Curves, metrics: Sequence[Metric]) -> dict[str, Any]:
    """The datasheet's section on a table's curves, without count and hash; `metrics` are the table's."""
    section: dict[str, Any] = {
        "resource": curves.resource,
        "resource_unit": curves.resource_unit,
        "cost_unit": curves.cost_unit,
        "metrics": {},
    }
    known = {metric.name: metric for metric in metrics}
    for metric, own in zip(curves.metrics, curves.own, strict=True):
        in_table = known.get(metric.name)
        entry = {
            "own": own,
            "direction": None if in_table else metric.direction,
            "unit": "" if in_table and in_table.unit == metric.unit else metric.unit,
            "description": metric.description,
        }
        section["metrics"][metric.name] = {key: value for key, value in entry.items() if value}
    return {key: value for key, value in section.items() if value != ""}
