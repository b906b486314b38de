"""Kept models: the files that `train --keep` saves of a training, in a self-contained folder.

Each model has a folder LEDGER_FOLDER/models/KEY/, where KEY is a hash of the configuration and the replicate:

    model.json              `KeptModel` describes it
    the model's own files   lm/kept_files.py and nmt/kept_files.py describe them

A folder is filled elsewhere and then moved here in one step. Folders from other people are not trusted:
nothing in them is executed or unpickled, links are not followed, and sizes are checked before memory is
allocated.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.files import file_sha256, read_json
from hpobench_nmt.core.system.validation import Finite, Natural, Strict, Whole, checked

MODELS = "models"
"""The folder of kept models, beside the ledger."""
KEPT = "kept"
"""The folder below a training's scratch folder in which its model is saved first."""
ABOUT = "model.json"

FORMAT = 1

Plain = bool | Whole | Finite | str


class KeptModel(Strict, frozen=True):
    """The content of model.json.

    Attributes:
        configuration: values of the hyperparameters on the grid.
        replicate: 0 for the table's own row.
        settings: every setting of the family.
        corpus: the spec's [corpus] section, with defaults filled in.
        provenance: the corpus's source, version and licence, and the sha256 of the prepared corpus.
        metrics, tuned, converged, device, versions, started: as in the ledger.
        files: the SHA-256 of each other file, by its name.
    """

    format: Whole
    family: str
    configuration: dict[str, Plain]
    replicate: Natural
    settings: dict[str, Plain]
    seed: Natural
    corpus: dict[str, Plain | list[str]]
    provenance: dict[str, str]
    metrics: dict[str, Finite]
    files: dict[str, str]
    tuned: dict[str, Finite] = msgspec.field(default_factory=dict)
    converged: bool = True
    device: str = ""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    started: str = ""


def read_kept(folder: Path) -> KeptModel:
    """The description of a kept model. Everything is checked except its settings.

    Raises InputError if the folder has no kept model, or if the model is damaged or has another format.
    """
    path = folder / ABOUT
    if not path.exists() and not path.is_symlink():
        raise InputError(
            f"{folder}: is not a kept model: it has no {ABOUT}. `train --keep` makes such folders, in "
            f"{MODELS}/ beside the ledger."
        )
    content = read_json(path, follow_link=False)
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number != FORMAT:
        raise InputError(f"{path}: format {number}; this version reads format {FORMAT}.")
    return checked(content, KeptModel, str(path))


def kept_file(folder: Path, model: KeptModel, name: str) -> Path:
    """The path of one of the model's files. Raises InputError if it is missing, a link, or was changed."""
    path = folder / name
    try:
        found = path.lstat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}. The kept model is incomplete.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: is not an ordinary file (links are not followed).")
    if file_sha256(path) != model.files.get(name):
        raise InputError(f"{path}: its SHA-256 differs from that in {ABOUT}: it is damaged or was replaced.")
    return path


def write_translations(folder: Path, translations: Mapping[str, Sequence[str]]) -> None:
    """Write the translations of each part of a corpus, one per line."""
    for part, lines in translations.items():
        text = "".join(line + "\n" for line in lines)
        (folder / f"{part}.translations").write_text(text, "utf-8", newline="\n")


def describe_kept(model: KeptModel) -> str:
    """A kept model for people: its family and configuration."""
    values = " ".join(
        f"{name}={value if isinstance(value, str | bool) else format(value, 'g')}"
        for name, value in model.configuration.items()
    )
    again = f" (again, {model.replicate})" if model.replicate else ""
    return f"{shortened(model.family)[1:-1]} {values}{again}"
