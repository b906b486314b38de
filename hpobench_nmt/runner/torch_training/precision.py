"""Mixed precision in training: matrix products in 16 bits, all else in 32 (Micikevicius et al. 2018).

Weights, gradients of weights, optimisers, the states of recurrent layers and the softmax have 32 bits. Only
the forward and backward passes of training read weights and vectors in 16 bits. Evaluation never does: losses
of dev and test, dynamic evaluation and all other measurements have 32 bits, whatever the precision of
training.

tf32 rounds the factors of 32-bit products to 10 bits after the point, on GPUs that support it. bf16 has the
range of 32-bit numbers. fp16 has a smaller range. With fp16, the loss is therefore scaled up, so that small
gradients are not lost, and the gradients are scaled down again. An update whose gradients overflow is
skipped, and the scale is halved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from hpobench_nmt.core.system.errors import InputError

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def products_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Inside, torch computes matrix products in that precision; `rounded_products` does it for "tf32".

    Raises InputError if the device does not support them.
    """
    if precision in ("fp32", "tf32"):
        return nullcontext()
    try:
        return torch.autocast(device.type, _DTYPES[precision])
    except RuntimeError as error:
        raise InputError(f'precision = "{precision}" is not possible on {device}: {error}') from None


@contextmanager
def rounded_products(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, CUDA computes products in tf32 if that is the precision, also in backward passes.

    Raises InputError for tf32 on a CPU, which does not support it.
    """
    if precision != "tf32":
        yield
        return
    if device.type == "cpu":
        raise InputError('precision = "tf32" is not possible on a CPU. Use "fp32", or a CUDA device.')
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False


def loss_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Scales the loss of fp16 up, and its gradients down again. For other precisions, it changes nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def for_products(weight: Tensor) -> Tensor:
    """A weight in the precision of matrix products: cast once here, not again at every time step."""
    device = weight.device.type
    return weight.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else weight
