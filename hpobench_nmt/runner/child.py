"""What runs in a training's own process."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job, Outcome, TrainingFailed, TrainingStarved, tells_of_no_memory


@dataclass(frozen=True)
class Answer:
    """How a training went: an outcome, or why it failed, or what is wrong with the run as a whole.

    `seconds` are those of training and measuring, without the start of the process; 0 where it was killed.
    `starved`: it found no memory, or a command that trained for it was killed.
    """

    outcome: Outcome | None = None
    failure: str = ""
    wrong_input: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    starved: bool = False


def train_one(family: str, job: Job) -> Answer:
    """Train one configuration. What it cannot learn or hold in memory is a failure of the configuration."""
    import torch

    torch.set_num_threads(1)  # the same sums in the same order on every machine
    start = time.perf_counter()
    outcome, failure, starved = None, "", False
    try:
        outcome = _finite(load_family(family).train(job))
    except TrainingFailed as error:
        failure, starved = str(error), isinstance(error, TrainingStarved)
    except InputError as error:
        return Answer(wrong_input=str(error))
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        failure, starved = "out of memory", True
    seconds = time.perf_counter() - start
    versions = {**library_versions(job.device), **(outcome.versions if outcome else {})}
    return Answer(outcome, failure, "", device_name(job.device), versions, seconds, starved)


def _finite(outcome: Outcome) -> Outcome:
    wrong = [name for name, value in outcome.metrics.items() if not math.isfinite(value)]
    if wrong:
        raise TrainingFailed(f"{', '.join(wrong)} came out as no finite number")
    return outcome


def _out_of_memory(error: BaseException) -> bool:
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or tells_of_no_memory(str(error))


def device_name(device: str) -> str:
    """A device with the name of its model, for the ledger."""
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return f"cpu, one thread: {_cpu()}"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def library_versions(device: str) -> dict[str, str]:
    """Of Python, this package, numpy and torch, and of CUDA's libraries where they are used."""
    found = {"python": platform.python_version()}
    for package in ("hpobench-nmt", "numpy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if device.startswith("cuda"):
        import torch

        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found
