"""Tables on disk: a folder with `table.csv` (the rows) and `datasheet.toml` (their description).

`replicates.csv` has trainings with other seeds, which are read when they are first used. `curves.csv` has
learning curves, and `replicate_curves.csv` those of the replicates. A table from the runner also has its
`spec.toml` and `ledger.jsonl`.

The datasheet names every column with its scale or direction and unit, states where the rows come from, and
has their SHA-256. Loading checks everything. Nothing in a folder is ever executed or unpickled, and symbolic
links in it are not followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError, Notify
from hpobench_nmt.core.system.files import (
    is_file,
    is_folder,
    no_folder,
    read_bytes,
    write_folder,
    write_whole,
)
from hpobench_nmt.core.system.folders import replace_folders, scratch_folder
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.csv_writing import Progress, csv_of
from hpobench_nmt.lookup.disk.curve_files import curves_csv
from hpobench_nmt.lookup.disk.datasheet import Datasheet, read_datasheet
from hpobench_nmt.lookup.disk.described_rows import Files, tables_of
from hpobench_nmt.lookup.disk.file_names import BESIDE, CURVES, REPLICATE_CURVES, REPLICATES
from hpobench_nmt.lookup.disk.file_names import DATASHEET as DATASHEET
from hpobench_nmt.lookup.disk.file_names import LEDGER as LEDGER
from hpobench_nmt.lookup.disk.file_names import ROWS as ROWS
from hpobench_nmt.lookup.disk.file_names import SPEC as SPEC
from hpobench_nmt.lookup.disk.rows import MAX_BYTES, read_rows
from hpobench_nmt.lookup.disk.written_sheet import written_sheet
from hpobench_nmt.lookup.table import Table

# Reading and checking a table take about this share of the time to add it.
_READ_SHARE = 0.4
# Links are followed here, because some installers link the files of a package. Whoever can change these files
# can also change the code.
_SHIPPED = Path(__file__).parents[2] / "tables"
_SECTIONS = ("rows", *BESIDE)


def load_folder(folder: Path) -> Table:
    """Read a table folder, checking hash, types, ranges and the datasheet's keys."""
    if not folder.is_dir():
        raise InputError(f"{folder}: {no_folder(folder)}.")
    (table,) = tables_of(_files_in(folder, _SECTIONS))
    return table


def described_files(folder: Path) -> dict[str, bytes]:
    """Contents of the CSV files that a datasheet describes, by name; InputError if a hash differs."""
    files = _files_in(folder, _SECTIONS)
    return {ROWS: files.rows} | {BESIDE[section]: read() for section, read in files.beside.items()}


def checked_datasheet(folder: Path) -> tuple[Datasheet, int]:
    """The datasheet and the number of rows of a folder, whose files are checked by their hashes, not parsed.

    Raises InputError if the datasheet is invalid or has no number of rows, or a hash differs.
    """
    described_files(folder)
    sheet = _datasheet(folder)
    if sheet.rows.count is None:
        raise InputError(f"{folder / DATASHEET}: [rows] has no count. Install the folder with 'tables add'.")
    return sheet, sheet.rows.count


def table_name(folder: Path) -> str:
    """The name of a folder's table, from its datasheet alone."""
    return _datasheet(folder).table_name(folder / ROWS)


def save_folder(
    table: Table,
    folder: Path,
    beside: Mapping[str, bytes] | None = None,
    progress: Progress = lambda share: None,
) -> None:
    """Write a table folder in one step, so that it is never incomplete. An older folder is replaced.

    The folder also holds the table's curves and replicates, and the files in `beside`: contents by name.
    """
    write_folder(folder, {**(beside or {}), **table_files(table, progress)})


def write_into_folder(table: Table, folder: Path) -> None:
    """Write a table's files into a folder that also holds other files, such as its ledger.

    Each file is replaced in one step, the datasheet last. Until then, the hashes do not match, so a partly
    written table cannot be loaded.
    """
    for name, content in table_files(table).items():
        write_whole(folder / name, content)


def table_files(table: Table, progress: Progress = lambda share: None) -> dict[str, bytes]:
    """The contents of a table's files by name, the datasheet last."""
    columns = _cells(table.hyperparameters, table.configs)
    if table.descriptors is not None:
        columns |= _cells(table.descriptors.axes, table.descriptors.codes)
    for metric, values in zip(table.metrics, table.values.T, strict=True):
        columns[metric.name] = values
        if metric.missing is not None:
            columns[metric.name] = np.where(np.isnan(values), np.float64(metric.missing), values)
    files = {ROWS: csv_of(columns, progress)}
    if table.replicates is not None:
        again = table.replicates.rows
        columns = _cells(table.hyperparameters, again.configs)
        columns |= {"replicate": again.numbers, "seed": again.seeds}
        columns |= dict(zip(table.replicates.metrics, again.values.T, strict=True))
        files[REPLICATES] = csv_of(columns)
        if again.curves is not None:
            files[REPLICATE_CURVES] = curves_csv(again.curves)
    if table.curves is not None and len(table.curves.costs):  # perhaps no row has a curve
        _check_markers(table, table.curves)
        files[CURVES] = curves_csv(table.curves)
    return files | {DATASHEET: tomli_w.dumps(written_sheet(table, files)).encode()}


