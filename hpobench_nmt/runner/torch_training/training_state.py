"""The state of a language model's training on disk: for a pause, and to resume after a kill.

A state is everything that the rest of the training depends on: the model, the optimiser, the best weights so
far, the position in the data with the hidden state there, and all random generators. On the same machine, a
training that resumes from it has the same results, to the bit, as one that was never interrupted.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from hpobench_nmt.runner.disk.curve_file import write_curve
from hpobench_nmt.runner.disk.save_requests import LISTENS, SAVE_NOW
from hpobench_nmt.runner.disk.training_log import say
from hpobench_nmt.runner.family import Job, tells_of_no_memory
from hpobench_nmt.runner.torch_training.clock import lock_of

# Part of every state. Raise it whenever the same settings train differently, or a state has other contents.
_FORMAT = 3
_STATE = "training.pt"
# Saving takes at most 1 / _MOST_TIME of the time.
_MOST_TIME = 50
_ASKED_SECONDS = 0.1  # between two looks for a request to save the state at once


@dataclass(frozen=True)
class Checkpoints:
    """Where and when a training keeps its state.

    Attributes:
        folder: where the state is kept; None: it is not kept.
        identity: everything that the training depends on. The state of another training is ignored.
        until: the training pauses at its first dev evaluation after this many updates; None: it does not.
        seconds: least time between two saved states.
        stands_still_for: a lock (clock.py). While another process holds it, the training stands still, which
            does not count as its time; None: it never stands still.
        defaults: of the identity's settings. A state that lacks a setting, which is newer, had its default.
    """

    folder: Path | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    until: int | None = None
    seconds: float = 30.0
    stands_still_for: Path | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


def checkpoints_of(job: Job[Any], corpus_sha256: str) -> Checkpoints:
    """The checkpoints of a job's training."""
    identity = {
        "settings": asdict(job.settings),
        "seed": job.seed,
        "corpus": corpus_sha256,
        "device": job.device.partition(":")[0],
        "torch": torch.__version__,
    }
    defaults = {each.name: each.default for each in fields(job.settings) if each.default is not MISSING}
    return Checkpoints(job.state, identity, job.until, stands_still_for=lock_of(job), defaults=defaults)


class StateFile:
    """The file of one training's state, and the curve beside it."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._identity = json.dumps({"format": _FORMAT, **checkpoints.identity}, sort_keys=True)
        self._saved = time.monotonic()
        self._took = 0.0
        self._asked = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, other processes can ask the training to save its state at once (disk/save_requests.py)."""
        folder = self._checkpoints.folder
        if folder is None:
            yield
            return
        with suppress(OSError):  # a full disk does not end a training
            folder.mkdir(parents=True, exist_ok=True)
            (folder / SAVE_NOW).unlink(missing_ok=True)
            (folder / LISTENS).touch()
        try:
            yield
        finally:
            for name in (LISTENS, SAVE_NOW):
                (folder / name).unlink(missing_ok=True)

    def read(self) -> dict[str, Any] | None:
        """The last saved state of this training, in the CPU's memory; None if there is none."""
        if self._checkpoints.folder is None or not (path := self._checkpoints.folder / _STATE).exists():
            return None
        try:
            found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            same = self._completed(found["identity"]) == self._identity
        except Exception as error:  # torch has many errors for a damaged file
            if isinstance(error, MemoryError) or tells_of_no_memory(str(error)):
                raise
            say(f"{path} cannot be read ({type(error).__name__}): the training starts again")
            return None
        if not same:
            say(f"{path} belongs to another training: this training starts again")
            return None
        return found["state"]  # type: ignore[no-any-return]

    def _completed(self, identity: str) -> str:
        """A saved identity, with the defaults of settings that are newer than the state."""
        held = json.loads(identity)
        if "settings" in held:
            held["settings"] = {**self._checkpoints.defaults, **held["settings"]}
        return json.dumps(held, sort_keys=True)

    @property
    def due(self) -> bool:
        """Whether it is time to save the state, or another process has asked for it."""
        if self._checkpoints.folder is None:
            return False
        now = time.monotonic()
        if now - self._asked >= _ASKED_SECONDS:
            self._asked = now
            if (self._checkpoints.folder / SAVE_NOW).exists():
                self._saved = -math.inf
        return now - self._saved >= max(self._checkpoints.seconds, _MOST_TIME * self._took)

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the saved state by a new one. If the disk has no room for both, the old one stays.

        A request to save the state at once is answered only if it is saved.
        """
        folder = self._checkpoints.folder
        if folder is None:
            return
        started = time.monotonic()
        part = folder / f"{_STATE}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                torch.save({"identity": self._identity, "state": dict(state)}, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(folder / _STATE)
        except (OSError, RuntimeError) as error:  # torch has its own error for a full disk
            say(f"the state of the training cannot be saved in {folder}: {error}")
            with suppress(OSError):
                part.unlink(missing_ok=True)
        else:
            with suppress(OSError):
                (folder / SAVE_NOW).rename(folder / LISTENS)  # the request is answered, and the next may come
        self._saved = time.monotonic()
        self._took = self._saved - started

    def write_curve(self, curve: list[dict[str, float]]) -> None:
        """Write the curve so far, for whoever watches the training."""
        if self._checkpoints.folder is not None:
            write_curve(self._checkpoints.folder, curve)
