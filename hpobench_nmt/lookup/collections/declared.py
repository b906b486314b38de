"""Collections that are declared in a file NAME.toml in this folder, instead of code.

title, licence, repository, commit, folder   as in `Collection`
rows              the number of rows of all tables that the authors state, if they state it
files             files by a short name, which a copy may have: `sha256`, `path` (of the authors' file in the
                  folder; by default the name) and `adds` (columns of one value)
levels            for JSON files: the names of the nested keys above the trainings, which become columns
reader, members   for files made of many files of the authors: a function of readers.py that makes them, and
                  the names of the authors' files in the folder, as a regular expression. The commit alone
                  identifies these, and `sha256` is that of the copy
[sheet]           what all tables have in common
[tables.NAME]     a table: its `file`, or a list of files, the keys of a datasheet (lookup/disk/datasheet.py),
                  and these settings, which apply in this order:

products          COLUMN = [columns]: a new column, the product of others
sorted            the columns by which lines are sorted
renamed           new names of columns
prefixes          the role of columns by the prefix of their heading: "hyperparameter", "metric" or "other".
                  The rest of the heading is the name. A metric is maximised if its heading ends with +, and
                  else minimised. Columns with one value are left out. The datasheet adds to what is found
failed            COLUMN = [values]: trainings whose results are missing, whatever the objectives' columns say
extracted         COLUMN = regular expression: its named groups become columns
checkpoints       the file of learning curves, with a line for each checkpoint; `training`, the column that
                  identifies the training there and in `file`; and `cost`, the column of the cost. Lines
                  without a cost are left out. Where the resource of the section [curves] does not rise,
                  another training of the same name begins. Without a file, the lines of the table itself are
                  checkpoints, and the last checkpoint of a training is its line

Collections that correct values (Step Law's rates, TaskSet's 1 - beta), join files (nmthpo, nmtlc), check each
training (AlgoPerf) or read graphs (NAS-Bench-NLP) are code.

A line is a training. It is left out if a hyperparameter that is always active has no value. If a
configuration was trained several times, the first training that did not fail is the row, and the others are
replicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.files import parse_json, read_toml
from hpobench_nmt.core.system.validation import Strict, checked
from hpobench_nmt.lookup.collections.archives import folder_members, tar_members
from hpobench_nmt.lookup.collections.collection import Collection, Origin, csv_frame, published_file
from hpobench_nmt.lookup.collections.readers import READERS
from hpobench_nmt.lookup.disk.datasheet import Datasheet
from hpobench_nmt.lookup.disk.described_rows import Files, tables_of
from hpobench_nmt.lookup.disk.rows import Column, csv_of
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, download
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

_Cells = dict[str, list[str | bool | float]]
# The limits of an archive of a whole repository, and of its content.
_MOST_PACKED, _MOST_BYTES = 2**30, 2**32


class _File(Strict, frozen=True):
    sha256: str
    path: str = ""
    adds: dict[str, str] = msgspec.field(default_factory=dict)


class _Checkpoints(Strict, frozen=True):
    training: str
    cost: str
    file: str = ""


class _Settings(Strict, frozen=True):
    """The settings of a table that a datasheet does not have."""

    file: str | list[str]
    products: dict[str, list[str]] = msgspec.field(default_factory=dict)
    sorted: list[str] = msgspec.field(default_factory=list)
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    prefixes: dict[str, Literal["hyperparameter", "metric", "other"]] = msgspec.field(default_factory=dict)
    failed: _Cells = msgspec.field(default_factory=dict)
    extracted: dict[str, str] = msgspec.field(default_factory=dict)
    checkpoints: _Checkpoints | None = None


class _Declaration(Strict, frozen=True):
    title: str
    licence: str
    repository: str
    commit: str
    folder: str
    files: dict[str, _File]
    tables: dict[str, dict[str, Any]]
    rows: int | None = None
    levels: list[str] = msgspec.field(default_factory=list)
    reader: str = ""
    members: str = ""
    sheet: dict[str, Any] = msgspec.field(default_factory=dict)


def read_declaration(path: Path) -> Collection:
    """The collection that a file declares; InputError if it is not a declaration."""
    given = checked(read_toml(path), _Declaration, str(path))

    def tables(collection: Collection, origin: Origin, target: Path) -> list[Table]:
        frames = _frames(given, origin)
        return [
            _table(collection, path, name, _joined(given.sheet, sections), frames)
            for name, sections in given.tables.items()
        ]

    own = Collection(
        name=path.stem,
        title=given.title,
        tables=tuple(given.tables),
        rows=given.rows,
        licence=given.licence,
        repository=given.repository,
        commit=given.commit,
        folder=given.folder,
        sha256={name: file.sha256 for name, file in given.files.items()},
        tables_from=tables,
    )
    if not given.reader:
        return own
    return replace(
        own,
        limits=replace(DEFAULT_LIMITS, max_bytes=_MOST_PACKED, total_s=900.0),
        archive=f"https://codeload.github.com/{given.repository}/tar.gz/{given.commit}",
        copy=f"a clone of github.com/{given.repository}, or {' and '.join(given.files)}, made of its files",
    )


def _joined(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What all tables have in common with a table's own keys, which prevail; sections are joined."""
    sections = {key: {**common[key], **own[key]} for key in common.keys() & own if isinstance(own[key], dict)}
    return {**common, **own, **sections}


