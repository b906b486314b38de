"""The function that runs in a training's own process."""

from __future__ import annotations

import errno
import math
import re
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError, one_line
from hpobench_nmt.core.system.folders import remove_folder
from hpobench_nmt.runner.devices import THEN, device_name, library_versions
from hpobench_nmt.runner.disk.curve_file import CURVE
from hpobench_nmt.runner.disk.kept_model import KEPT
from hpobench_nmt.runner.disk.save_requests import LISTENS, SAVE_NOW
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job, Outcome, TrainingFailed, TrainingStarved, tells_of_no_memory

_NONDETERMINISTIC = r"(.+?) (?:does not have a deterministic implementation|defaults to a non-deterministic)"


@dataclass(frozen=True)
class TrainingResult:
    """How a training ended: with an outcome, with a failure, or with an error of the whole run.

    Attributes:
        failure: why the configuration could not be trained, in which case there is no outcome.
        wrong_input: what is wrong with the spec or the corpus, so that no configuration can be trained.
        device: the device's name. If the training was resumed on other devices, all names in order.
        seconds: time of training and measuring in this process, without its start; 0 if it was killed.
        starved: it ran out of memory, or a command that it had started was killed.
        not_kept: why its model could not be saved, if it had to be.
        nondeterministic: the parts of the training that differ each time; empty if it can be repeated bit by
            bit.
    """

    outcome: Outcome | None = None
    failure: str = ""
    wrong_input: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    starved: bool = False
    not_kept: str = ""
    nondeterministic: str = ""


def train_one(family: str, job: Job[Any]) -> TrainingResult:
    """Train and measure one configuration. Running out of memory is a failure of the configuration."""
    import torch

    torch.set_num_threads(1)  # the same sums in the same order on every machine
    start = time.perf_counter()
    device, outcome, failure, starved = job.device, None, "", False
    operations: set[str] = set()
    try:
        device = _devices(job)  # opens CUDA, which fails on a GPU without free memory
        with _noted_operations(operations):
            train = load_family(family).train
            assert train  # only a user's own program has none
            outcome = _finite(train(job))
    except TrainingFailed as error:
        failure, starved = str(error), isinstance(error, TrainingStarved)
    except InputError as error:
        return TrainingResult(wrong_input=str(error))
    except (MemoryError, RuntimeError, OSError) as error:
        if not _out_of_memory(error):
            raise
        failure, starved = "out of memory", True
    seconds = time.perf_counter() - start
    not_kept = _save(outcome, job.scratch / KEPT) if outcome and job.keep and not outcome.paused else ""
    outcome = replace(outcome, save=None) if outcome else None  # `save` cannot be sent to another process
    versions = {**library_versions(job.device), **(outcome.versions if outcome else {})}
    told = [outcome.nondeterministic] if outcome and outcome.nondeterministic else []
    operation = ", ".join([*told, *sorted(operations)])
    return TrainingResult(outcome, failure, "", device, versions, seconds, starved, not_kept, operation)


@contextmanager
def _noted_operations(names: set[str]) -> Iterator[None]:
    """Inside, `names` collects the operations that torch reports as not deterministic."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=_NONDETERMINISTIC)
        show = warnings.showwarning

        def note(message: Warning | str, *where: Any, **options: Any) -> None:
            if found := re.match(_NONDETERMINISTIC, str(message)):
                if found[1] in names:  # already in the log
                    return
                names.add(found[1])
            show(message, *where, **options)

        warnings.showwarning = note
        yield


def _devices(job: Job[Any]) -> str:
    """The names of the training's devices so far, the current device last. They are kept with its state."""
    now = device_name(job.device)
    if job.state is None:
        return now
    path = job.state / _DEVICES
    names = []
    with suppress(OSError, UnicodeDecodeError):
        # Earlier devices count only if there is a state to resume from.
        if any(entry.name not in _NO_STATE for entry in job.state.iterdir()):
            names = path.read_text(encoding="utf-8").splitlines()
    if names[-1:] != [now]:
        names.append(now)
        with suppress(OSError):
            job.state.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(names) + "\n", encoding="utf-8")
    return THEN.join(names)


_DEVICES = "devices"
# Files in the folder of a state that are not part of it. A curve is written before the first state is saved.
_NO_STATE = (_DEVICES, CURVE, LISTENS, SAVE_NOW, "part")


def _save(outcome: Outcome, folder: Path) -> str:
    """Save the best model in a new folder. Returns why that failed, or "". No error ends the training."""
    if outcome.save is None:
        return "its family has no way to save one"
    try:
        folder.mkdir()
        outcome.save(folder)
    except Exception as error:  # torch reports a full disk by errors of its own
        traceback.print_exc()
        remove_folder(folder)
        return one_line(error)
    return ""


def _finite(outcome: Outcome) -> Outcome:
    if wrong := [name for name, value in outcome.metrics.items() if not math.isfinite(value)]:
        raise TrainingFailed(f"{', '.join(wrong)}: not a finite number")
    return outcome


def _out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or tells_of_no_memory(str(error))
