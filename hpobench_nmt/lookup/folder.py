"""Tables on disk: a folder with `table.csv` (the rows) and `datasheet.toml` (what they are).

Where configurations were trained again with other seeds, `replicates.csv` holds those trainings. A table
that the runner filled has its `spec.toml` and its `ledger.jsonl` beside it, with the learning curves.

The datasheet names every column, its scale or direction and unit, says where the rows come from, and
carries their SHA-256. Loading checks all of it; nothing in a folder is ever executed or unpickled.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.files import read_toml, write_whole
from hpobench_nmt.lookup.datasheet import (
    ROW_KEYS,
    axis_of,
    check_keys,
    claims_of,
    datasheet,
    known,
    metric_of,
    objectives_of,
    plain,
    section,
)
from hpobench_nmt.lookup.table import Table

Floats = NDArray[np.float64]

DATASHEET = "datasheet.toml"
ROWS = "table.csv"
REPLICATES = "replicates.csv"
SPEC = "spec.toml"
LEDGER = "ledger.jsonl"
_MAX_BYTES = 2**30
_EMPTY = {"", "NA", "NaN", "nan"}


def load_folder(folder: Path) -> Table:
    """Read a table folder, checking hash, types, ranges and the datasheet's keys."""
    sheet_path = folder / DATASHEET
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    if not sheet_path.is_file():
        raise InputError(f"{folder}: has no {DATASHEET}, so it is not a table.")
    sheet = read_toml(sheet_path)
    rows = section(sheet, "rows", sheet_path, ROW_KEYS)
    _check_hash(folder / ROWS, rows, sheet_path, "rows")
    table = build_table(folder / ROWS, sheet, sheet_path)
    if rows.get("count") != len(table):
        raise InputError(
            f"{sheet_path}: [rows] count is {rows.get('count')!r}, the file has {len(table)} rows."
        )
    return table


def load_replicates(folder: Path) -> pd.DataFrame:
    """Trainings again with other seeds: hyperparameters, `replicate`, `seed` and metrics, a row a training.

    Returns:
        a frame with no rows where the table has none.
    """
    sheet = read_toml(folder / DATASHEET)
    entry = section(sheet, "replicates", folder / DATASHEET, required=False)
    names = [*sheet.get("hyperparameters", {}), "replicate", "seed", *sheet.get("metrics", {})]
    if not entry:
        return pd.DataFrame(columns=names, dtype=np.float64)
    known(entry, ROW_KEYS, folder / DATASHEET, "replicates")
    path = folder / REPLICATES
    _check_hash(path, entry, folder / DATASHEET, "replicates")
    frame = read_csv(path)
    return pd.DataFrame({name: number_column(frame, name, path) for name in names})


def build_table(csv_path: Path, sheet: Mapping[str, Any], sheet_path: Path) -> Table:
    """A table from a CSV file and a parsed datasheet, which may leave out values, counts and hashes."""
    check_keys(sheet, sheet_path)
    axes = section(sheet, "hyperparameters", sheet_path)
    measures = section(sheet, "metrics", sheet_path)
    frame = read_csv(csv_path)
    for name in [*axes, *measures]:
        if name not in frame.columns:
            raise unknown("column", name, frame.columns, f"{sheet_path} names it, {csv_path} lacks it.")
    extra = [name for name in frame.columns if name not in axes and name not in measures]
    if extra:
        raise InputError(f"{csv_path}: column {extra[0]!r} is not described in {sheet_path}.")
    configs = {name: number_column(frame, name, csv_path) for name in axes}
    values = {name: number_column(frame, name, csv_path) for name in measures}
    metrics = [metric_of(name, entry, sheet_path) for name, entry in measures.items()]
    for name, column in configs.items():
        _first_line(csv_path, ~np.isfinite(column), f"hyperparameter {name!r} is missing or not finite.")
    for metric in metrics:
        column = values[metric.name]
        advice = "Leave the cell empty where a training failed."
        _first_line(csv_path, np.isinf(column), f"metric {metric.name!r} is infinite. {advice}")
        if metric.missing is not None:
            values[metric.name] = np.where(column == metric.missing, np.nan, column)
    return Table(
        name=sheet.get("name", csv_path.stem),
        hyperparameters=tuple(axis_of(name, axes[name], configs[name], sheet_path) for name in axes),
        metrics=tuple(metrics),
        configs=np.column_stack(list(configs.values())),
        values=np.column_stack(list(values.values())),
        objectives=objectives_of(sheet, metrics, sheet_path),
        provenance={k: str(v) for k, v in section(sheet, "provenance", sheet_path, required=False).items()},
        claims=claims_of(sheet, len(frame), sheet_path),
    )


