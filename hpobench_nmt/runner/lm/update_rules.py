"""The update rules of dynamic evaluation as functions of flat arrays; dynamic.py has the equations.

Memory traffic limits them. The RMS rule takes torch several passes over its arrays; on a CPU a compiled loop
reads and writes each array once, and a whole update of dynamic evaluation is 1.3 to 1.4 times as fast
(benchmarks/language_model_gradients.py). Elsewhere chunks bound the memory that intermediate results need.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from hpobench_nmt.core.arrays import Floats32
from hpobench_nmt.core.compiled import compiled

_CHUNK = 1 << 24

# Without these promises (no NaN, products rounded once) the loops do not use the vector unit.
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
    """L <- L - eta g / (R + epsilon) + min(decay + per_rms R, 1) (G - L), in place: eq. 6 and eq. 8."""
    if local.device.type == "cpu":
        numbers = (np.float32(x) for x in (eta, epsilon, decay, per_rms))
        _descend_rms(local.numpy(), whole.numpy(), gradient.numpy(), rms.numpy(), *numbers)
        return
    for start in range(0, len(local), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        values, r = local[chunk], rms[chunk]
        values.lerp_(whole[chunk], r.mul(per_rms).add_(decay).clamp_(max=1.0))
        values.addcdiv_(gradient[chunk], r + epsilon, value=-eta)


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
