"""Datasheets: the keys of `datasheet.toml`, and how it is read.

format            1; or 2 if a hyperparameter has labels, may be inactive or states `integer`, or rows have
                  curves; or 3 if a label is {none = true}, which means Python's None, or a list, which means
                  a tuple; or 4 if there are features; or 5 if replicates have curves
name              name of the table; by default, the name of the CSV file
objectives        metrics to optimise by default; if left out, the first metric
[rows]            count and sha256 of table.csv; `tables add` writes them
[replicates]      count and sha256 of replicates.csv; averaged (true: rows are means of its trainings); seed
                  (for `tables add`: the column of the seeds in a CSV file with one training on each line)
[curves]          the columns of curves.csv; see curve_files.py
[replicate_curves]  count and sha256 of replicate_curves.csv, the learning curves of the trainings in
                  replicates.csv, with the columns of curves.csv; its rows are the lines of replicates.csv
[hyperparameters.NAME]  values (the grid), scale ("linear" or "log"), unit, kind ("numeric", "ordinal" or
                  "categorical"), integer (true: whole numbers only), active_if (where it is active, such as
                  {optimizer = ["adam"]}; elsewhere its cells are empty), default (the value that surrogates
                  use where it is inactive)
[features.NAME]   a column that surrogates use, but that is not a hyperparameter, such as an architecture's
                  size: values, scale, unit, kind
[metrics.NAME]    direction ("min" or "max"), unit, missing (a number or a word, in all files of the table),
                  tolerance, description
[provenance]      free texts: source, licence, how values were measured
ignore            columns of a CSV file that `tables add` leaves out
[only]            COLUMN = [values]: `tables add` keeps only the rows of a CSV file with these values
split_by          columns of a CSV file: `tables add` makes a table for each combination of their values, and
                  a group of these tables
[claims]          statements of the source, which `tables check` verifies: rows, checkpoints (of the curves),
                  trainings (rows and replicates), configurations (planned trainings), failed (trainings that
                  failed), complete (true: all were trained), front (row numbers) and front_objectives;
                  baseline (name, metric, value and how: a simpler model that rows should beat); for a
                  collection: collection (its name), collection_rows and collection_tables (total numbers);
                  sections_sha256 (a hash of objectives and columns without their texts, which is checked on
                  reading; remove it if you change these by hand) and features_sha256 (the same of features)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.hyperparameter import SAME
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Kind, Scale, Value
from hpobench_nmt.core.system.errors import InputError, prefixed
from hpobench_nmt.core.system.files import check_label, check_name, read_toml
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.core.system.validation import Finite, Natural, NonNegative, Positive, Strict, Whole, checked
from hpobench_nmt.lookup.baselines import Baseline, baseline_of
from hpobench_nmt.lookup.disk.csv_writing import plain
from hpobench_nmt.lookup.disk.curve_files import CurvesSection, FileSection
from hpobench_nmt.lookup.disk.file_names import BESIDE
from hpobench_nmt.lookup.disk.rows import Wanted, numbers_of
from hpobench_nmt.lookup.disk.section_hashes import HASHES, section_hashes
from hpobench_nmt.lookup.table import Table

FORMATS = (1, 2, 3, 4, 5)
"""The formats that this version reads. It writes the lowest format that can hold the table."""


class ReplicatesSection(FileSection, frozen=True):
    """Trainings with other seeds: what replicates.csv holds, or the column of seeds in the file of rows."""

    averaged: bool = False
    seed: str | None = None


_Label = bool | Whole | Finite | str | list[Any] | dict[str, bool]
_NONE = {"none": True}


class AxisSection(Strict, frozen=True):
    """A hyperparameter or a feature. Without `values`, the values are those in its column."""

    values: list[_Label] | None = None
    scale: Scale = "linear"
    unit: str = ""
    kind: Kind | None = None
    integer: bool | None = None
    active_if: dict[str, list[_Label]] = msgspec.field(default_factory=dict)
    default: _Label | None = None

    @property
    def holds(self) -> Kind | None:
        """The kind as declared, or as the values show it; None if it depends on the cells of the column."""
        if self.kind is not None or self.values is None:
            return self.kind
        labels = any(isinstance(v, str | bool | list | dict) for v in self.values)
        return "categorical" if labels else "numeric"


class MetricSection(Strict, frozen=True):
    """A metric; see core.objectives.Metric for the meaning of the keys."""

    direction: Literal["min", "max"]
    unit: str = ""
    missing: float | str | None = None
    tolerance: NonNegative | None = None
    description: str = ""


class Claims(msgspec.Struct, frozen=True):
    """The claims that `tables check` verifies. A datasheet may have other claims as well."""

    collection: str | None = None
    collection_rows: Positive | None = None
    collection_tables: Positive | None = None
    rows: Natural | None = None
    checkpoints: Natural | None = None
    trainings: Natural | None = None
    configurations: Natural | None = None
    failed: Natural | None = None
    complete: bool | None = None
    front: list[Natural] | None = None
    front_objectives: list[str] | None = None
    baseline: Baseline | None = None


class Datasheet(Strict, frozen=True):
    """A whole datasheet."""

    hyperparameters: dict[str, AxisSection]
    metrics: dict[str, MetricSection]
    format: Whole = FORMATS[0]
    name: str | None = None
    objectives: list[str] | None = None
    rows: FileSection = FileSection()
    replicates: ReplicatesSection | None = None
    curves: CurvesSection | None = None
    replicate_curves: FileSection | None = None
    features: dict[str, AxisSection] = msgspec.field(default_factory=dict)
    ignore: list[str] = msgspec.field(default_factory=list)
    only: dict[str, list[str | float]] = msgspec.field(default_factory=dict)
    split_by: list[str] = msgspec.field(default_factory=list)
    provenance: dict[str, Any] = msgspec.field(default_factory=dict)
    claims: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def goals(self) -> list[str]:
        """The metrics to optimise by default."""
        return [next(iter(self.metrics))] if self.objectives is None else self.objectives

    def table_name(self, rows: Path) -> str:
        """The name of the table: its own, or that of its file of rows."""
        return self.name or rows.stem

    def sha256(self, section: str) -> str | None:
        """The hash of the file that a section describes, if it is stated."""
        entry: FileSection | None = getattr(self, section)
        return None if entry is None else entry.sha256

    @property
    def seed(self) -> str | None:
        """The column of seeds in the file of rows, whose lines are trainings then."""
        return None if self.replicates is None else self.replicates.seed

    @property
    def averaged(self) -> bool:
        """Whether the rows are means of the replicates."""
        return self.replicates is not None and (self.seed is not None or self.replicates.averaged)

    @property
    def beside(self) -> list[str]:
        """The sections that describe a file beside that of the rows."""
        found = [name for name in BESIDE if getattr(self, name) is not None]
        if self.seed is not None and self.sha256("replicates") is None:
            found.remove("replicates")  # they are lines of the file of rows
        return found

    @property
    def missing_words(self) -> dict[str, str]:
        """The word that marks a missing value, by metric."""
        return {name: m.missing for name, m in self.metrics.items() if isinstance(m.missing, str)}

    @property
    def of_rows(self) -> list[str]:
        """The columns that are used only to select rows."""
        return [name for name in self.only if name not in self.columns]

    @property
    def columns(self) -> list[str]:
        """The columns of the rows, except the column of seeds."""
        return [*self.split_by, *self.hyperparameters, *self.features, *self.metrics]

    def wanted(self, ignore_other: bool) -> Wanted:
        """What is wanted of the file of rows. Columns without a declared kind hold what their cells show."""
        kinds = dict.fromkeys((*self.split_by, *self.of_rows))
        kinds |= {name: entry.holds for name, entry in (self.hyperparameters | self.features).items()}
        return Wanted(
            [*self.columns, *([] if self.seed is None else [self.seed]), *self.of_rows],
            [name for name, kind in kinds.items() if kind not in (None, "numeric")],
            [name for name, kind in kinds.items() if kind is None],
            None if ignore_other else self.ignore,
            self.missing_words,
        )

    def axis(self, name: str, column: NDArray[Any]) -> Hyperparameter:
        """The hyperparameter or feature of this name. Values that are left out are taken from its column."""
        entry = self.hyperparameters.get(name) or self.features[name]
        kind = entry.holds or ("categorical" if column.dtype == object else "numeric")
        return Hyperparameter(
            name,
            tuple(values_in(name, kind, column) if entry.values is None else list(map(_read, entry.values))),
            entry.scale,
            entry.unit,
            kind,
            entry.integer,
            tuple((parent, tuple(map(_read, values))) for parent, values in entry.active_if.items()),
            _read(entry.default),
        )

    def metric(self, name: str) -> Metric:
        """The metric of this name."""
        entry = self.metrics[name]
        (number,), word = numbers_of([entry.missing])  # "-1" in quotes is a number
        # The cells that a word marks are already read as NaN.
        missing = None if word or not math.isfinite(number) else float(number)
        return Metric(name, entry.direction, entry.unit, missing, entry.tolerance, entry.description)


def read_datasheet(path: Path, follow_link: bool = False) -> Datasheet:
    """Read a datasheet and check all that can be checked without the rows; InputError if it is invalid."""
    content = read_toml(path, follow_link)
    written = content.get("format", FORMATS[0])
    if written not in FORMATS or isinstance(written, bool):
        known = f"{', '.join(map(str, FORMATS[:-1]))} and {FORMATS[-1]}"
        raise InputError(f"{path}: format {written!r} is not supported; this version reads {known}.")
    sheet = checked(content, Datasheet, str(path))
    claimed = {key: sheet.claims.pop(key) for key in HASHES if key in sheet.claims}
    if sheet.rows.sha256 is not None:
        # A datasheet without a hash of its rows was made by hand from another one: its claim may be outdated.
        _check_sections(content, claimed, path)
    for wrong in _contradictions(sheet):
        raise InputError(f"{path}: {wrong}")
    claims = checked(sheet.claims, Claims, f"{path}, [claims]")
    with prefixed(path):
        if sheet.name is not None:
            check_name("table", sheet.name)
        if claims.collection is not None:
            check_name("collection", claims.collection)
        texts = {check_label("the name", name): _text(name, each) for name, each in sheet.provenance.items()}
    return msgspec.structs.replace(sheet, provenance=texts)


def _text(name: str, value: object) -> str:
    """A free text, of which numbers and dates become texts."""
    if not isinstance(value, str | bool | int | float | date | datetime | time):
        raise InputError(f"provenance.{name} must be a text.")
    try:
        return str(value)
    except ValueError:  # Python does not turn whole numbers of more than 4,300 digits into text
        raise InputError("provenance holds a number that is too long. Put it in quotes.") from None


def _contradictions(sheet: Datasheet) -> Iterator[str]:
    """What the keys of a datasheet have wrong together, whatever the rows are."""
    for key in ("hyperparameters", "metrics"):
        if not getattr(sheet, key):
            yield f"needs a section [{key}.NAME]."
    for name in sheet.hyperparameters:
        if name in sheet.metrics:
            yield f"{name!r} is both a hyperparameter and a metric; a column can be only one of them."
    for name, times in Counter((*sheet.columns, *sheet.ignore)).items():
        if times > 1:
            yield f"{name!r} is described twice; a column can have only one role."
    for name, entry in sheet.features.items():
        if entry.active_if or entry.default is not None:
            yield f"[features.{name}] has a value in every row: remove active_if, default."
    if sheet.split_by and (sheet.curves is not None or (sheet.replicates is not None and sheet.seed is None)):
        yield (
            "a file that is split cannot have curves.csv or replicates.csv; trainings with other seeds may "
            "be lines of the file itself: seed = COLUMN in [replicates]."
        )
    if sheet.replicate_curves is not None and (sheet.curves is None or "replicates" not in sheet.beside):
        yield "[replicate_curves] needs [curves], and [replicates] without a column of seeds."
    if sheet.only and sheet.curves is not None:
        yield "[only] leaves out rows, and curves.csv numbers all of them."
    if sheet.seed is not None:
        if sheet.curves is not None:
            yield "a table with [curves] cannot have several trainings of a configuration."
        for name in (*sheet.hyperparameters, *sheet.metrics):
            if name in (sheet.seed, "replicate", "seed"):
                yield f"{name!r} cannot be a hyperparameter or metric if [replicates] has a column of seeds."


def _check_sections(content: Mapping[str, Any], claimed: Mapping[str, Any], path: Path) -> None:
    found = section_hashes(content)
    for key, sha256 in claimed.items():
        if sha256 != found.get(key):
            raise InputError(
                f"{path}: was changed, because claims.{key} does not match. Get the table again, or, if it "
                f"was changed on purpose, remove that line."
            )


def label_written(value: Value) -> Any:
    """A value in the form in which TOML holds it, such as 2 for 2.0."""
    if value is None:
        return dict(_NONE)
    if isinstance(value, tuple):
        return list(map(label_written, value))
    return value if isinstance(value, str | bool) else plain(value)


def _read(value: Any) -> Value:
    """A value from its form in TOML: the inverse of `label_written`."""
    if isinstance(value, list):
        return tuple(map(_read, value))
    if isinstance(value, dict):
        if value != _NONE:
            shown = brief(value, 60)
            raise InputError(f"a label is {shown}; of tables only {{none = true}} is one, for None.")
        return None
    found: Value = value
    return found


def values_in(name: str, kind: Kind, column: NDArray[Any]) -> list[Value]:
    """The values that occur in a column."""
    if kind == "ordinal":
        raise InputError(f"hyperparameter {name!r} is ordinal, so it needs values, in their order.")
    if column.dtype != object:
        values = np.unique(column[~np.isnan(column)])
        # 0.3 and 0.1 + 0.2 are one value. Whole numbers that are equally near are two values.
        again = np.isclose(values[1:], values[:-1], rtol=SAME, atol=0.0)
        again &= (values[1:] % 1 != 0) | (values[:-1] % 1 != 0)
        return list(np.delete(values, 1 + np.flatnonzero(again)).tolist())
    texts = {text for text in column if text}
    if {text.lower() for text in texts} <= {"true", "false"}:
        return [value for value in (False, True) if str(value).lower() in {text.lower() for text in texts}]
    return sorted(texts)


def check_claims(claims: Mapping[str, Any], table: Table, path: Path) -> None:
    """Raise InputError if a claim names a row or a metric that the table does not have."""
    for row in claims.get("front", []):
        if row >= len(table):
            raise InputError(f"{path}: claims.front names row {row}; the last one is {len(table) - 1}.")
    for objective in claims.get("front_objectives", []):
        table.objective(objective)
    if baseline := baseline_of(claims):
        table.objective(baseline.metric)
