"""Tables on disk: a folder with `table.csv` (the rows) and `datasheet.toml` (what they are).

Where configurations were trained again with other seeds, `replicates.csv` holds those trainings, and
`curves.csv` the learning curves of the rows, if they are known. A table that the runner filled has its
`spec.toml` and its `ledger.jsonl` beside it.

The datasheet names every column, its scale or direction and unit, says where the rows come from, and
carries their SHA-256. Loading checks all of it; nothing in a folder is ever executed or unpickled, and
symbolic links in it are not followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import no_folder, read_bytes, replace_folder, scratch_folder, write_whole
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.text import counted
from hpobench_nmt.lookup.curve_files import CurvesSection, curves_csv, curves_section
from hpobench_nmt.lookup.datasheet import (
    Datasheet,
    ReplicatesSection,
    RowsSection,
    datasheet,
    read_datasheet,
)
from hpobench_nmt.lookup.described_rows import build_table, codes_of_cells
from hpobench_nmt.lookup.file_names import CURVES, REPLICATES, ROWS
from hpobench_nmt.lookup.file_names import DATASHEET as DATASHEET
from hpobench_nmt.lookup.file_names import LEDGER as LEDGER
from hpobench_nmt.lookup.file_names import SPEC as SPEC
from hpobench_nmt.lookup.rows import MAX_BYTES, Progress, csv_of, parse_columns, read_rows
from hpobench_nmt.lookup.table import Table

if TYPE_CHECKING:  # it takes long to import, and a run needs none of it
    import pandas as pd

# Of the time to add a table, reading and checking it take about so much.
_READ_SHARE = 0.4
# Some installers link the files of a package. Whoever can change those can change the code, too.
_SHIPPED = Path(__file__).parents[1] / "tables"


def load_folder(folder: Path) -> Table:
    """Read a table folder, checking hash, types, ranges and the datasheet's keys."""
    if not folder.is_dir():
        raise InputError(f"{folder}: {no_folder(folder)}.")
    sheet = _datasheet(folder)
    content = _rows(folder, ROWS, sheet.rows, "rows")
    curves = None if sheet.curves is None else _rows(folder, CURVES, sheet.curves, "curves")
    table, _ = build_table(content, sheet, folder / ROWS, folder / DATASHEET, curves)
    if sheet.rows is None or sheet.rows.count != len(table):
        count = sheet.rows.count if sheet.rows else None
        raise InputError(
            f"{folder / DATASHEET}: [rows] count is {count!r}, the file has {counted(len(table), 'row')}."
        )
    return table


def described_files(folder: Path) -> dict[str, bytes]:
    """The CSV files that a table's datasheet describes, by name, as they are.

    Raises:
        InputError: the folder is no table, or a file's hash is another than the datasheet says.
    """
    sheet = _datasheet(folder)
    files = {ROWS: _rows(folder, ROWS, sheet.rows, "rows")}
    if sheet.replicates is not None:
        files[REPLICATES] = _rows(folder, REPLICATES, sheet.replicates, "replicates")
    if sheet.curves is not None:
        files[CURVES] = _rows(folder, CURVES, sheet.curves, "curves")
    return files


def table_name(folder: Path) -> str:
    """The name of a folder's table, by its datasheet alone."""
    name = _datasheet(folder).name
    return Path(ROWS).stem if name is None else name


def load_replicates(folder: Path) -> pd.DataFrame:
    """Trainings again with other seeds: hyperparameters, `replicate`, `seed` and metrics, one row each.

    Returns:
        a frame with no rows where the table has none.
    """
    import pandas as pd

    sheet = _datasheet(folder)
    names = [*sheet.hyperparameters, "replicate", "seed", *sheet.metrics]
    if sheet.replicates is None:
        return pd.DataFrame(columns=names, dtype=np.float64)
    content = _rows(folder, REPLICATES, sheet.replicates, "replicates")
    return _replicates(content, sheet, load_folder(folder), folder / REPLICATES)


def _replicates(content: bytes, sheet: Datasheet, table: Table, path: Path) -> pd.DataFrame:
    """The trainings in the content of a table's replicates.csv."""
    import pandas as pd

    names = [*sheet.hyperparameters, "replicate", "seed", *sheet.metrics]
    columns = parse_columns(content, names, path, *sheet.columns_by_kind())
    for h in table.hyperparameters:
        columns[h.name] = h.column(codes_of_cells(h, columns[h.name], path))
    for metric in table.metrics:
        if metric.missing is not None:
            cells = columns[metric.name]
            columns[metric.name] = np.where(cells == metric.missing, np.nan, cells)
    return pd.DataFrame({name: columns[name] for name in names})


