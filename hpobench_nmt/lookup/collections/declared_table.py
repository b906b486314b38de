"""A table from lines, one for each training or checkpoint, by the settings of a declaration.

[tables.NAME] in NAME.toml (see declared.py) has the keys of a datasheet (lookup/disk/datasheet.py), and these
settings, which apply in this order:

file, beside      the table's file, or a list of files whose lines follow one another, and files whose lines
                  have more columns of the same trainings
products          COLUMN = [columns]: a new column, the product of others
joined            COLUMN = [columns]: a new column, the texts of others with / between them
sorted            the columns by which lines are sorted
renamed           new names of columns, also of those of checkpoints
prefixes          the role of columns by the prefix of their heading: "hyperparameter", "metric", "dropped"
                  (no role) or "other" (no role, and the prefix is part of the name). The rest of the heading
                  is the name. A metric is maximised if its heading ends with +, and else minimised. Columns
                  with one value are left out. The datasheet adds to what is found
failed            COLUMN = [values]: trainings whose results are missing, whatever the objectives' columns say
extracted         COLUMN = regular expression: its named groups become columns
checkpoints       the file of learning curves, with a line for each checkpoint; `training`, the column that
                  identifies the training there and in `file`; and `cost`, the column of the cost. Lines
                  without a cost are left out. Where the resource of the section [curves] does not rise,
                  another training of the same name begins. Without a file, the lines of the table itself are
                  checkpoints, and the last checkpoint of a training is its line
active_by         a column: a hyperparameter without a value in some lines is active where this column has one
                  of the values of the other lines
seed              the column of the seeds of replicates
front             the column that marks the rows of the published Pareto front
sha256            hash of all that is installed: the files of rows, curves, replicates and their curves

A line is a training. It is left out if a hyperparameter that is always active has no value. If a
configuration was trained several times, the first training that did not fail is the row, and the others are
replicates. A metric that the lines lack comes from the checkpoints: it is the best or last value of a curve,
as [curves] says, else the value where the first objective is best, and of other columns the last value. A
training without checkpoints is left out then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from hpobench_nmt.core.system.errors import InputError, foreign, unknown
from hpobench_nmt.core.system.validation import Strict, checked
from hpobench_nmt.lookup.collections.collection import Collection
from hpobench_nmt.lookup.disk.csv_writing import csv_of
from hpobench_nmt.lookup.disk.datasheet import AxisSection, Datasheet
from hpobench_nmt.lookup.disk.described_rows import Files, tables_of
from hpobench_nmt.lookup.disk.rows import Column
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

_Role = Literal["hyperparameter", "metric", "dropped", "other"]
_Cells = dict[str, list[str | bool | float]]
_Sections = dict[str, dict[str, dict[str, str]]]


class _Checkpoints(Strict, frozen=True):
    training: str
    cost: str
    file: str = ""


class _Settings(Strict, frozen=True):
    """The settings of a table that a datasheet does not have."""

    file: str | list[str]
    like: str = ""
    beside: list[str] = msgspec.field(default_factory=list)
    products: dict[str, list[str]] = msgspec.field(default_factory=dict)
    joined: dict[str, list[str]] = msgspec.field(default_factory=dict)
    sorted: list[str] = msgspec.field(default_factory=list)
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    prefixes: dict[str, _Role] = msgspec.field(default_factory=dict)
    failed: _Cells = msgspec.field(default_factory=dict)
    extracted: dict[str, str] = msgspec.field(default_factory=dict)
    checkpoints: _Checkpoints | None = None
    active_by: str = ""
    seed: str = ""
    front: str = ""
    sha256: str = ""


def table_of(
    collection: Collection,
    path: Path,
    name: str,
    sections: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
) -> Table:
    """The table of a declaration's section, from the frames of its files by name.

    Raises InputError if the section is invalid, names a column that the frames lack, or states a hash that
    differs. `path` is that of the declaration, for messages.
    """
    where = f"{path}, [tables.{name}]"
    names = _Settings.__struct_fields__
    settings = checked({key: value for key, value in sections.items() if key in names}, _Settings, where)
    files = [settings.file] if isinstance(settings.file, str) else settings.file
    lines = _lines(frames, files, settings)
    frame, found = _by_prefix(lines, settings)
    for column, pattern in settings.extracted.items():
        frame = frame.join(frame[column].str.extract(pattern))
    described = {key: value for key, value in sections.items() if key not in names}
    for section, columns in found.items():
        own = described.get(section, {})
        described[section] = {column: {**entry, **own.get(column, {})} for column, entry in columns.items()}
    sheet = checked({"name": name, "replicates": {}, **described}, Datasheet, where)
    checkpoints = None
    if settings.checkpoints is not None and sheet.curves is not None:
        about = settings.checkpoints
        checkpoints = frames[about.file].rename(columns=settings.renamed) if about.file else lines
        frame, checkpoints = _numbered(frame, checkpoints, about, sheet.curves.resource)
        frame = _measured(frame, checkpoints, sheet)
    for column in {*sheet.columns, *sheet.only, *settings.failed} - set(frame):
        raise unknown("column", column, map(str, frame), f"({where})")
    for column, values in sheet.only.items():
        frame = frame[frame[column].isin(values)]
    if "title" not in sheet.provenance:
        raise InputError(f"{where}: needs a title of the table, as provenance.title.")
    sheet = msgspec.structs.replace(sheet, only={}, hyperparameters=_axes(frame, sheet, settings.active_by))
    rows, again = _trainings(frame, sheet, settings)
    provenance = _provenance(collection, [*files, *settings.beside], {"table": name, **rows.iloc[0]}, sheet)
    claims: dict[str, Any] = {"collection": collection.name, "collection_tables": len(collection.tables)}
    if collection.given.rows is not None:
        claims["collection_rows"] = collection.given.rows
    if settings.front:
        claims["front"] = np.flatnonzero(rows[settings.front]).tolist()
    sheet = msgspec.structs.replace(sheet, provenance=provenance, claims=claims | sheet.claims)
    own, beside = csv_of(_cells(rows, sheet.columns)), dict[str, bytes]()
    if checkpoints is not None:
        beside["curves"] = _curves_csv(rows, checkpoints, sheet)
    if len(again):
        kept = [*sheet.hyperparameters, "replicate", "seed", *sheet.metrics]
        beside["replicates"] = csv_of(_cells(again, kept))
    if checkpoints is not None and checkpoints["training"].isin(again["training"]).any():
        beside["replicate_curves"] = _curves_csv(again, checkpoints, sheet)
    digest = hashlib.sha256(b"".join([own, *beside.values()])).hexdigest()
    if settings.sha256 not in ("", digest):
        raise InputError(
            f"table {name!r}: its trainings have SHA-256 {digest[:12]}… instead of {settings.sha256[:12]}…: "
            f"not those of commit {collection.given.commit[:12]}."
        )
    read = {section: partial(bytes, content) for section, content in beside.items()}
    told = f"not the files of commit {collection.given.commit}"
    with foreign(f"{' and '.join(files)}, table {name!r}", told):  # nobody has the files made here
        (table,) = tables_of(Files(sheet, path, Path(f"{name}.csv"), own, read))
        if table.replicates is not None:
            _ = table.replicates.rows  # read on first use
    return table


def _provenance(
    collection: Collection, files: Sequence[str], first: Mapping[str, Any], sheet: Datasheet
) -> dict[str, str]:
    """The provenance of a table from these files; `first` has the values of its first row by column."""
    within = f"{' and '.join(files)} of {collection.given.folder or 'all files'}"
    return {
        "title": sheet.provenance["title"].format_map(first),
        "source": f"github.com/{collection.given.repository}, {within}, commit {collection.given.commit}",
        "licence": collection.given.licence,
        **{key: text for key, text in sheet.provenance.items() if key != "title"},
        "sha256": " and ".join(collection.sha256[file] for file in files),
    }


def _lines(frames: Mapping[str, pd.DataFrame], files: Sequence[str], settings: _Settings) -> pd.DataFrame:
    """The lines of a table's files, with computed columns, sorted, with new names."""
    import pandas as pd

    lines = pd.concat([frames[file] for file in files], ignore_index=True)
    lines = pd.concat([lines, *(frames[file] for file in settings.beside)], axis=1)
    for column, factors in settings.products.items():
        lines[column] = reduce(mul, (lines[factor] for factor in factors))
    for column, texts in settings.joined.items():
        lines[column] = lines[texts].agg("/".join, axis=1)
    if settings.sorted:
        lines = lines.sort_values(settings.sorted, kind="stable", ignore_index=True)
    return lines.rename(columns=settings.renamed)


