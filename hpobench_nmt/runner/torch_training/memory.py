"""The number of a model's parameters, and the memory of its training and evaluation."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from pathlib import Path

import torch
from torch import nn


def size_metrics(model: nn.Module) -> dict[str, float]:
    """num_param, memory (not on Windows), and gpu_memory (if the model is on a CUDA device)."""
    found = {"num_param": float(parameter_count(model))}
    with contextlib.suppress(ImportError):
        import resource

        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["memory"] = resident * (1 if sys.platform == "darwin" else 1024) / 1e6
    device = next(model.parameters()).device
    if device.type == "cuda":
        found["gpu_memory"] = torch.cuda.max_memory_allocated(device) / 1e6
    return found


def forget_gpu_peak(device: torch.device) -> float | None:
    """The peak memory (MB) of tensors on a CUDA device, which is then reset; None on a CPU."""
    if device.type != "cuda":
        return None
    held = torch.cuda.max_memory_allocated(device) / 1e6
    torch.cuda.reset_peak_memory_stats(device)
    return held


def memory_of_phases(training: float | None, measuring: float | None) -> dict[str, float]:
    """gpu_memory, which is the larger peak of the two phases, and both peaks; empty without a GPU."""
    if training is None or measuring is None:
        return {}
    parts = {"train_gpu_memory": training, "eval_gpu_memory": measuring}
    return {**parts, "gpu_memory": max(parts.values())}


def forget_peak(device: torch.device) -> None:
    """Reset the peak that `memory` reports to what the process holds now, if the system can (Linux)."""
    gc.collect()
    # With glibc, this returns free memory to the system.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    forget_gpu_peak(device)


def parameter_count(model: nn.Module) -> int:
    """Number of parameters; a tied one counts once."""
    return sum(p.numel() for p in model.parameters())