def save_folder(
    table: Table,
    folder: Path,
    replicates: pd.DataFrame | None = None,
    beside: Mapping[str, bytes] | None = None,
    progress: Progress = lambda share: None,
) -> None:
    """Write a table folder in one step: it is there whole or not at all. An older one is replaced.

    Args:
        table: the rows.
        folder: the table's own folder; its parent is created.
        replicates: as load_replicates gives them.
        beside: contents of other files, by name.
        progress: told the share that is done.
    """
    with scratch_folder(folder) as work:
        for name, content in {**(beside or {}), **_files(table, replicates, progress)}.items():
            write_whole(work / name, content)
        work.chmod(0o755)
        replace_folder(work, folder)


def write_into_folder(table: Table, folder: Path, replicates: pd.DataFrame | None = None) -> None:
    """Write a table's files into a folder that holds other files too, such as its ledger.

    Each file is replaced in one step, the datasheet last; between two steps the hashes do not agree, so
    that a table cannot be read half old and half new.
    """
    for name, content in _files(table, replicates).items():
        write_whole(folder / name, content)


def _files(
    table: Table, replicates: pd.DataFrame | None, progress: Progress = lambda share: None
) -> dict[str, bytes]:
    """Contents by file name, the datasheet last."""
    columns: dict[str, NDArray[Any]] = {
        h.name: _cells(h, table.configs[:, j]) for j, h in enumerate(table.hyperparameters)
    }
    for metric, values in zip(table.metrics, table.values.T, strict=True):
        columns[metric.name] = values
        if metric.missing is not None:
            columns[metric.name] = np.where(np.isnan(values), np.float64(metric.missing), values)
    files = {ROWS: csv_of(columns, progress)}
    if replicates is not None and len(replicates):
        again = {str(name): replicates[name].to_numpy() for name in replicates}
        for h in table.hyperparameters:
            again[h.name] = _cells(h, _codes_of(h, again[h.name]))
        files[REPLICATES] = csv_of(again)
    sheet = datasheet(table, files[ROWS])
    if REPLICATES in files:
        entry = {"count": len(replicates), "sha256": hashlib.sha256(files[REPLICATES]).hexdigest()}  # type: ignore[arg-type]
        sheet["replicates"] = entry | ({"averaged": True} if table.averaged else {})
    if table.curves is not None and len(table.curves.costs):  # no row may have one
        files[CURVES] = curves_csv(table.curves)
        sheet["curves"] = curves_section(table.curves, table.metrics, files[CURVES])
    return files | {DATASHEET: tomli_w.dumps(sheet).encode()}


def add_table(
    source: Path,
    datasheet: Path | None,
    target: Path,
    progress: Progress = lambda share: None,
    notify: Callable[[str], None] = lambda message: None,
) -> tuple[Table, Path]:
    """Install a table from a CSV or Parquet file and its datasheet, or from a folder, under target/NAME.

    Where the datasheet names a column of seeds, the file has one training a line: the table's rows are their
    means, and the trainings are kept as replicates. The spec and the ledger of a folder come along. Learning
    curves are read from `curves.csv` beside the rows if the datasheet has a section [curves], and trainings
    with other seeds from `replicates.csv` if it has a section [replicates] that names no column.

    Args:
        source: the file or folder.
        datasheet: of a file; by default beside it, with the same name and the ending .toml.
        target: folder of table folders.
        progress: told the share that is done.
        notify: told what is left out, because it lies beside a file and the datasheet does not describe it.

    Returns:
        the table and its new folder. A table of that name is replaced.

    Raises:
        InputError: what is wrong, and where; of a folder also that it holds trainings or learning curves that
            its datasheet does not describe.
    """
    replicates: pd.DataFrame | None = None
    beside: dict[str, bytes] = {}
    trainings = None
    if os.path.isdir(source):  # noqa: PTH112  (False, not an error, for what cannot be a path)
        if datasheet is not None:
            raise InputError(
                f"--datasheet is for a CSV file; {source} is a folder, which has its own {DATASHEET}."
            )
        sheet = _datasheet(source)
        if beside_it := _undescribed(sheet, source / ROWS, source / DATASHEET):
            raise InputError(" ".join(f"{source}: {fact}: {meaning}" for fact, meaning in beside_it))
        if sheet.rows is not None and sheet.rows.sha256 is not None:
            if sheet.curves is None or sheet.curves.sha256 is not None:
                table = load_folder(source)
            else:  # the curves are new
                content, new = _rows(source, ROWS, sheet.rows, "rows"), read_rows(source / CURVES)
                table, _ = build_table(content, sheet, source / ROWS, source / DATASHEET, new)
            hashed = sheet.replicates is not None and sheet.replicates.sha256 is not None
            replicates = load_replicates(source) if hashed else _beside(sheet, table, source / REPLICATES)
            beside = {
                name: read_bytes(source / name, MAX_BYTES, follow_link=False)
                for name in (SPEC, LEDGER)
                if (source / name).exists() or (source / name).is_symlink()
            }
        else:
            curves = read_rows(source / CURVES) if sheet.curves else None
            rows = read_rows(source / ROWS)
            table, trainings = build_table(rows, sheet, source / ROWS, source / DATASHEET, curves)
            replicates = _beside(sheet, table, source / REPLICATES)
    elif os.path.exists(source):  # noqa: PTH110
        sheet_path = datasheet or source.with_suffix(".toml")
        if not os.path.isfile(sheet_path):  # noqa: PTH113
            raise InputError(
                f"{sheet_path}: no such file. A CSV file needs a datasheet that names its columns; "
                "'hpobench-nmt tables add --help' shows the least that it must say."
            )
        # These two are named by the user, so that links to them are what is meant.
        sheet = read_datasheet(sheet_path, follow_link=True)
        for fact, meaning in _undescribed(sheet, source, sheet_path):
            notify(f"{fact}: {meaning}")  # it may be another table's
        curves = read_rows(source.with_name(CURVES), follow_link=True) if sheet.curves else None
        rows = read_rows(source, follow_link=True)
        table, trainings = build_table(rows, sheet, source, sheet_path, curves)
        replicates = _beside(sheet, table, source.with_name(REPLICATES), follow_link=True)
    else:
        raise InputError(f"{source}: no such file or folder.")
    if trainings is not None:
        import pandas as pd

        replicates = pd.DataFrame(trainings)
    progress(_READ_SHARE)
    writing = lambda share: progress(_READ_SHARE + (1 - _READ_SHARE) * share)  # noqa: E731
    save_folder(table, target / table.name, replicates, beside, writing)
    return table, target / table.name


