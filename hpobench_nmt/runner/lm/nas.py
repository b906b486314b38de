"""The NAS cell, found by a search on Penn Treebank (Zoph & Le 2017). Symbols and masks as in cells.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hpobench_nmt.runner.lm.cells import Mask, back_through_time, bend, masked, outer, shifted, slope

BLOCKS = (4, 6, 5, 7, 0, 2, 1, 3)
"""Which leaf of the NAS cell each block of its pre-activations belongs to."""


def nas(
    inputs: Tensor,
    weight: Tensor,
    h: Tensor,
    c: Tensor,
    state_mask: Mask = None,
    update_mask: Mask = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Eight leaves joined in pairs, the first pair with the memory.

        a_0 = sigmoid(z_0)   a_1 = relu(z_1)               l_0 = tanh(a_0 a_1)
        a_2 = sigmoid(z_2)   a_3 = relu(x_3 . (R h)_3)     l_1 = tanh(a_2 + a_3)
        a_4 = tanh(z_4)      a_5 = sigmoid(z_5)            l_2 = tanh(a_4 a_5)
        a_6 = tanh(z_6)      a_7 = sigmoid(z_7)            l_3 = sigmoid(a_6 + a_7)
        c_t = tanh(u . l_0 + c_t-1) l_1                    h_t = tanh(c_t tanh(l_2 + l_3))

    Leaf 3 multiplies where the others add; there are no biases.

    Args:
        inputs: shape (T, B, 8 H), in blocks 4, 6, 5, 7, 0, 2, 1, 3: those of one kind are neighbours.
        weight: shape (8 H, H), in the same order.
        h, c: the state, shape (B, H).
        state_mask: on h_t-1.
        update_mask: u, on what is added to the memory.

    Returns:
        Outputs (T, B, H), and h and c after the last step.
    """
    outputs, c = _NAS.apply(inputs, weight, h, c, state_mask, update_mask)  # type: ignore[no-untyped-call]
    return outputs, outputs[-1], c


class _NAS(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        h: Tensor,
        c: Tensor,
        state_mask: Mask,
        update_mask: Mask,
    ) -> tuple[Tensor, Tensor]:
        hidden = h.shape[1]
        product = 7 * hidden  # where the block of the multiplying leaf starts
        z = torch.empty_like(inputs)
        from_state, cells, outputs = h.new_empty((3, len(inputs), *h.shape)).unbind(0)
        inner = h.new_empty((len(inputs), len(h), 6, hidden))  # l_0 to l_3, the new memory, the output gate
        last_h, last_c, transposed = h, c, weight.t()
        for t, x in enumerate(inputs.unbind(0)):
            zt = torch.mm(masked(last_h, state_mask), transposed, out=z[t])
            from_state[t] = zt[:, product:]
            zt[:, :product].add_(x[:, :product])
            zt[:, product:].mul_(x[:, product:])
            zt[:, : 2 * hidden].tanh_()
            zt[:, 2 * hidden : 6 * hidden].sigmoid_()
            zt[:, 6 * hidden :].relu_()
            a = dict(zip(BLOCKS, zt.view(len(h), 8, hidden).unbind(1), strict=True))
            l0, l1, l2, l3, memory, gate = inner[t].unbind(1)
            torch.mul(a[0], a[1], out=l0).tanh_()
            torch.add(a[2], a[3], out=l1).tanh_()
            torch.mul(a[4], a[5], out=l2).tanh_()
            torch.add(a[6], a[7], out=l3).sigmoid_()
            torch.add(masked(l0, update_mask), last_c, out=memory).tanh_()
            torch.add(l2, l3, out=gate).tanh_()
            last_c = torch.mul(memory, l1, out=cells[t])
            last_h = torch.mul(last_c, gate, out=outputs[t]).tanh_()
        ctx.save_for_backward(
            inputs, z, inner, from_state, cells, outputs, weight, h, state_mask, update_mask
        )
        return outputs, last_c.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:
        inputs, z, inner, from_state, cells, outputs, weight, h, state_mask, update_mask = ctx.saved_tensors
        hidden = h.shape[1]
        product = 7 * hidden
        a = dict(zip(BLOCKS, z.view(*z.shape[:2], 8, hidden).unbind(2), strict=True))
        l0, l1, l2, l3, memory, gate = inner.unbind(2)
        bent = bend(outputs)
        on_gate = bent * cells * bend(gate)
        on_memory = l1 * bend(memory)
        on_l0 = masked(on_memory, update_mask) * bend(l0)
        on_l1 = memory * bend(l1)
        on_l2, on_l3 = on_gate * bend(l2), on_gate * slope(l3)
        leaves = {
            0: on_l0 * a[1] * slope(a[0]),
            1: on_l0 * a[0] * (a[1] > 0),
            2: on_l1 * slope(a[2]),
            3: on_l1 * (a[3] > 0),
            4: on_l2 * a[5] * bend(a[4]),
            5: on_l2 * a[4] * slope(a[5]),
            6: on_l3 * bend(a[6]),
            7: on_l3 * slope(a[7]),
        }
        factors = torch.stack([leaves[leaf] for leaf in BLOCKS], 2)
        multiplied = torch.empty_like(from_state)

        def to_state(t: int, dz: Tensor) -> Tensor:
            torch.mul(dz[:, product:], inputs[t, :, product:], out=multiplied[t])
            dh = torch.addmm(dz[:, :product] @ weight[:product], multiplied[t], weight[product:])
            return masked(dh, state_mask)

        dz, dh, dc = back_through_time(factors, 4, bent * gate, on_memory, grad_outputs, grad_c, to_state)
        dw = None
        if ctx.needs_input_grad[1]:
            before = masked(shifted(h, outputs), state_mask)
            dw = torch.cat((outer(dz[:, :, :product], before), outer(multiplied, before)))
        dz[:, :, product:].mul_(from_state)
        return dz, dw, dh, dc, None, None
