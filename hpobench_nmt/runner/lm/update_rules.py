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


def descend(local: Tensor, whole: Tensor, gradient: Tensor, eta: float, decay: float) -> None:
    """L <- L - eta g + decay (G - L), in place: eq. 4, and plain gradient descent where decay is 0."""
    if decay:
        local.lerp_(whole, decay)
    local.add_(gradient, alpha=-eta)


def descend_rms(
    local: Tensor,
    whole: Tensor,
    gradient: Tensor,
    rms: Tensor,
    eta: float,
    epsilon: float,
    decay: float,
    per_rms: float,
) -> None:
    """L <- L - eta g / (R + epsilon) + min(decay + per_rms R, 1) (G - L), in place: eq. 6 and eq. 8.

    The arrays are flat and on a CPU.
    """
    numbers = (np.float32(x) for x in (eta, epsilon, decay, per_rms))
    _descend_rms(local.numpy(), whole.numpy(), gradient.numpy(), rms.numpy(), *numbers)


class Group:
    """Tensors, or parts of large ones, that an update on a GPU changes together, in two to six operations."""

    def __init__(self, places: Sequence[tuple[int, slice | None]]) -> None:
        self._places = places

    def of(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of the group, or their parts, from tensors in the order that `groups` received."""
        return [
            tensors[number] if part is None else tensors[number].view(-1)[part]
            for number, part in self._places
        ]


def groups(sizes: Sequence[int]) -> Iterator[Group]:
    """Groups of tensors with these numbers of elements; each group has at most 2^24 elements."""
    places: list[tuple[int, slice | None]] = []
    held = 0
    for number, size in enumerate(sizes):
        parts = [None] if size <= _CHUNK else [slice(i, i + _CHUNK) for i in range(0, size, _CHUNK)]
        for part in parts:
            length = size if part is None else min(_CHUNK, size - part.start)
            if places and held + length > _CHUNK:
                yield Group(places)
                places, held = [], 0
            places.append((number, part))
            held += length
    yield Group(places)


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
    """`descend`, or `descend_rms` if rms is given, for many tensors of one device, of any shape."""
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
def _descend_rms(
    local: Floats32,
    whole: Floats32,
    gradient: Floats32,
    rms: Floats32,
    eta: np.float32,
    epsilon: np.float32,
    decay: np.float32,
    per_rms: np.float32,
) -> None:  # pragma: no cover - compiled
    most = np.float32(1.0)
    for i in range(local.size):
        r = rms[i]
        pull = min(decay + per_rms * r, most)
        local[i] += pull * (whole[i] - local[i]) - eta * gradient[i] / (r + epsilon)
