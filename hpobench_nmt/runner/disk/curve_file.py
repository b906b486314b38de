"""The learning curve of a running training, in a file for processes that watch the training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

CURVE = "curve.jsonl"
_LARGEST_BYTES = 2**24


def write_curve(folder: Path, curve: Sequence[Mapping[str, float]]) -> None:
    """Write the curve so far into the folder of a training's state, one line per checkpoint.

    Nothing depends on the file, so a full disk is not an error here.
    """
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{CURVE}.part"
        part.write_text("".join(json.dumps(point) + "\n" for point in curve), encoding="utf-8")
        part.replace(folder / CURVE)


def read_curve(folder: Path) -> list[dict[str, float]]:
    """The curve in the folder of a training's state; empty if there is none."""
    path = folder / CURVE
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError):  # the training has just ended, or the disk was full
        return []