def _check_markers(table: Table, curves: Curves) -> None:
    """Refuse a value that readers of the file of curves would take for a missing one."""
    markers = {metric.name: metric.missing for metric in table.metrics}
    for metric in curves.metrics:
        marker = markers.get(metric.name)
        if marker is not None and (curves.column(metric.name) == marker).any():
            raise InputError(
                f"table {table.name!r}, {CURVES}: {metric.name} is {marker:.15g}, which means a missing "
                "value there. Use NaN for a missing value, or another number as the metric's `missing`."
            )


def _cells(axes: Sequence[Hyperparameter], configs: Floats) -> dict[str, NDArray[Any]]:
    """Columns of a CSV file (numbers, or labels as texts) from configurations given as codes."""
    return {
        h.name: codes if h.is_numeric else np.array([*h.labels, ""], dtype=object)[h.places(codes)]
        for h, codes in zip(axes, configs.T, strict=True)
    }


def install(
    group: str, tables: Sequence[Table], target: Path, progress: Progress = lambda share: None
) -> list[Path]:
    """Write the tables of a group as folders under target, and return these folders.

    All or none are installed, even if the disk is full or the process is killed.
    """
    with scratch_folder(target / group) as work:
        for count, table in enumerate(tables, 1):
            save_folder(table, work / table.name)
            progress(count / len(tables))
        replace_folders(work)
    return [target / table.name for table in tables]


def add_tables(
    source: Path,
    datasheet: Path | None,
    target: Path,
    progress: Progress = lambda share: None,
    notify: Notify = lambda message: None,
    ignore_other: bool = False,
) -> list[tuple[Table, Path]]:
    """Install the table of a CSV or Parquet file and its datasheet, or of a folder, under target/NAME.

    If the datasheet names a column of seeds, the file has one training per line. The table's rows are then
    the means of the trainings, and the trainings are kept as replicates. Learning curves are read from
    `curves.csv` beside the rows if the datasheet has a section [curves]. Trainings with other seeds are read
    from `replicates.csv` if it has a section [replicates] that does not name a column. The spec and the
    ledger of a folder are copied if its datasheet has the hash of the rows.

    With `split_by` in its datasheet, a file becomes a group of tables, of which all or none are installed.
    The group is named by the datasheet, or else after the file. The name of each of its tables is the group's
    name and the table's values of `split_by`.

    Args:
        source: the file or folder.
        datasheet: datasheet of a file; by default the file beside it with the same name and the suffix .toml.
        target: folder of table folders.
        progress: called with the share that is done.
        notify: called with a message on each file that lies beside the rows, but is left out because the
            datasheet does not describe it.
        ignore_other: whether to leave out columns that the datasheet does not describe.

    Returns:
        each table and its new folder. An older table of that name is replaced.

    Raises:
        InputError: the source is invalid (the message states what is wrong, and where), or a folder holds
            files that its datasheet does not describe.
    """
    return _added(_to_add(source, datasheet, notify), target, progress, ignore_other)


def add_table(
    source: Path,
    datasheet: Path | None,
    target: Path,
    progress: Progress = lambda share: None,
    notify: Notify = lambda message: None,
) -> tuple[Table, Path]:
    """Install a single table: `add_tables` for a file that its datasheet does not split, or for a folder."""
    files = _to_add(source, datasheet, notify)
    _refuse_split(files.sheet, files.sheet_path)
    return _added(files, target, progress, ignore_other=False)[0]


def _to_add(source: Path, datasheet: Path | None, notify: Notify) -> Files:
    """The files of a source. Those of a folder must match the hashes that its datasheet has."""
    if is_folder(source):
        if datasheet is not None:
            raise InputError(
                f"--datasheet is for a CSV file; {source} is a folder, which has its own {DATASHEET}."
            )
        sheet = _datasheet(source)
        for fact, meaning in _undescribed(sheet, source / ROWS, source / DATASHEET):
            raise InputError(f"{source}: {fact}: {meaning}")
        # A file without a hash is new and cannot be checked. If the rows are new, all files are.
        hashed = [] if sheet.rows.sha256 is None else [name for name in _SECTIONS if sheet.sha256(name)]
        return _files_in(source, hashed)
    if not os.path.exists(source):  # noqa: PTH110  (False, not an error, for what cannot be a path)
        raise InputError(f"{source}: no such file or folder.")
    path = datasheet or source.with_suffix(".toml")
    if not is_file(path):
        raise InputError(
            f"{path}: no such file. A CSV file needs a datasheet that names its columns; 'hpobench-nmt "
            f"tables add --help' shows what it must have."
        )
    # The user named the file and its datasheet, so links to them, and to files beside them, are followed.
    sheet = read_datasheet(path, follow_link=True)
    for fact, meaning in _undescribed(sheet, source, path):
        notify(f"{fact}: {meaning}")  # the file may belong to another table
    return _files(source, sheet, path, follow_link=True)


