"""The update rules of dynamic evaluation as functions of arrays; dynamic.py has the equations.

On a CPU, memory traffic limits their speed. For the RMS rule, torch makes several passes over the arrays. A
compiled loop reads and writes each array once, which makes a whole update of dynamic evaluation 1.3 to 1.4
times as fast (benchmarks/speed/language_model_gradients.py). On a GPU, the number of operations limits their
speed. There, an update changes many tensors at a time, in groups that bound the memory of intermediate
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats32
from hpobench_nmt.core.system.compiled import compiled

_CHUNK = 1 << 24

# Without these assumptions (no NaN, products rounded once), the loops do not use the vector unit.
_FAST = {"nnan", "nsz", "contract"}


Places = Sequence[tuple[int, slice | None]]
"""Tensors by their numbers, or parts of large ones, which one update changes together."""


def parts_at(places: Places, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, or their parts, from tensors in the order that `groups` received."""
    return [tensors[number] if part is None else tensors[number].view(-1)[part] for number, part in places]


def groups(sizes: Sequence[int]) -> Iterator[Places]:
    """Groups of tensors with these numbers of elements; each group has at most 2^24 elements."""
    places: list[tuple[int, slice | None]] = []
    held = 0
    for number, size in enumerate(sizes):
        parts = [None] if size <= _CHUNK else [slice(i, i + _CHUNK) for i in range(0, size, _CHUNK)]
        for part in parts:
            length = size if part is None else min(_CHUNK, size - part.start)
            if places and held + length > _CHUNK:
                yield places
                places, held = [], 0
            places.append((number, part))
            held += length
    yield places


def descend_together(
    local: list[Tensor],
    whole: list[Tensor],
    gradient: list[Tensor],
    rms: list[Tensor] | None,
    eta: float,
    epsilon: float,
    decay: float,
    per_rms: float,
) -> None:
    """`descend_rms` for many tensors of one device, of any shape, in two to six operations.

    Without rms: L <- L - eta g + decay (G - L), eq. 4, which is plain gradient descent where decay is 0.
    """
    if per_rms and rms is not None:
        pulls = torch._foreach_mul(rms, per_rms)
        torch._foreach_add_(pulls, decay)
        torch._foreach_clamp_max_(pulls, 1.0)
        torch._foreach_lerp_(local, whole, pulls)
    elif decay:
        torch._foreach_lerp_(local, whole, decay)
    if rms is None:
        torch._foreach_add_(local, gradient, alpha=-eta)
    else:
        torch._foreach_addcdiv_(local, gradient, torch._foreach_add(rms, epsilon), value=-eta)


@compiled(fastmath=_FAST, error_model="numpy")
def descend_rms(
    local: Floats32,
    whole: Floats32,
    gradient: Floats32,
    rms: Floats32,
    eta: np.float32,
    epsilon: np.float32,
    decay: np.float32,
    per_rms: np.float32,
) -> None:  # pragma: no cover - compiled
    """L <- L - eta g / (R + epsilon) + min(decay + per_rms R, 1) (G - L), in place: eq. 6 and eq. 8.

    The arrays are flat.
    """
    most = np.float32(1.0)
    for i in range(local.size):
        r = rms[i]
        pull = min(decay + per_rms * r, most)
        local[i] += pull * (whole[i] - local[i]) - eta * gradient[i] / (r + epsilon)
