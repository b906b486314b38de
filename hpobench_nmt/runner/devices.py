"""Devices to train on: those of this machine, and those that a ledger's rows were trained on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError, unknown

THEN = ", then "
"""Joins the names of a training's devices, the first one first, if it was resumed on another device."""


def find_devices(text: str) -> list[str]:
    """Devices from "auto" (all CUDA devices, else the CPU), "cpu", "cuda" or "cuda:0,cuda:1".

    Raises InputError if this machine has no such device.
    """
    if text.strip() == "cpu":
        return ["cpu"]
    if "cpu" in (part.strip() for part in text.split(",")):
        raise InputError(f"--device {text}: give only cpu. --jobs sets the number of trainings at a time.")
    import torch

    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if text == "auto":
        return found or ["cpu"]
    wanted = found if text == "cuda" else [part.strip() for part in text.split(",")]
    if not found and (text == "cuda" or any(w.startswith("cuda:") for w in wanted)):
        raise InputError(f"--device {text}: torch {torch.__version__} finds no CUDA device here.")
    for device in wanted:
        if device not in found:
            raise unknown("device", device, ["auto", "cpu", "cuda", *found], "(--device)")
    return wanted


def first_devices(devices: Sequence[str], workers: int) -> list[str]:
    """The first GPU of each training that can run at the same time, if each uses that many GPUs.

    The order is that of `devices`. A training also uses the GPUs whose numbers follow. Raises InputError if
    there are too few for one training.
    """
    if workers == 1 or list(devices) == ["cpu"]:
        return list(devices)
    import torch

    count, taken, found = torch.cuda.device_count(), set[int](), []
    for device in devices:
        first = int(device.partition(":")[2] or 0)
        own = set(range(first, first + workers))
        if first + workers <= count and not own & taken:
            taken |= own
            found.append(device)
    if not found:
        raise InputError(
            f"workers = {workers} needs as many CUDA devices from {devices[0]} on, but there are only "
            f"{count}. Use fewer workers, or --device cuda:0."
        )
    return found


def visible_gpus() -> list[str]:
    """The GPUs that a program would see, found without torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [number.strip() for number in named.split(",") if number.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return [str(number) for number in range(listed.count("GPU "))]


def cluster_device(text: str, backend: str) -> str:
    """The kind of device that a cluster's trainings use, "cpu" or "cuda": the cluster assigns the devices."""
    if text not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {text}: with --backend {backend} it must be 'auto', 'cpu' or 'cuda'.")
    return "cpu" if text == "auto" else text


def mixed_devices(names: Iterable[str]) -> str:
    """A warning if rows were trained on several models of device, else "". The names come from the ledger."""
    counted = Counter(device_model(name) for name in names if name)
    if len(counted) < 2:
        return ""
    models = ", ".join(f"{name} ({count} row{'s' * (count > 1)})" for name, count in counted.most_common())
    return f"Rows were trained on {models}: times of different devices cannot be compared."


def device_name(device: str) -> str:
    """A device with the name of its model, for the ledger."""
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return f"cpu, one thread: {_cpu_model()}"


def gpu_identity(device: str) -> str:
    """The UUID of a CUDA device, the same under whichever number a process sees the device; "" if unknown."""
    import torch

    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def device_model(name: str) -> str:
    """A device's name in the ledger, without the number that distinguishes it from others of its model.

    If a training was resumed on another device of the same model, that model is named once.
    """
    models = (re.sub(r"^cuda:\d+", "cuda", part) for part in name.split(THEN))
    return THEN.join(dict.fromkeys(models))


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def library_versions(device: str) -> dict[str, str]:
    """Versions of Python, this package, numpy and torch, and of CUDA's libraries if the device uses them."""
    found = {"python": platform.python_version()}
    for package in ("hpobench-nmt", "numpy", "torch"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    if device.startswith("cuda"):
        import torch

        found["cuda"] = str(torch.version.cuda)
        # cuDNN looks at all GPUs, and raises if one is too old for it, even if another one is used.
        with suppress(RuntimeError):
            found["cudnn"] = str(torch.backends.cudnn.version())
    return found