def _frames(given: _Declaration, origin: Origin) -> dict[str, pd.DataFrame]:
    """The files as frames with a line for each training or checkpoint, by their short names."""
    source = origin.source
    if not given.reader or (source is not None and (source / next(iter(given.files))).is_file()):
        return {name: _frame(given, name, origin) for name in given.files}
    if source is not None:
        members = folder_members(source / given.folder, given.members, _MOST_BYTES)
    else:
        content = download(origin.address, None, origin.limits)
        within = f"{given.folder}/" if given.folder else ""
        found = tar_members(content, origin.address, f"[^/]+/{within}{given.members}", _MOST_BYTES)
        # The archive has one folder, whose name is that of the repository and the commit.
        members = ((name.partition("/")[2].removeprefix(within), content) for name, content in found)
    try:
        return READERS[given.reader](members)
    except (LookupError, TypeError, ValueError) as error:
        where = source or origin.address
        raise InputError(f"{where}: not the files of commit {given.commit} ({error!r}).") from None


def _frame(given: _Declaration, name: str, origin: Origin) -> pd.DataFrame:
    """A file as a frame. A copy may have the short name."""
    import pandas as pd

    file = given.files[name]
    copied = origin.source is not None and (origin.source / name).is_file()
    path = name if copied else file.path or name
    content = published_file(path, file.sha256, origin.source, origin.address, origin.limits, given.folder)
    if name.endswith(".jsonl"):
        frame = pd.DataFrame([parse_json(line, name) for line in content.splitlines()])
    elif name.endswith(".json"):
        frame = pd.DataFrame(_records(parse_json(content, name), given.levels, name))
    else:
        frame = csv_frame(content, name)
    return frame.assign(**file.adds)


def _records(part: Any, levels: Sequence[str], where: str) -> list[dict[str, Any]]:
    """The trainings in nested JSON, with the keys above them as values of `levels`."""
    if not isinstance(part, dict if levels else list):
        expected = f"an object by {levels[0]}" if levels else "a list of trainings"
        raise InputError(f"{where}: a part of it is not {expected}.")
    if not levels:
        return list(part)
    inner = {key: _records(part[key], levels[1:], where) for key in part}
    return [{levels[0]: key, **record} for key, records in inner.items() for record in records]


def _table(
    collection: Collection,
    path: Path,
    name: str,
    sections: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
) -> Table:
    where = f"{path}, [tables.{name}]"
    names = _Settings.__struct_fields__
    settings = checked({key: value for key, value in sections.items() if key in names}, _Settings, where)
    files = [settings.file] if isinstance(settings.file, str) else settings.file
    lines = _lines([frames[file] for file in files], settings)
    frame, found = _by_prefix(lines, settings)
    for column, pattern in settings.extracted.items():
        frame = frame.join(frame[column].str.extract(pattern))
    described = {key: value for key, value in sections.items() if key not in names}
    for section, columns in found.items():
        own = described.get(section, {})
        described[section] = {column: {**entry, **own.get(column, {})} for column, entry in columns.items()}
    source = f"{' and '.join(files)} of {collection.folder or 'all files'}"
    hashes = " and ".join(collection.sha256[file] for file in files)
    described["provenance"] = collection.provenance(files=source, **described["provenance"], sha256=hashes)
    described["claims"] = collection.claims(**described.get("claims", {}))
    sheet = checked({"name": name, "replicates": {}, **described}, Datasheet, where)
    for column in {*sheet.columns, *sheet.only, *settings.failed} - set(frame):
        raise unknown("column", column, map(str, frame), f"({where})")
    checkpoints = None
    if settings.checkpoints is not None and sheet.curves is not None:
        checkpoints = frames.get(settings.checkpoints.file, lines)
        frame, checkpoints = _numbered(frame, checkpoints, settings.checkpoints, sheet.curves.resource)
    for column, values in sheet.only.items():
        frame = frame[frame[column].isin(values)]
    rows, again = _trainings(frame, sheet, settings)
    sheet = msgspec.structs.replace(sheet, only={})
    made = Files(sheet, path, Path(f"{name}.csv"), csv_of(_cells(rows, sheet.columns)))
    if len(again):
        content = csv_of(_cells(again, [*sheet.columns, "replicate", "seed"]))
        made = replace(made, replicates=lambda: content)
    if checkpoints is not None:
        own_curves, their_curves = (_curves_csv(part, checkpoints, sheet) for part in (rows, again))
        made = replace(made, curves=own_curves, replicate_curves=lambda: their_curves)
    return tables_of(made)[0]


