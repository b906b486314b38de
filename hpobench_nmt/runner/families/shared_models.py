"""Models that many configurations share: each is trained once, and the cache keeps it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpobench_nmt.core.system.folders import remove_folder
from hpobench_nmt.runner.disk.locks import make_once
from hpobench_nmt.runner.family import TrainingFailed, TrainingStarved

_FAILURE = "failure.txt"


def shared_model(path: Path, train: Callable[[Path, Path], None]) -> Path:
    """The folder of a model. If the cache does not have it, `train` makes it, and its files in it.

    `train` also gets a folder for the state of the training. It is not the job's own, because after a kill
    another configuration may be the first to need this model.

    Raises TrainingFailed if the model cannot be trained. The failure is kept, so that the next configuration
    fails at once.
    """
    state = path.with_name(f"{path.name}.state")

    def make(folder: Path) -> None:
        try:
            train(folder, state)
        except TrainingStarved:
            raise
        except TrainingFailed as error:
            folder.mkdir(parents=True)
            (folder / _FAILURE).write_text(str(error), encoding="utf-8")

    folder = make_once(path, make)
    remove_folder(state)
    if (folder / _FAILURE).exists():
        reason = (folder / _FAILURE).read_text(encoding="utf-8")
        raise TrainingFailed(f"the model cannot be trained: {reason} (kept as {folder.name})")
    return folder
