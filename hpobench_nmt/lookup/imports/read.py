"""The sweep of a file or folder, from the reader for its kind."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import file_sha256, read_bytes
from hpobench_nmt.lookup.collections.archives import MOST_MEMBERS, gunzipped, zip_members
from hpobench_nmt.lookup.disk.file_names import DATASHEET
from hpobench_nmt.lookup.disk.rows import MAX_BYTES
from hpobench_nmt.lookup.imports import mlflow_runs, optuna_storage, ray_results, wandb_curves
from hpobench_nmt.lookup.imports.csv_files import read_csv_columns
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.json_lines import json_lines, read_json_lines
from hpobench_nmt.lookup.imports.json_objects import read_object
from hpobench_nmt.lookup.imports.optuna_journal import is_journal, read_journal
from hpobench_nmt.lookup.imports.reports import folded
from hpobench_nmt.lookup.imports.sweep import Choices, Sweep

# Files that are not texts, by their first bytes, and what to do instead.
_OTHERS = (
    (b"PAR1", "a Parquet file. Save its table as CSV: pandas.read_parquet(…).to_csv(…)"),
    (b"\x80", "a pickle, which is never unpickled. Save it as CSV, for example with "
        "study.trials_dataframe().to_csv(…)"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook. Save its table as CSV"),
)  # fmt: skip
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_HEAD = 2**16
_JSON = (".jsonl", ".ndjson", ".json", ".log")
_DATABASES = (".db", ".sqlite", ".sqlite3")
_TABLES = (".csv", ".tsv", ".txt", *_JSON, *_DATABASES)
_MOST_FILES = 8
_CURVES = "--curves is only for a CSV file of W&B's runs."


def read_sweep(source: Path, choices: Choices) -> Sweep:
    """The sweep of a file or folder of another program.

    Raises InputError, with the line if possible, if it cannot be read, or if it holds several studies and
    none is named.
    """
    if not os.path.exists(source):  # noqa: PTH110  (False, not an error, for what cannot be a path)
        raise InputError(f"{source}: no such file or folder.")
    sweep = _of_folder(source, choices) if source.is_dir() else _of_file(source, choices)
    if choices.study and not sweep.studies:
        raise InputError(
            f"{source}: --study is only for a storage or journal of Optuna, or a folder or database of "
            "MLflow, or a table of HPO-B."
        )
    return sweep


def fingerprint(source: Path, choices: Choices) -> str:
    """A hash of a file, or of a folder's files that may be read, and of the files of curves. O(bytes)."""
    digest = hashlib.sha256()
    files = [source / name for name in _names(source) if _is_read(name)] if source.is_dir() else [source]
    for path in [*files, *choices.curves]:
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


def _is_read(name: str) -> bool:
    return name.endswith((*_TABLES, "meta.yaml")) or "/params/" in f"/{name}" or "/metrics/" in f"/{name}"


def _of_file(path: Path, choices: Choices) -> Sweep:
    content = read_bytes(path, MAX_BYTES)
    if choices.curves and path.suffix.lower() in (*_DATABASES, *_JSON):
        raise InputError(f"{path}: {_CURVES}")
    if content.startswith(optuna_storage.MAGIC):
        return _of_database(path, choices)
    if content.startswith(_GZIP):
        content = gunzipped(content, path, MAX_BYTES)
    elif content.startswith(_ZIP):
        members = list(zip_members(content, path, r".*\.(csv|tsv|jsonl|ndjson|json)", MAX_BYTES))
        if len(members) != 1:
            raise InputError(
                f"{path}: an Excel workbook or another ZIP archive. Unpack it, or save it as CSV."
            )
        content = members[0][1]
    if not content.strip():
        raise InputError(f"{path}: is empty.")
    for magic, told in _OTHERS:
        if content.startswith(magic):
            raise InputError(f"{path}: {told}.")
    if b"\0" in content[:_HEAD] and content[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: neither text nor a database of SQLite.")
    start = content[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"{", b"["):
        return _of_csv(path, content, choices)
    lines, note = json_lines(content, path)
    if is_journal(lines[0][1]):
        return read_journal(lines, path, choices.study, (note,) if note else ())
    if len(lines) == 1 and (found := read_object(lines[0][1], path, choices)) is not None:
        return found
    sweep = folded(read_json_lines(lines, path), choices)
    return replace(sweep, notes=(*sweep.notes, note)) if note else sweep


def _of_csv(path: Path, content: bytes, choices: Choices) -> Sweep:
    table = read_csv_columns(content, path)
    if wandb_curves.is_wide(list(table.columns)):
        raise InputError(
            f"{path}: has learning curves, not hyperparameters. Export the table of runs as CSV as well, and "
            "give both: tables import RUNS.csv --curves FILE."
        )
    sweep = folded(headed(table.columns, path, path.stem.removesuffix(".csv"), table.place), choices)
    charts = [(path, wandb_curves.columns_of(path)) for path in choices.curves]
    return wandb_curves.with_curves(sweep, charts) if charts else sweep


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


def _of_folder(folder: Path, choices: Choices) -> Sweep:
    names = _names(folder)
    if DATASHEET in names:
        advice = f"Install it with 'hpobench-nmt tables add {folder}'."
        raise InputError(f"{folder}: is already a table folder. {advice}")
    mlflow, ray = mlflow_runs.is_mlruns(names), ray_results.is_ray(names)
    if choices.curves and (mlflow or ray):
        raise InputError(f"{folder}: {_CURVES}")
    if mlflow:
        return mlflow_runs.read_mlruns(folder, choices.study)
    if ray:
        return ray_results.read_ray_results(folder)
    trials = [folder / name for name in names if name.endswith("/trial.json")]  # as Keras Tuner writes them
    files = trials or [folder / name for name in names if "/" not in name and name.lower().endswith(_TABLES)]
    if len(files) > 1 and all(path.suffix.lower() == ".json" for path in files):
        return folded(_of_results(files, folder), choices)
    texts = [path for path in files if path.suffix.lower() in (".csv", ".tsv")]
    wide = [path for path in texts if wandb_curves.is_wide(list(wandb_curves.columns_of(path)))]
    others = [path for path in files if path not in wide]
    if len(others) == 1 or len(files) == 1:
        charts = (*choices.curves, *wide) if others else choices.curves
        return _of_file((others or files)[0], replace(choices, curves=charts))
    shown = ", ".join(path.name for path in files[:_MOST_FILES])
    told = f"holds several files ({shown}); name the one to import"
    if any(name.endswith("nni.sqlite") for name in names):
        told = "is a folder of NNI. Import the file that 'nnictl experiment export --type csv' writes"
    elif not files:
        told = "does not have a known kind of sweep"
    raise InputError(f"{folder}: {told}.")


def _of_results(files: list[Path], folder: Path) -> Sweep:
    """The sweep of a folder with a file of JSON for each training."""
    lines = []
    for path in files:
        record = json_lines(read_bytes(path, MAX_BYTES), path)[0][0][1]
        lines.append((path.name, {"file": path.stem, **record}))
    return read_json_lines(lines, folder)


def _names(folder: Path) -> list[str]:
    """The files below a folder, without links, in the order of their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if len(paths) > MOST_MEMBERS:
        raise InputError(f"{folder}: has more than {MOST_MEMBERS:,} files.")
    return [path.relative_to(folder).as_posix() for path in paths]
