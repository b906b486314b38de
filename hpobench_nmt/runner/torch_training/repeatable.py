"""What makes a training repeatable: exact arithmetic, sums in a fixed order, and seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def set_up(device: str) -> torch.device:
    """The device of that name, ready for full 32-bit arithmetic in a fixed order; one thread on a CPU."""
    chosen = torch.device(device)
    torch.set_float32_matmul_precision("highest")
    if chosen.type == "cpu":
        torch.set_num_threads(1)
    else:
        torch.backends.cudnn.allow_tf32 = False
        # Without this, a few operations (such as index_add) sum in any order. cuBLAS reads its own setting
        # when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN's attention has no fixed order
        # Deterministic algorithms also fill every new tensor, but all are written before they are read.
        deterministic: Any = torch.utils.deterministic
        deterministic.fill_uninitialized_memory = False
    return chosen


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Inside, a GPU's operations add in a fixed order where they can, and raise where they cannot.

    Fused attention adds up its gradients in a fixed order only while torch raises such errors.
    """
    if device.type != "cuda":
        yield
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=True)


@contextmanager
def without_denormals() -> Iterator[None]:
    """Inside, numbers near 1e-40 become 0 on a CPU: averages of gradients this low slow AdamW 15 times.

    Other libraries of the process rely on such numbers. SciPy's k-d trees, for instance, crash without them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def seeds_of(seed: int) -> tuple[int, int]:
    """Two seeds from the seed of a training: of the model (weights and dropout), and of the data's order."""
    of_model, of_data = np.random.SeedSequence(seed).generate_state(2)
    return int(of_model), int(of_data)
