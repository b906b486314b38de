"""An LSTM layer that reads one sequence on a CPU, for a few time steps at once.

torch.lstm rearranges the weights at each call. That pays for long batches, but not for the segments of
dynamic evaluation. With segments of 5 tokens, a pass of dynamic evaluation is 1.4 times as fast as with
torch.lstm, and 1.6 times as fast as with torch.lstm_cell (benchmarks/speed/language_model_gradients.py).

With inputs x (T, I), units H, and gates i, f, g, o in blocks of z:

    z_t = W_ih x_t + b_ih + W_hh h_t-1 + b_hh
    c_t = sigmoid(z_f) c_t-1 + sigmoid(z_i) tanh(z_g),   h_t = sigmoid(z_o) tanh(c_t)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hpobench_nmt.core.arrays import Floats32
from hpobench_nmt.core.system.compiled import compiled

# Allows sums in any order and products that are rounded once. Otherwise the loops do not use the vector unit.
_FAST = {"nnan", "nsz", "contract", "reassoc"}


def lstm(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (T, H), and h and c after the last step, (H,), of inputs (T, I) and the state before, (H,).

    The weights are W_ih (4 H, I), W_hh (4 H, H), b_ih and b_hh (4 H,).
    """
    outputs, c = _Single.apply(x, h, c, *weights)  # type: ignore[no-untyped-call]
    return outputs, outputs[-1], c


class _Single(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
    ) -> tuple[Tensor, Tensor]:
        z = torch.addmm(b_ih + b_hh, x, w_ih.t())
        # There is one row more than steps, because the first is the state before the sequence.
        hs, cs = x.new_empty(2, len(x) + 1, len(h)).unbind(0)
        hs[0], cs[0] = h, c
        _forward(z.numpy(), w_hh.detach().numpy(), hs.numpy(), cs.numpy())
        ctx.save_for_backward(x, z, hs, cs, w_ih, w_hh)
        return hs[1:], cs[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:
        x, z, hs, cs, w_ih, w_hh = ctx.saved_tensors
        dz, dh, dc = torch.empty_like(z), torch.zeros_like(grad_c), grad_c.clone()
        gradient = grad_outputs.contiguous()
        arrays = (each.numpy() for each in (z, w_hh.detach(), cs, gradient, dz, dh, dc))
        _backward(*arrays)
        bias = dz.sum(0)
        transposed = dz.t()
        return dz @ w_ih, dh, dc, transposed @ x, transposed @ hs[:-1], bias, bias.clone()


@compiled(fastmath=_FAST, error_model="numpy")
def _forward(z: Floats32, w: Floats32, hs: Floats32, cs: Floats32) -> None:  # pragma: no cover - compiled
    """Sets rows 1 to T of hs and cs. z (T, 4 H) has the inputs' contributions, and then the gates' values."""
    one = np.float32(1.0)
    units = hs.shape[1]
    for t in range(len(z)):
        for row in range(4 * units):
            total = np.float32(0.0)
            for k in range(units):
                total += w[row, k] * hs[t, k]
            value = z[t, row] + total
            if 2 * units <= row < 3 * units:
                z[t, row] = math.tanh(value)
            else:
                z[t, row] = one / (one + math.exp(-value))
        for k in range(units):
            i, f, g, o = z[t, k], z[t, units + k], z[t, 2 * units + k], z[t, 3 * units + k]
            cs[t + 1, k] = f * cs[t, k] + i * g
            hs[t + 1, k] = o * math.tanh(cs[t + 1, k])


@compiled(fastmath=_FAST, error_model="numpy")
def _backward(
    z: Floats32, w: Floats32, cs: Floats32, grad: Floats32, dz: Floats32, dh: Floats32, dc: Floats32
) -> None:  # pragma: no cover - compiled
    """Sets dz (T, 4 H), and changes dh and dc (H,) from gradients of the last state to those of the first."""
    one = np.float32(1.0)
    units = len(dh)
    for t in range(len(z) - 1, -1, -1):
        for k in range(units):
            i, f, g, o = z[t, k], z[t, units + k], z[t, 2 * units + k], z[t, 3 * units + k]
            squashed = math.tanh(cs[t + 1, k])
            above = grad[t, k] + dh[k]
            inside = dc[k] + above * o * (one - squashed * squashed)
            dz[t, k] = inside * g * i * (one - i)
            dz[t, units + k] = inside * cs[t, k] * f * (one - f)
            dz[t, 2 * units + k] = inside * i * (one - g * g)
            dz[t, 3 * units + k] = above * squashed * o * (one - o)
            dc[k] = inside * f
            dh[k] = 0.0
        for row in range(4 * units):
            factor = dz[t, row]
            for k in range(units):
                dh[k] += factor * w[row, k]
