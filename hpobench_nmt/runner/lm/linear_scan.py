"""A linear recurrence in about 2 sqrt(T) operations instead of T, for GPUs.

    c_t = k_t c_t-1 + b_t        t = 1 .. T; elementwise, arrays of shape (T, ...)

The steps are cut into about sqrt(T) blocks. All blocks are computed at the same time, step by step, each from
zeros. Then the last memory of each block is carried into the next block, multiplied by the product of the k
up to each step:

    c_t = local_t + (k_first .. k_t) c_before the block

Products of numbers between 0 and 1 underflow to 0, as the memory itself does. Time O(T); memory for three
arrays.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_FEW = 16  # up to this many steps, blocks do not pay


def linear_scan(kept: Tensor, added: Tensor, first: Tensor) -> Tensor:
    """c of all steps, shape (T, B, H), with k = kept, b = added, and c_0 = first, shape (B, H)."""
    steps = len(kept)
    if steps <= _FEW:
        found = [first]
        for keep, add in zip(kept.unbind(0), added.unbind(0), strict=True):
            found.append(torch.addcmul(add, keep, found[-1]))
        return torch.stack(found[1:])
    size = math.isqrt(steps - 1) + 1
    blocks = -(-steps // size)
    if missing := blocks * size - steps:
        kept, added = (functional.pad(each, (0, 0, 0, 0, 0, missing)) for each in (kept, added))
    kept, added = (each.unflatten(0, (blocks, size)) for each in (kept, added))
    through = kept.cumprod(1)
    keeps, adds = kept.unbind(1), added.unbind(1)
    local = [adds[0]]
    for keep, add in zip(keeps[1:], adds[1:], strict=True):
        local.append(torch.addcmul(add, keep, local[-1]))
    before = [first]
    for add, keep in zip(local[-1][:-1].unbind(0), through[:-1, -1].unbind(0), strict=True):
        before.append(torch.addcmul(add, keep, before[-1]))
    whole = torch.addcmul(torch.stack(local, 1), through, torch.stack(before)[:, None])
    return whole.flatten(0, 1)[:steps]


def mixed_scan(new: Tensor, share: Tensor, first: Tensor) -> Tensor:
    """All c_t = f_t z_t + (1 - f_t) c_t-1, (T, B, H), with z = new, f = share, (T, B, H), and c_0 = first."""
    found: Tensor = _MixedScan.apply(new, share, first)  # type: ignore[no-untyped-call]
    return found


class _MixedScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, new: Tensor, share: Tensor, first: Tensor) -> Tensor:
        kept = 1.0 - share
        memories = linear_scan(kept, share * new, first)
        ctx.save_for_backward(new, share, kept, memories, first)
        return memories

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        new, share, kept, memories, first = ctx.saved_tensors
        # Backwards in time: c_t-1 receives its own gradient, and k_t times the whole gradient of c_t.
        handed = kept.flip(0), (kept * gradient).flip(0)
        passed = linear_scan(*handed, torch.zeros_like(first)).flip(0)
        whole = torch.cat((gradient[:-1] + passed[1:], gradient[-1:]))
        before = torch.cat((first[None], memories[:-1]))
        return whole * share, whole * (new - before), passed[0]
