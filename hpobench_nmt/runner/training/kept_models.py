"""Kept models: what `train --keep` saves of a training. One folder is all that it takes to use the model.

Each lies in LEDGER_FOLDER/models/KEY/, where KEY is a hash of the configuration and the replicate. It holds

    model.json              `KeptModel` describes it
    the model's own files   lm/kept_files.py and nmt/kept_files.py describe them

A folder is filled elsewhere and moved here in one step. One from somebody else is not trusted: nothing in it
is executed or unpickled, links are not followed, and sizes are checked before memory is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hpobench_nmt.core.errors import InputError, shortened
from hpobench_nmt.core.files import read_json, replace_folder
from hpobench_nmt.core.validation import Finite, Natural, Strict, Whole, checked
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Family
from hpobench_nmt.runner.ledgers.ledger import Record

MODELS = "models"
"""The folder of kept models, beside the ledger."""
KEPT = "kept"
"""The folder below a training's scratch folder in which its model is saved first."""
ABOUT = "model.json"

_FORMAT = 1

Plain = bool | Whole | Finite | str


class KeptModel(Strict, frozen=True):
    """The content of model.json.

    Attributes:
        format: number of this format.
        family: the model's family.
        configuration: values of the hyperparameters on the grid.
        replicate: 0 for the table's own row.
        settings: every setting of the family.
        seed: of the training.
        corpus: the spec's [corpus] section, with defaults filled in.
        provenance: of the corpus: its source, version, licence, and the sha256 of the prepared corpus.
        metrics: as in the ledger.
        tuned: settings that were tuned on dev, with the values that were used.
        converged: as in the ledger.
        device: that it was trained on.
        versions: of the libraries that trained it.
        started: UTC, ISO 8601.
        files: the SHA-256 of each other file, by its name.
    """

    format: Whole
    family: str
    configuration: dict[str, Plain]
    replicate: Natural
    settings: dict[str, Plain]
    seed: Natural
    corpus: dict[str, Plain]
    provenance: dict[str, str]
    metrics: dict[str, Finite]
    files: dict[str, str]
    tuned: dict[str, Finite] = msgspec.field(default_factory=dict)
    converged: bool = True
    device: str = ""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    started: str = ""


def keep_model(
    new: Path,
    target: Path,
    family: str,
    settings: Mapping[str, Any],
    corpus: Mapping[str, Any],
    provenance: Mapping[str, str],
    record: Record,
) -> None:
    """Describe a folder that a family has saved a model in, and move it into place. An older one is replaced.

    Args:
        new: the folder with the model's files, on the same file system.
        target: where it belongs.
        family: its name.
        settings: every setting of the family.
        corpus: the [corpus] section with defaults filled in.
        provenance: of the corpus.
        record: of the training.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    files = {path.name: _sha256(path) for path in sorted(new.iterdir())}
    about = KeptModel(
        format=_FORMAT,
        family=family,
        configuration=dict(record.config),
        replicate=record.replicate,
        settings=dict(settings),
        seed=record.seed,
        corpus=dict(corpus),
        provenance=dict(provenance),
        metrics=dict(record.metrics),
        tuned=dict(record.tuned),
        converged=record.converged,
        device=record.device,
        versions=dict(record.versions),
        started=record.started,
        files=files,
    )
    text = json.dumps(msgspec.to_builtins(about), indent=1, ensure_ascii=False, allow_nan=False)
    (new / ABOUT).write_text(text + "\n", encoding="utf-8")
    for path in new.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    target.parent.mkdir(exist_ok=True)
    replace_folder(new, target)


def read_kept(folder: Path) -> KeptModel:
    """The description of a kept model, checked, but for its settings.

    Raises:
        InputError: there is no kept model, or one of another format, or it is damaged.
    """
    path = folder / ABOUT
    if not path.exists() and not path.is_symlink():
        raise InputError(
            f"{folder}: is no kept model: it has no {ABOUT}. `train --keep` makes such folders, in {MODELS}/ "
            "beside the ledger."
        )
    content = read_json(path, follow_link=False)
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number != _FORMAT:
        raise InputError(f"{path}: format {number}; this version reads format {_FORMAT}.")
    return checked(content, KeptModel, str(path))


def checked_settings(folder: Path, model: KeptModel) -> tuple[Family, dict[str, Any]]:
    """The family of a kept model, and all of its settings in their own types, within their ranges.

    Raises:
        InputError: a family or a setting that this version does not have, or a value that it does not take.
    """
    where = str(folder / ABOUT)
    family = load_family(model.family)
    given = {name: family.setting(name, where).check(value, where) for name, value in model.settings.items()}
    for setting in family.settings:
        if setting.name not in given:
            if setting.default is None:
                raise InputError(f"{where}: the setting {setting.name} is missing.")
            given[setting.name] = setting.default  # of a later version, which by default changes nothing
    try:
        family.check(given)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return family, given


def kept_file(folder: Path, model: KeptModel, name: str) -> Path:
    """The path of one of the model's files, which is whole, and no link.

    Raises:
        InputError: it is missing, a link, or not what model.json says.
    """
    path = folder / name
    try:
        found = path.lstat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}. The kept model is not whole.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: is not an ordinary file (links are not followed).")
    if _sha256(path) != model.files.get(name):
        raise InputError(f"{path}: its SHA-256 is not that in {ABOUT}: the file is damaged, or another one.")
    return path


def describe_kept(model: KeptModel) -> str:
    """A kept model for people: its family and configuration."""
    values = " ".join(
        f"{name}={value if isinstance(value, str | bool) else format(value, 'g')}"
        for name, value in model.configuration.items()
    )
    again = f" (again, {model.replicate})" if model.replicate else ""
    return f"{shortened(model.family)[1:-1]} {values}{again}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