def save_folder(
    table: Table,
    folder: Path,
    replicates: pd.DataFrame | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write a table folder in one step: it is there whole or not at all. An older one is replaced.

    Args:
        table: the rows.
        folder: the table's own folder; its parent is created.
        replicates: as load_replicates gives them.
        beside: contents of other files, by name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, content in {**(beside or {}), **_files(table, replicates)}.items():
            write_whole(work / name, content)
        work.chmod(0o755)
        replace_folder(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_into_folder(table: Table, folder: Path, replicates: pd.DataFrame | None = None) -> None:
    """Write a table's files into a folder that holds other files too, such as its ledger.

    Each file is replaced in one step, the datasheet last; between two steps the hashes do not agree, so
    that a table cannot be read half old and half new.
    """
    for name, content in _files(table, replicates).items():
        write_whole(folder / name, content)


def _files(table: Table, replicates: pd.DataFrame | None) -> dict[str, bytes]:
    """Contents by file name, the datasheet last."""
    frame = table.to_frame()
    for metric in table.metrics:
        if metric.missing is not None:
            frame[metric.name] = frame[metric.name].fillna(metric.missing)
    files = {ROWS: _csv(frame)}
    if replicates is not None and len(replicates):
        files[REPLICATES] = _csv(replicates)
    sheet = datasheet(table, files[ROWS])
    if REPLICATES in files:
        entry = {"count": len(replicates), "sha256": hashlib.sha256(files[REPLICATES]).hexdigest()}  # type: ignore[arg-type]
        sheet["replicates"] = entry
    return files | {DATASHEET: tomli_w.dumps(sheet).encode()}


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.map(_cell).to_csv(index=False, lineterminator="\n").encode()


def add_table(source: Path, datasheet: Path | None, target: Path) -> tuple[Table, Path]:
    """Install a table from a CSV file and its datasheet, or from a table folder, under target/NAME.

    The spec and the ledger of a folder come along.

    Args:
        source: the CSV file or folder.
        datasheet: of a CSV file; by default beside it, with the same name and the ending .toml.
        target: folder of table folders.

    Returns:
        the table and its new folder. A table of that name is replaced.
    """
    replicates, beside = None, {}
    if source.is_dir():
        if datasheet is not None:
            raise InputError(
                f"--datasheet is for a CSV file; {source} is a folder, which has its own {DATASHEET}."
            )
        if not (source / DATASHEET).is_file():
            raise InputError(f"{source}: has no {DATASHEET}.")
        sheet = read_toml(source / DATASHEET)
        if "sha256" in section(sheet, "rows", source / DATASHEET, required=False):
            table = load_folder(source)
            replicates = load_replicates(source)
            beside = {n: (source / n).read_bytes() for n in (SPEC, LEDGER) if (source / n).is_file()}
        else:
            _read_rows(source / ROWS)
            table = build_table(source / ROWS, sheet, source / DATASHEET)
    elif source.exists():
        sheet_path = datasheet or source.with_suffix(".toml")
        if not sheet_path.is_file():
            raise InputError(
                f"{sheet_path}: no such file. A CSV file needs a datasheet that names its columns; "
                "'hpobench-nmt tables add --help' shows the least that it must say."
            )
        table = build_table(source, read_toml(sheet_path), sheet_path)
    else:
        raise InputError(f"{source}: no such file or folder.")
    save_folder(table, target / table.name, replicates, beside)
    return table, target / table.name


def replace_folder(new: Path, target: Path) -> None:
    """Move a finished folder into place; an older one goes only when the new one is whole."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.rename(old / target.name)
        try:
            new.rename(target)
        except OSError:
            (old / target.name).rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        new.rename(target)


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file with a header, every cell as text."""
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"{path}: larger than {_MAX_BYTES >> 30} GiB.")
    try:
        with warnings.catch_warnings():
            # Lines longer than the header would be cut with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # As text: only Python's own float() is sure to read back exactly what was written.
            frame = pd.read_csv(
                path, dtype=str, keep_default_na=False, skip_blank_lines=False, index_col=False
            )
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV table ({str(error).strip()}).") from None
    if frame.empty:
        raise InputError(f"{path}: has no rows.")
    return frame


def number_column(frame: pd.DataFrame, name: str, path: Path) -> Floats:
    """A column as numbers, NaN where a cell is empty; text in it is an error that names the line."""
    if name not in frame.columns:
        raise unknown("column", name, frame.columns, f"({path})")
    numbers = np.empty(len(frame))
    for row, cell in enumerate(frame[name]):
        text = str(cell).strip()
        try:
            numbers[row] = float(text) if text not in _EMPTY else np.nan
        except ValueError:
            raise InputError(
                f"{path}, line {row + 2}: {name!r} is {text[:40]!r}, not a number. "
                "Encode categories as numbers."
            ) from None
    return numbers


def _read_rows(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path.parent}: has no {path.name}.")
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"{path}: larger than {_MAX_BYTES >> 30} GiB.")
    return path.read_bytes()


def _check_hash(path: Path, entry: Mapping[str, Any], sheet_path: Path, section: str) -> None:
    content = _read_rows(path)
    if "sha256" not in entry:
        raise InputError(f"{sheet_path}: [{section}] has no sha256. Install the folder with 'tables add'.")
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry["sha256"]:
        raise InputError(
            f"{path}: SHA-256 is {digest[:12]}…, but the datasheet says {str(entry['sha256'])[:12]}…: "
            "the file was changed or cut short. Get the table again."
        )


def _first_line(path: Path, wrong: NDArray[np.bool_], message: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise InputError(f"{path}, line {rows[0] + 2}: {message}")


def _cell(number: float) -> str:
    return "" if math.isnan(number) else repr(plain(number))
