"""A request to running trainings to save their state at once, made by files in the folders of the states.

A training that can respond has the file LISTENS there. A request renames the file to SAVE_NOW, and the
training renames it back when its state is saved.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LISTENS, SAVE_NOW = "listens", "save-now"

_POLL_SECONDS = 0.02


def request_saves(folders: Iterable[Path], seconds: float) -> tuple[int, int]:
    """Ask the trainings of these states to save, and wait until all have, or until the time is over.

    Returns how many were asked, and how many of them have not saved.
    """
    asked = []
    # The file is missing if the training has not started or is being measured.
    for path in [path for folder in folders for path in folder.rglob(LISTENS)]:
        with suppress(OSError):
            asked.append(path.rename(path.with_name(SAVE_NOW)))
    deadline = time.monotonic() + seconds
    while (left := sum(path.exists() for path in asked)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return len(asked), left