def _lines(frames: Sequence[pd.DataFrame], settings: _Settings) -> pd.DataFrame:
    """The lines of a table's files, with computed columns, sorted, with new names."""
    import pandas as pd

    lines = pd.concat(frames, ignore_index=True)
    for column, factors in settings.products.items():
        lines[column] = reduce(mul, (lines[factor] for factor in factors))
    if settings.sorted:
        lines = lines.sort_values(settings.sorted, kind="stable", ignore_index=True)
    return lines.rename(columns=settings.renamed)


def _numbered(
    frame: pd.DataFrame, checkpoints: pd.DataFrame, about: _Checkpoints, resource: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The trainings and the checkpoints, both with the number of the training as the column `training`."""
    checkpoints = checkpoints.dropna(subset=about.cost)
    name = checkpoints[about.training]
    begins = (name != name.shift()) | (checkpoints[resource].diff() <= 0)
    curves = checkpoints.assign(training=begins.cumsum(), cost=checkpoints[about.cost])
    if not about.file:
        return frame.assign(training=curves["training"]).drop_duplicates("training", keep="last"), curves
    number = dict(zip(name[begins], curves["training"][begins], strict=True))
    return frame.assign(training=frame[about.training].map(number)), curves


def _curves_csv(trainings: pd.DataFrame, curves: pd.DataFrame, sheet: Datasheet) -> bytes:
    """The checkpoints of these trainings as curves.csv has them."""
    assert sheet.curves is not None  # for mypy
    row = dict(zip(trainings["training"], range(len(trainings)), strict=True))
    own = curves.assign(row=curves["training"].map(row)).dropna(subset="row")
    own = own.sort_values("row", kind="stable")
    own = own.assign(checkpoint=own.groupby("row").cumcount() + 1)
    return csv_of(_cells(own, ["row", "checkpoint", sheet.curves.resource, "cost", *sheet.curves.metrics]))


def _by_prefix(
    frame: pd.DataFrame, settings: _Settings
) -> tuple[pd.DataFrame, dict[str, dict[str, dict[str, str]]]]:
    """The frame with shorter headings, and the sections on its hyperparameters and metrics."""
    names: dict[str, str] = {}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for heading in map(str, frame):
        prefix = next(filter(heading.startswith, settings.prefixes), "")
        role = settings.prefixes.get(prefix, "other")
        name = names[heading] = heading if role == "other" else heading.removeprefix(prefix).rstrip("+-")
        if role != "other" and name not in settings.failed and frame[heading].nunique() > 1:
            entry = {"direction": "max" if heading.endswith("+") else "min"} if role == "metric" else {}
            found.setdefault(f"{role}s", {})[name] = entry
    return frame.rename(columns=names), found


def _trainings(
    frame: pd.DataFrame, sheet: Datasheet, settings: _Settings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The trainings that are rows, and the others with their numbers."""
    axes = list(sheet.hyperparameters)
    always = [name for name, entry in sheet.hyperparameters.items() if not entry.active_if]
    frame = frame.dropna(subset=always)
    for column, values in settings.failed.items():
        frame.loc[frame[column].isin(values), sheet.goals] = np.nan
    number = frame.groupby(axes, sort=False, dropna=False).ngroup()
    ordered = frame.assign(number=number, lacks=frame[sheet.goals[0]].isna())
    ordered = ordered.sort_values(["number", "lacks"], kind="stable")
    place = ordered.groupby("number").cumcount()
    again = ordered[place > 0].assign(replicate=place[place > 0], seed=np.nan)
    return ordered[place == 0], again


def _cells(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, Column]:
    """Columns as csv_of takes them: doubles, or texts, "" for no value."""
    found = {}
    for name in names:
        column = frame[name]
        if column.dtype.kind in "iuf":
            found[name] = column.to_numpy(np.float64)
        else:
            texts = ["" if value != value or value is None else str(value) for value in column]
            found[name] = np.array(
                [text.lower() if text in ("True", "False") else text for text in texts], dtype=object
            )
    return found
