"""Keeping the model of a training: described, and moved to its place beside the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from hpobench_nmt.core.files import replace_folder
from hpobench_nmt.runner.disk.kept_model import ABOUT, FORMAT, KeptModel, sha256
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.settings import Settings


def keep_model(
    new: Path,
    target: Path,
    family: str,
    settings: Settings,
    corpus: Mapping[str, Any],
    provenance: Mapping[str, str],
    record: Record,
) -> None:
    """Describe a folder that a family has saved a model in, and move it to its place on the same file system.

    An older one is replaced. `corpus` is the [corpus] section with defaults filled in, and the provenance is
    the corpus's. Raises OSError if the disk is full, or the folder cannot be written.
    """
    files = {path.name: sha256(path) for path in sorted(new.iterdir())}
    about = KeptModel(
        format=FORMAT,
        family=family,
        configuration=dict(record.config),
        replicate=record.replicate,
        settings=asdict(settings),
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