def undescribed_files(folder: Path) -> list[tuple[str, str]]:
    """Files of a table folder that its datasheet does not describe: what is so, and what follows, of each."""
    if not ((folder / REPLICATES).exists() or (folder / CURVES).exists()):
        return []
    return _undescribed(_datasheet(folder), folder / ROWS, folder / DATASHEET)


def _undescribed(sheet: Datasheet, rows: Path, sheet_path: Path) -> list[tuple[str, str]]:
    again = sheet.replicates
    found = []
    for name, section, described in (
        (REPLICATES, "replicates", again is not None and (again.seed is None or again.sha256 is not None)),
        (CURVES, "curves", sheet.curves is not None),
    ):
        path = rows.with_name(name)
        if described or path == rows or not (path.exists() or path.is_symlink()):
            continue
        lack = f"{sheet_path.name} has no section [{section}]"
        advice = "Add the section ('tables add --help' shows it), or move the file away."
        if name == REPLICATES and again is not None:
            lack = f"[replicates] of {sheet_path.name} names a column of {rows.name} instead"
            advice = "Remove seed from the section, or move the file away."
        found.append((f"{name} lies beside {rows.name}, and {lack}", f"it is not read. {advice}"))
    return found


def _beside(sheet: Datasheet, table: Table, path: Path, follow_link: bool = False) -> pd.DataFrame | None:
    """The trainings in a replicates.csv that has no hash yet; None if the datasheet means no such file."""
    if sheet.replicates is None or sheet.replicates.seed is not None:
        return None
    return _replicates(read_rows(path, follow_link), sheet, table, path)


def _datasheet(folder: Path) -> Datasheet:
    path = folder / DATASHEET
    if not (path.exists() or path.is_symlink()):
        raise InputError(f"{folder}: has no {DATASHEET}, so it is not a table.")
    return read_datasheet(path, _follow_links(folder))


def _rows(
    folder: Path, name: str, entry: RowsSection | ReplicatesSection | CurvesSection | None, section: str
) -> bytes:
    """The content of a CSV file of the folder, which must be the one that the datasheet means."""
    content = read_rows(folder / name, _follow_links(folder))
    if entry is None or entry.sha256 is None:
        raise InputError(
            f"{folder / DATASHEET}: [{section}] has no sha256. Install the folder with 'tables add'."
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry.sha256:
        raise InputError(
            f"{folder / name}: SHA-256 is {digest[:12]}…, but the datasheet says {entry.sha256[:12]}…: "
            "the file was changed or cut short. Get the table again."
        )
    return content


def _follow_links(folder: Path) -> bool:
    return folder.parent == _SHIPPED


def _cells(h: Hyperparameter, codes: NDArray[np.float64]) -> NDArray[Any]:
    """A hyperparameter's column of a CSV file: numbers, or texts of labels."""
    return codes if h.is_numeric else np.array([*h.labels, ""], dtype=object)[h.places(codes)]


def _codes_of(h: Hyperparameter, values: NDArray[Any]) -> NDArray[np.float64]:
    """Values of a hyperparameter as codes. Each distinct one is looked up once."""
    if h.is_numeric:
        distinct, place = np.unique(values.astype(np.float64), return_inverse=True)
        return np.array([h.code(value) for value in distinct.tolist()])[place]
    codes = {value: h.code(value) for value in set(values)}
    return np.array([codes[value] for value in values], dtype=np.float64)
