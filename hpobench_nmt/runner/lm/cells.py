"""LSTM and recurrent highway network (RHN) as in Melis et al. (2018), and what their gradients share.

T time steps, B sequences, H hidden units, G blocks of H pre-activations. What the input contributes to
the pre-activations is computed for all time steps at once, by the caller; a cell adds what the state
contributes:

    z_t = x_t + R (s . h_t-1)        x (T, B, G H), R (G H, H), s the state mask

The gradients are written by hand. In these cells, in the NAS cell and in the mLSTM, the gradient of z_t is,
element by element, that of h_t or of c_t times a factor known from the forward pass. So the factors are
computed for all time steps at once, and a step back is a matrix product and a handful of element-wise
operations. That takes half to two thirds of the time of the same loop under automatic differentiation.

Dropout of the recurrence, one mask a sequence, is passed as masks of shape (B, H), scaled by whoever
drew them: `state_mask` is the variational kind (Gal & Ghahramani 2016), the same for all gates, and
`update_mask` the recurrent kind (Semeniuta et al. 2016), on the update before it enters the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Gates = Literal["capped", "tied", "untied"]
Mask = Tensor | None


def lstm(
    inputs: Tensor,
    weight: Tensor,
    h: Tensor,
    c: Tensor,
    gates: Gates,
    state_mask: Mask = None,
    update_mask: Mask = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """An LSTM as in Sak et al. (2014), without peepholes or projection.

        o, f, i = sigmoid(z_o, z_f, z_i),  j = u . tanh(z_j)        u the update mask
        c_t = f c_t-1 + i j                        untied (Melis et al., eq. 1)
        c_t = f c_t-1 + (1 - f) j                  tied   (eq. 2)
        c_t = f c_t-1 + min(1 - f, i) j            capped (eq. 3)
        h_t = o tanh(c_t)

    Args:
        inputs: shape (T, B, 4 H), blocks o, f, i, j; tied: (T, B, 3 H), o, f, j.
        weight: shape (4 H, H), or (3 H, H).
        h, c: the state, shape (B, H).
        gates: how much of the update is let in.
        state_mask: on h_t-1.
        update_mask: on the update j.

    Returns:
        Outputs (T, B, H), and h and c after the last step.
    """
    outputs, c = _LSTM.apply(inputs, weight, h, c, gates, state_mask, update_mask)  # type: ignore[no-untyped-call]
    return outputs, outputs[-1], c


def rhn(
    inputs: Tensor,
    weights: Tensor,
    biases: Tensor,
    s: Tensor,
    state_mask: Mask = None,
    update_mask: Mask = None,
) -> tuple[Tensor, Tensor]:
    """A recurrent highway network: L processing steps a token, carry gate 1 - t (Zilly et al. 2017).

        z = R_l (m . s) + (x_t for l = 1, b_l for l > 1)        m the state mask
        h = u . tanh(z_h),  t = sigmoid(z_t)                     u the update mask
        s = t h + (1 - t) s

    The state never leaves [-1, 1] when no mask scales the update.

    Args:
        inputs: shape (T, B, 2 H), blocks h, t.
        weights: shape (L, 2 H, H).
        biases: of the steps after the first, shape (L - 1, 2 H).
        s: the state, shape (B, H).
        state_mask: on s, the same in every processing step.
        update_mask: on h, the same in every processing step.

    Returns:
        The state after each token, (T, B, H), and after the last.
    """
    outputs: Tensor = _RHN.apply(inputs, weights, biases, s, state_mask, update_mask)  # type: ignore[no-untyped-call]
    return outputs, outputs[-1]


def lstm_step(
    z: Tensor, cell: Tensor, squashed: Tensor, output: Tensor, c: Tensor, gates: Gates, update_mask: Mask
) -> None:
    """One step of an LSTM: z (B, G H) is activated in place; c_t, tanh c_t and h_t are written, (B, H)."""
    hidden = c.shape[1]
    z[:, :-hidden].sigmoid_()
    blocks = z.view(len(c), -1, hidden).unbind(1)
    o, f, j = blocks[0], blocks[1], blocks[-1].tanh_()
    if gates == "untied":
        admitted = blocks[2]
    else:
        admitted = 1.0 - f
        if gates == "capped":
            torch.minimum(admitted, blocks[2], out=admitted)
    torch.mul(f, c, out=cell)
    cell.addcmul_(admitted, j if update_mask is None else j * update_mask)
    torch.tanh(cell, out=squashed)
    torch.mul(o, squashed, out=output)


def lstm_factors(
    z: Tensor, before: Tensor, squashed: Tensor, gates: Gates, update_mask: Mask
) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of an LSTM's gradient: those of z, of c_t in h_t, and of c_t-1 in c_t.

    Args:
        z: activated blocks, shape (T, B, G, H).
        before: c_t-1, shape (T, B, H).
        squashed: tanh c_t, likewise.
        gates: as in `lstm`.
        update_mask: as in `lstm`.
    """
    o, f, j = z[:, :, 0], z[:, :, 1], z[:, :, -1]
    update = j if update_mask is None else j * update_mask
    factors = torch.empty_like(z)
    torch.mul(slope(o), squashed, out=factors[:, :, 0])
    if gates == "untied":
        admitted = z[:, :, 2]
        torch.mul(before, slope(f), out=factors[:, :, 1])
        torch.mul(update, slope(admitted), out=factors[:, :, 2])
    elif gates == "tied":
        admitted = 1.0 - f
        torch.mul(before - update, slope(f), out=factors[:, :, 1])
    else:
        i = z[:, :, 2]
        admitted = torch.minimum(1.0 - f, i)
        shut = update.masked_fill(admitted == i, 0.0)  # where f, not i, says how much is let in
        torch.mul(before - shut, slope(f), out=factors[:, :, 1])
        torch.mul(update - shut, slope(i), out=factors[:, :, 2])
    torch.addcmul(admitted, admitted, j.square(), value=-1.0, out=factors[:, :, -1])
    if update_mask is not None:
        factors[:, :, -1].mul_(update_mask)
    return factors, torch.addcmul(o, o, squashed.square(), value=-1.0), f


