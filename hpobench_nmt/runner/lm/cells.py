"""Recurrent cells of Melis et al. (2018): LSTM, NAS and recurrent highway network (RHN).

T time steps, B sequences, H hidden units, G blocks of H pre-activations. The caller computes what the inputs
contribute to the pre-activations for all time steps at once; a cell adds what the state contributes:

    z_t = x_t + R (s . h_t-1)        x (T, B, G H), R (G H, H), s the state mask

In mixed precision (precision.py), the products R h have 16 bits, and everything else has the precision of the
state.

Dropout of the recurrence has one mask per sequence, of shape (B, H) and scaled by the caller. `state_mask` is
variational dropout (Gal & Ghahramani 2016), the same for all gates. `update_mask` is recurrent dropout
(Semeniuta et al. 2016), on the update before it enters the memory.

torch.nn.LSTM has neither these gates nor these masks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hpobench_nmt.runner.lm import scanned_cells
from hpobench_nmt.runner.lm.parameter_budget import Gates
from hpobench_nmt.runner.lm.scanned_cells import Mask, masked
from hpobench_nmt.runner.torch_training.precision import for_products

NAS_BLOCKS = (4, 6, 5, 7, 0, 2, 1, 3)
"""The leaf of the NAS cell to which each block of its pre-activations belongs."""


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
        inputs: shape (T, B, 4 H), blocks o, f, i, j; for tied gates (T, B, 3 H), blocks o, f, j.
        weight: shape (4 H, H), or (3 H, H).
        h, c: the state, shape (B, H).

    Returns:
        Outputs (T, B, H), and h and c after the last step.
    """
    if scanned_cells.scans(inputs):
        return scanned_cells.lstm(inputs, weight, h, c, gates, state_mask, update_mask)
    transposed, hidden, outputs = for_products(weight).t(), h.shape[1], []
    for x in inputs.unbind(0):
        z = torch.addmm(x, masked(h, state_mask), transposed).to(c.dtype)
        o, f, *i = z[:, :-hidden].sigmoid().chunk(2 if gates == "tied" else 3, 1)
        update = masked(z[:, -hidden:].tanh(), update_mask)
        if gates == "tied":
            c = torch.lerp(update, c, f)
        else:
            admitted = torch.minimum(1.0 - f, i[0]) if gates == "capped" else i[0]
            c = f * c + admitted * update
        h = o * c.tanh()
        outputs.append(h)
    return torch.stack(outputs), h, c


def rhn(
    inputs: Tensor,
    weights: Tensor,
    biases: Tensor,
    s: Tensor,
    state_mask: Mask = None,
    update_mask: Mask = None,
) -> tuple[Tensor, Tensor]:
    """A recurrent highway network: L processing steps per token, carry gate 1 - t (Zilly et al. 2017).

        z = R_l (m . s) + (x_t for l = 1, b_l for l > 1)        m the state mask
        h = u . tanh(z_h),  t = sigmoid(z_t)                     u the update mask
        s = t h + (1 - t) s

    The state never leaves [-1, 1] unless a mask scales the update.

    Args:
        inputs: shape (T, B, 2 H), blocks h, t.
        weights: shape (L, 2 H, H).
        biases: of the steps after the first, shape (L - 1, 2 H).
        s: the state, shape (B, H). Both masks are the same in every processing step.

    Returns:
        The state after each token, (T, B, H), and after the last.
    """
    if scanned_cells.scans(inputs):
        return scanned_cells.rhn(inputs, weights, biases, s, state_mask, update_mask)
    transposed, bias, outputs = for_products(weights).transpose(1, 2).unbind(0), biases.unbind(0), []
    for x in inputs.unbind(0):
        for step, weight in enumerate(transposed):
            z = torch.addmm(bias[step - 1] if step else x, masked(s, state_mask), weight).to(s.dtype)
            update, gate = z.chunk(2, 1)
            s = torch.lerp(s, masked(update.tanh(), update_mask), gate.sigmoid())
        outputs.append(s)
    return torch.stack(outputs), s


def nas(
    inputs: Tensor, weight: Tensor, h: Tensor, c: Tensor, state_mask: Mask = None, update_mask: Mask = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The cell that a search on Penn Treebank found (Zoph & Le 2017): eight leaves joined in pairs.

        a_0 = sigmoid(z_0)   a_1 = relu(z_1)               l_0 = tanh(a_0 a_1)
        a_2 = sigmoid(z_2)   a_3 = relu(x_3 . (R h)_3)     l_1 = tanh(a_2 + a_3)
        a_4 = tanh(z_4)      a_5 = sigmoid(z_5)            l_2 = tanh(a_4 a_5)
        a_6 = tanh(z_6)      a_7 = sigmoid(z_7)            l_3 = sigmoid(a_6 + a_7)
        c_t = tanh(u . l_0 + c_t-1) l_1                    h_t = tanh(c_t tanh(l_2 + l_3))

    Leaf 3 multiplies input and state, which the other leaves add. There are no biases.

    Args:
        inputs: shape (T, B, 8 H), blocks in the order of NAS_BLOCKS: leaves of one activation are neighbours.
        weight: shape (8 H, H), in the same order.
        h, c: the state, shape (B, H).

    Returns:
        Outputs (T, B, H), and h and c after the last step.
    """
    transposed, hidden, outputs = for_products(weight).t(), h.shape[1], []
    for x in inputs.unbind(0):
        state = (masked(h, state_mask) @ transposed).to(c.dtype)
        added = x[:, : 7 * hidden] + state[:, : 7 * hidden]
        tanh, sigmoid, relu = added.split((2 * hidden, 4 * hidden, hidden), 1)
        product = x[:, 7 * hidden :] * state[:, 7 * hidden :]
        leaves = (*tanh.tanh().chunk(2, 1), *sigmoid.sigmoid().chunk(4, 1), relu.relu(), product.relu())
        a = dict(zip(NAS_BLOCKS, leaves, strict=True))
        memory = torch.tanh(masked(torch.tanh(a[0] * a[1]), update_mask) + c)
        c = memory * torch.tanh(a[2] + a[3])
        h = torch.tanh(c * torch.tanh(torch.tanh(a[4] * a[5]) + torch.sigmoid(a[6] + a[7])))
        outputs.append(h)
    return torch.stack(outputs), h, c