def _added(files: Files, target: Path, progress: Progress, ignore_other: bool) -> list[tuple[Table, Path]]:
    tables = tables_of(files, ignore_other)
    for table in tables:
        if table.replicates is not None:
            _ = table.replicates.rows  # read now, so that errors in them are found before anything is written
    progress(_READ_SHARE)

    def writing(share: float) -> None:
        progress(_READ_SHARE + (1 - _READ_SHARE) * share)

    if files.sheet.split_by:
        group = str(tables[0].claims["collection"])
        return list(zip(tables, install(group, tables, target, writing), strict=True))
    (table,) = tables
    beside = _runners_files(files.path.parent) if files.hashed else {}
    save_folder(table, target / table.name, beside, writing)
    return [(table, target / table.name)]


def _runners_files(folder: Path) -> dict[str, bytes]:
    """The spec and the ledger in a folder, by name."""
    paths = [folder / name for name in (SPEC, LEDGER)]
    there = [path for path in paths if path.exists() or path.is_symlink()]
    return {path.name: read_bytes(path, MAX_BYTES, follow_link=False) for path in there}


def undescribed_files(folder: Path) -> list[tuple[str, str]]:
    """A fact and its meaning for each file of a table folder that its datasheet does not describe."""
    if not any((folder / name).exists() for name in BESIDE.values()):
        return []
    return _undescribed(_datasheet(folder), folder / ROWS, folder / DATASHEET)


def _undescribed(sheet: Datasheet, rows: Path, sheet_path: Path) -> list[tuple[str, str]]:
    found = []
    for section, name in BESIDE.items():
        path = rows.with_name(name)
        if section in sheet.beside or path == rows or not (path.exists() or path.is_symlink()):
            continue
        lack = f"{sheet_path.name} has no section [{section}]"
        advice = "Add the section ('tables add --help' shows it), or move the file away."
        if name == REPLICATES and sheet.replicates is not None:
            lack = f"[replicates] of {sheet_path.name} names a column of {rows.name} instead"
            advice = "Remove seed from the section, or move the file away."
        found.append((f"{name} lies beside {rows.name}, and {lack}", f"it is not read. {advice}"))
    return found


def _datasheet(folder: Path) -> Datasheet:
    path = folder / DATASHEET
    if not (path.exists() or path.is_symlink()):
        raise InputError(f"{folder}: has no {DATASHEET}, so it is not a table.")
    return read_datasheet(path, _follow_links(folder))


def _follow_links(folder: Path) -> bool:
    return folder.parent == _SHIPPED


def _refuse_split(sheet: Datasheet, path: Path) -> None:
    if sheet.split_by:
        raise InputError(f"{path}: split_by makes several tables of a file; 'tables add' installs them.")


def _files_in(folder: Path, hashed: Collection[str]) -> Files:
    """The files in a table folder. Each file that a section in `hashed` describes must match its hash."""
    sheet = _datasheet(folder)
    _refuse_split(sheet, folder / DATASHEET)
    return _files(folder / ROWS, sheet, folder / DATASHEET, _follow_links(folder), hashed)


def _files(
    rows: Path, sheet: Datasheet, sheet_path: Path, follow_link: bool, hashed: Collection[str] = ()
) -> Files:
    """The file of rows with the files that lie beside it, which are read later."""
    content = partial(_content, sheet, hashed, follow_link)
    beside = {section: partial(content, section, rows.with_name(BESIDE[section])) for section in sheet.beside}
    return Files(sheet, sheet_path, rows, content("rows", rows), beside, bool(hashed))


def _content(sheet: Datasheet, hashed: Collection[str], follow_link: bool, section: str, path: Path) -> bytes:
    """The content of the file of a section, whose hash it must match if the section is among `hashed`."""
    content, sha256 = read_rows(path, follow_link), sheet.sha256(section)
    if section not in hashed:
        return content
    if sha256 is None:
        where = path.with_name(DATASHEET)
        raise InputError(f"{where}: [{section}] has no sha256. Install the folder with 'tables add'.")
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise InputError(
            f"{path}: SHA-256 is {digest[:12]}…, but {sha256[:12]}… in the datasheet: the file was "
            f"changed or cut short. Get the table again."
        )
    return content