def back_through_time(
    factors: Tensor,
    of_output: int,
    cell_in_output: Tensor,
    carried: Tensor,
    grad_outputs: Tensor,
    grad_c: Tensor,
    to_state: Callable[[int, Tensor], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the pre-activations (T, B, G H), of the first h and of the first c.

    Args:
        factors: of the pre-activations, shape (T, B, G, H); overwritten by their gradients.
        of_output: how many of the G blocks act on h_t; the others act on c_t.
        cell_in_output: d h_t / d c_t, shape (T, B, H).
        carried: d c_t / d c_t-1, likewise.
        grad_outputs: shape (T, B, H).
        grad_c: of the last cell, shape (B, H).
        to_state: from t and the gradient of z_t, (B, G H), to the gradient of h_t-1.
    """
    steps, batch, blocks, hidden = factors.shape
    flat = factors.view(steps, batch, blocks * hidden)
    on_h, on_c = factors[:, :, :of_output].unbind(0), factors[:, :, of_output:].unbind(0)
    dh, dc = torch.zeros_like(grad_c), grad_c
    for t in range(steps - 1, -1, -1):
        dh = dh + grad_outputs[t]
        dc = torch.addcmul(dc, dh, cell_in_output[t])
        on_h[t].mul_(dh.unsqueeze(1))
        on_c[t].mul_(dc.unsqueeze(1))
        dc.mul_(carried[t])
        dh = to_state(t, flat[t])
    return flat, dh, dc


def shifted(first: Tensor, values: Tensor) -> Tensor:
    """What each step started from: `first`, then all `values` but the last."""
    return torch.cat((first.unsqueeze(0), values[:-1]))


def masked(x: Tensor, mask: Mask) -> Tensor:
    """x, with its mask if there is one."""
    return x if mask is None else x * mask


def outer(dz: Tensor, x: Tensor) -> Tensor:
    """The gradient of a weight (G, H) from those of its results (..., G) and what it multiplied (..., H)."""
    return dz.reshape(-1, dz.shape[-1]).t() @ x.reshape(-1, x.shape[-1])


def slope(sigmoid: Tensor) -> Tensor:
    """The derivative of a sigmoid from its value."""
    return torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1.0)


def bend(tanh: Tensor) -> Tensor:
    """The derivative of a tanh from its value."""
    return tanh.square().neg_().add_(1.0)


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        h: Tensor,
        c: Tensor,
        gates: Gates,
        state_mask: Mask,
        update_mask: Mask,
    ) -> tuple[Tensor, Tensor]:
        z = torch.empty_like(inputs)
        cells, squashed, outputs = h.new_empty((3, len(inputs), *h.shape)).unbind(0)
        last_h, last_c, transposed = h, c, weight.t()
        for t, x in enumerate(inputs.unbind(0)):
            torch.addmm(x, masked(last_h, state_mask), transposed, out=z[t])
            lstm_step(z[t], cells[t], squashed[t], outputs[t], last_c, gates, update_mask)
            last_h, last_c = outputs[t], cells[t]
        ctx.save_for_backward(z, cells, squashed, outputs, weight, h, c, state_mask, update_mask)
        ctx.gates = gates
        return outputs, last_c.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:
        z, cells, squashed, outputs, weight, h, c, state_mask, update_mask = ctx.saved_tensors
        blocks = z.view(*z.shape[:2], -1, h.shape[1])
        factors = lstm_factors(blocks, shifted(c, cells), squashed, ctx.gates, update_mask)
        dz, dh, dc = back_through_time(
            factors[0], 1, *factors[1:], grad_outputs, grad_c, lambda t, dz: masked(dz @ weight, state_mask)
        )
        dw = None
        if ctx.needs_input_grad[1]:
            dw = outer(dz, masked(shifted(h, outputs), state_mask))
        return dz, dw, dh, dc, None, None, None


class _RHN(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor,
        s: Tensor,
        state_mask: Mask,
        update_mask: Mask,
    ) -> Tensor:
        hidden, depth = s.shape[1], len(weights)
        z = inputs.new_empty((len(inputs), depth, *inputs.shape[1:]))
        states = s.new_empty((len(inputs), depth, *s.shape))
        transposed = weights.transpose(1, 2).unbind(0)
        last = s
        for t, x in enumerate(inputs.unbind(0)):
            for step, weight in enumerate(transposed):
                zt, new = z[t, step], states[t, step]
                torch.addmm(biases[step - 1] if step else x, masked(last, state_mask), weight, out=zt)
                update = masked(zt[:, :hidden].tanh_(), update_mask)
                torch.lerp(last, update, zt[:, hidden:].sigmoid_(), out=new)
                last = new
        ctx.save_for_backward(z, states, weights, s, state_mask, update_mask)
        return states[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        z, states, weights, s, state_mask, update_mask = ctx.saved_tensors
        steps, depth, batch, hidden = states.shape
        before = shifted(s, states.view(steps * depth, batch, hidden)).view_as(states)
        h, gate = z.view(steps, depth, batch, 2, hidden).unbind(3)
        factors = torch.stack(
            (masked(gate * bend(h), update_mask), (masked(h, update_mask) - before) * slope(gate)), 3
        )
        carried = 1.0 - gate
        flat = factors.view_as(z)
        ds = torch.zeros_like(s)
        for t in range(steps - 1, -1, -1):
            ds = ds + grad_outputs[t]
            for step in range(depth - 1, -1, -1):
                factors[t, step].mul_(ds.unsqueeze(1))
                through = masked(flat[t, step] @ weights[step], state_mask)
                ds = torch.addcmul(through, ds, carried[t, step])
        dw = None
        if ctx.needs_input_grad[1]:
            inside = masked(before, state_mask)
            dw = torch.stack([outer(flat[:, step], inside[:, step]) for step in range(depth)])
        return flat[:, 0], dw, flat[:, 1:].sum((0, 2)), ds, None, None
