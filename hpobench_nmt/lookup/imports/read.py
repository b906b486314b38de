"""The sweep of a file or folder, from the reader for its kind."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError, one_line
from hpobench_nmt.core.system.files import file_sha256, read_bytes
from hpobench_nmt.lookup.collections.archives import MOST_MEMBERS
from hpobench_nmt.lookup.disk.file_names import DATASHEET
from hpobench_nmt.lookup.disk.rows import MAX_BYTES, Progress
from hpobench_nmt.lookup.imports import mlflow_runs, optuna_storage, ray_results, wandb_curves
from hpobench_nmt.lookup.imports.csv_files import csv_names, read_csv_columns
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.json_lines import json_lines, one_object, read_json_lines
from hpobench_nmt.lookup.imports.optuna_journal import is_journal, read_journal
from hpobench_nmt.lookup.imports.reports import folded
from hpobench_nmt.lookup.imports.smac import is_runhistory, read_runhistory
from hpobench_nmt.lookup.imports.sweep import Choices, Sweep

# Files that are not texts, by their first bytes, and what to do instead.
_OTHERS = (
    (b"PK\x03\x04", "an Excel workbook or another ZIP archive. Save its table as CSV, or unpack it first"),
    (b"PAR1", "a Parquet file. Save its table as CSV: pandas.read_parquet(…).to_csv(…)"),
    (b"\x1f\x8b", "compressed by gzip. Decompress it first: gunzip FILE"),
    (b"\x80", "a pickle, which is never unpickled. Save it as CSV, for example with "
        "study.trials_dataframe().to_csv(…)"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook. Save its table as CSV"),
)  # fmt: skip
_HEAD = 2**16
_TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".log", ".db", ".sqlite", ".sqlite3")
_MOST_FILES = 8
_CURVES = "--curves is only for a CSV file of W&B's runs."


def read_sweep(source: Path, choices: Choices, progress: Progress = lambda share: None) -> Sweep:
    """The sweep of a file or folder of another program.

    Raises InputError, with the line if possible, if it cannot be read; Ambiguous if it holds several studies
    and none is named.
    """
    if not os.path.exists(source):  # noqa: PTH110  (False, not an error, for what cannot be a path)
        raise InputError(f"{source}: no such file or folder.")
    try:
        return (_of_folder if source.is_dir() else _of_file)(source, choices, progress)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        if isinstance(error, RecursionError):
            raise InputError(f"{source}: has values that are nested too deeply.") from None
        raise InputError(
            f"{source}: has content that its program does not write ({one_line(error)})."
        ) from error


def fingerprint(source: Path, choices: Choices) -> str:
    """A hash of a file, or of a folder's files that may be read, and of the files of curves. O(bytes)."""
    digest = hashlib.sha256()
    files = [source / name for name in _names(source) if _is_read(name)] if source.is_dir() else [source]
    for path in [*files, *choices.curves]:
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0")
        _refuse_other_kinds(path)
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


def _is_read(name: str) -> bool:
    return name.endswith((*_TABLES, "meta.yaml")) or "/params/" in f"/{name}" or "/metrics/" in f"/{name}"


def _of_file(path: Path, choices: Choices, progress: Progress) -> Sweep:
    head = _head(path)
    if choices.curves and path.suffix.lower() in (".db", ".sqlite", ".sqlite3", ".jsonl", ".json", ".log"):
        raise InputError(f"{path}: {_CURVES}")
    if head.startswith(optuna_storage.MAGIC):
        return _of_database(path, choices)
    for magic, told in _OTHERS:
        if head.startswith(magic):
            raise InputError(f"{path}: {told}.")
    if b"\0" in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: neither text nor a database of SQLite.")
    content = read_bytes(path, MAX_BYTES)
    start = content[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"["):
        whole = one_object(content) if start[:1] == b"{" else None
        if whole is not None and is_runhistory(whole):
            _refuse_study(path, choices)
            return read_runhistory(whole, path)
        lines, note = json_lines(content, path, progress)
        notes = (note,) if note else ()
        if is_journal(lines[0][1]):
            return read_journal(lines, path, choices.study, notes)
        _refuse_study(path, choices)
        return folded(read_json_lines(lines, path, path.stem, notes, choices), choices)
    _refuse_study(path, choices)
    return _of_csv(path, content, choices, progress)