def _numbered(
    frame: pd.DataFrame, checkpoints: pd.DataFrame, about: _Checkpoints, resource: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The trainings and the checkpoints, both with the number of the training as the column `training`."""
    own = checkpoints[about.training].isin(frame[about.training]) & checkpoints[about.cost].notna()
    checkpoints = checkpoints[own].reset_index(drop=True)
    name = checkpoints[about.training]
    begins = (name != name.shift()) | (checkpoints[resource].diff() <= 0)
    curves = checkpoints.assign(training=begins.cumsum(), cost=checkpoints[about.cost])
    if not about.file:
        return frame.assign(training=curves["training"]).drop_duplicates("training", keep="last"), curves
    number = dict(zip(name[begins], curves["training"][begins], strict=True))
    return frame.assign(training=frame[about.training].map(number)), curves


def _measured(frame: pd.DataFrame, curves: pd.DataFrame, sheet: Datasheet) -> pd.DataFrame:
    """The trainings with the metrics that they lack, which come from their checkpoints."""
    assert sheet.curves is not None  # for mypy
    lacking = [name for name in sheet.metrics if name not in frame]
    if lacking:
        frame = frame.dropna(subset="training")
    for name in lacking:
        entry = sheet.curves.metrics.get(name)
        own = "last" if entry is None else entry.own
        if own == "last":
            chosen = curves.drop_duplicates("training", keep="last")
        else:
            deciding = name if own == "best" else sheet.goals[0]
            sign = -1.0 if sheet.metrics[deciding].direction == "max" else 1.0
            losses = (sign * curves[deciding]).fillna(np.inf)
            chosen = curves.loc[losses.groupby(curves["training"]).idxmin()]
        frame = frame.assign(**{name: frame["training"].map(chosen.set_index("training")[name])})
    return frame


def _curves_csv(trainings: pd.DataFrame, curves: pd.DataFrame, sheet: Datasheet) -> bytes:
    """The checkpoints of these trainings as curves.csv has them."""
    assert sheet.curves is not None  # for mypy
    row = dict(zip(trainings["training"], range(len(trainings)), strict=True))
    own = curves.assign(row=curves["training"].map(row)).dropna(subset="row")
    own = own.sort_values("row", kind="stable")
    own = own.assign(checkpoint=own.groupby("row").cumcount() + 1)
    return csv_of(_cells(own, ["row", "checkpoint", sheet.curves.resource, "cost", *sheet.curves.metrics]))


def _by_prefix(frame: pd.DataFrame, settings: _Settings) -> tuple[pd.DataFrame, _Sections]:
    """The frame with shorter headings, and the sections on its hyperparameters and metrics."""
    names: dict[str, str] = {}
    found: _Sections = {}
    for heading in map(str, frame):
        prefix = next(filter(heading.startswith, settings.prefixes), "")
        role = settings.prefixes.get(prefix, "other")
        name = names[heading] = heading if role == "other" else heading.removeprefix(prefix).rstrip("+-")
        if role in ("dropped", "other") or name in settings.failed:
            continue
        if frame[heading].nunique() > 1:
            entry = {"direction": "max" if heading.endswith("+") else "min"} if role == "metric" else {}
            found.setdefault(f"{role}s", {})[name] = entry
    return frame.rename(columns=names), found


def _axes(frame: pd.DataFrame, sheet: Datasheet, active_by: str) -> dict[str, AxisSection]:
    """The hyperparameters, with the values of a column of categories, and of `active_by` where active."""
    axes = {}
    for name, entry in sheet.hyperparameters.items():
        column, more = frame[name], dict[str, Any]()
        if column.dtype == "category":
            more["values"] = column.cat.categories.tolist()
        if active_by and column.isna().any():
            more["active_if"] = {active_by: sorted(frame[active_by][column.notna()].unique())}
        axes[name] = msgspec.structs.replace(entry, **more)
    return axes


def _trainings(
    frame: pd.DataFrame, sheet: Datasheet, settings: _Settings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The trainings that are rows, and the others with their numbers."""
    axes = list(sheet.hyperparameters)
    always = [name for name, entry in sheet.hyperparameters.items() if not entry.active_if]
    frame = frame.dropna(subset=always)
    for column, values in settings.failed.items():
        frame.loc[frame[column].isin(values), sheet.goals] = np.nan
    number = frame.groupby(axes, sort=False, dropna=False, observed=True).ngroup()
    ordered = frame.assign(number=number, lacks=frame[sheet.goals[0]].isna())
    ordered = ordered.sort_values(["number", "lacks"], kind="stable")
    place = ordered.groupby("number").cumcount()
    ordered = ordered.assign(replicate=place, seed=ordered[settings.seed] if settings.seed else np.nan)
    return ordered[place == 0], ordered[place > 0]


def _cells(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, Column]:
    """Columns as csv_of takes them: doubles, or texts, "" for no value."""
    found = {}
    for name in names:
        column = frame[name]
        if column.dtype.kind in "iuf":
            found[name] = column.to_numpy(np.float64)
        else:
            texts = ("" if value != value or value is None else str(value) for value in column)
            lowered = [text.lower() if text in ("True", "False") else text for text in texts]
            found[name] = np.array(lowered, dtype=object)
    return found