def _refuse_study(path: Path, choices: Choices) -> None:
    """Refuse the name of a study where nothing in the source has such a name."""
    if choices.study:
        raise InputError(
            f"{path}: --study is only for a storage or journal of Optuna, or a folder or database of MLflow."
        )


def _of_csv(path: Path, content: bytes, choices: Choices, progress: Progress) -> Sweep:
    table = read_csv_columns(content, path, progress)
    if wandb_curves.is_wide(list(table.columns)):
        if choices.curves:
            raise InputError(
                f"{path}: has learning curves. Name the table of runs first: tables import RUNS --curves CSV."
            )
        curves = wandb_curves.wide_curves(table.columns, path)
        return wandb_curves.with_curves(
            wandb_curves.sweep_of_names(curves, path), curves, _resource(next(iter(table.columns)))
        )
    sweep = folded(headed(table.columns, path, path.stem, table.place), choices)
    for other in choices.curves:
        columns = read_csv_columns(read_bytes(other, MAX_BYTES), other).columns
        sweep = wandb_curves.with_curves(
            sweep, wandb_curves.wide_curves(columns, other), _resource(next(iter(columns)))
        )
    return sweep


def _resource(heading: str) -> str:
    return heading.strip().lower().replace(" ", "_") or "step"


def _of_database(path: Path, choices: Choices) -> Sweep:
    with optuna_storage.opened(path) as database:
        tables = optuna_storage.table_columns(database)
        if optuna_storage.is_optuna(tables):
            return optuna_storage.read_storage(path, database, choices.study)
        if mlflow_runs.is_mlflow(tables):
            return mlflow_runs.read_database(path, database, choices.study)
    shown = ", ".join(sorted(tables)[:_MOST_FILES]) or "none"
    raise InputError(
        f"{path}: the database belongs to neither Optuna nor MLflow (its tables: {shown}). Export the data "
        f"that you need as CSV."
    )


def _of_folder(folder: Path, choices: Choices, progress: Progress) -> Sweep:
    names = _names(folder)
    if DATASHEET in names:
        raise InputError(
            f"{folder}: is already a table folder. Install it with 'hpobench-nmt tables add {folder}'."
        )
    if choices.curves and (mlflow_runs.is_mlruns(names) or ray_results.is_ray(names)):
        raise InputError(f"{folder}: {_CURVES}")
    if mlflow_runs.is_mlruns(names):
        return mlflow_runs.read_mlruns(folder, choices.study)
    if ray_results.is_ray(names):
        _refuse_study(folder, choices)
        return ray_results.read_ray_results(folder)
    files = [folder / name for name in names if "/" not in name and name.lower().endswith(_TABLES)]
    texts = [path for path in files if path.suffix.lower() in (".csv", ".tsv")]
    wide = [path for path in texts if wandb_curves.is_wide(csv_names(read_bytes(path, MAX_BYTES), path))]
    others = [path for path in files if path not in wide]
    if len(others) == 1:
        more = Choices(**{**vars(choices), "curves": (*choices.curves, *wide)})
        return _of_file(others[0], more, progress)
    if len(files) == 1:
        return _of_file(files[0], choices, progress)
    shown = ", ".join(path.name for path in files[:_MOST_FILES])
    told = (
        f"holds several files ({shown}); name the one to import"
        if files
        else "does not have a known kind of sweep"
    )
    raise InputError(f"{folder}: {told}.")


def _names(folder: Path) -> list[str]:
    """The files below a folder, without links, in the order of their names."""
    found: list[str] = []
    for root, folders, files in os.walk(folder):
        folders.sort()
        place = Path(root).relative_to(folder)
        paths = [Path(root) / name for name in sorted(files)]
        found += [
            (place / path.name).as_posix() for path in paths if path.is_file() and not path.is_symlink()
        ]
        if len(found) > MOST_MEMBERS:
            raise InputError(f"{folder}: has more than {MOST_MEMBERS:,} files.")
    return found


def _refuse_other_kinds(path: Path) -> None:
    """Refuse folders, and also pipes and devices, because reading them might never end."""
    if not path.is_file():
        raise InputError(f"{path}: is not a file.")


def _head(path: Path) -> bytes:
    _refuse_other_kinds(path)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    if not head.strip():
        raise InputError(f"{path}: is empty.")
    return head
