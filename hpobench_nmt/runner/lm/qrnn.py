"""A quasi-recurrent layer (Bradbury et al. 2017) of the language models of Merity et al. (2018).

T time steps, B sequences, I inputs, H hidden units; the window is 2 inputs, or 1.

    z, f, o = tanh, sigmoid, sigmoid of W [x_t, x_t-1] + b     W x_t + b where the window is 1
    f_t = m_t . f_t                                            zoneout, in training; (1 - p) f_t in evaluation
    c_t = f_t z_t + (1 - f_t) c_t-1                            f-pooling
    h_t = o_t c_t                                              output gate

The gates read only inputs, so that one matrix product serves all time steps. In the paper, f is the share of
the memory that is kept. Here f is the share of the new value that is let in, as in the code of these language
models (awd-lstm-lm and pytorch-qrnn of github.com/salesforce). A unit whose m is 0 keeps its memory for a
time step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.lm.linear_scan import mixed_scan
from hpobench_nmt.runner.lm.recurrent_layers import LayerState, adapt, uniform


class QRNNLayer(nn.ParameterList):
    """A layer's weights: W, shape (3 H, window I), blocks z, f, o; and b, shape (3 H,).

    The gates of a time step read a window of 1 or 2 inputs. A unit keeps its memory at a time step with the
    probability `zoneout`. The generator draws the initial weights.
    """

    dropped = 0
    """Index of the weights that DropConnect acts on."""

    def __init__(
        self, inputs: int, units: int, window: int, zoneout: float, generator: torch.Generator
    ) -> None:
        bound = 1.0 / math.sqrt(window * inputs)
        shapes = [(3 * units, window * inputs), (3 * units,)]
        super().__init__([uniform(bound, generator, *shape) for shape in shapes])
        self.inputs, self.units, self.window, self.zoneout = inputs, units, window, zoneout

    def initial_state(self, batch: int) -> LayerState:
        """Zeros: c, shape (B, H); with a window of 2, also the input before the first, (B, I)."""
        sizes = (self.units, self.inputs)[: self.window]
        return tuple(self[0].new_zeros(batch, size) for size in sizes)

    def read(
        self, x: Tensor, state: LayerState, weights: Sequence[Tensor], generator: Any = None
    ) -> tuple[Tensor, LayerState]:
        """Outputs, shape (T, B, H), of inputs, shape (T, B, I), and the state after them.

        The weights are the layer's, perhaps after DropConnect. In training, the generator draws the masks of
        zoneout.
        """
        source = x
        if self.window == 2:
            source = torch.cat((x, torch.cat((state[1][None], x[:-1]))), 2)
        z, f, o = functional.linear(source, *weights).to(x.dtype).chunk(3, 2)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        if self.zoneout and self.training:
            f = f * torch.empty_like(f).bernoulli_(1.0 - self.zoneout, generator=generator)
        elif self.zoneout:
            f = f * (1.0 - self.zoneout)
        if x.device.type != "cpu":
            cs = mixed_scan(z, f, state[0])
            return o * cs, (cs[-1], x[-1])[: self.window]
        c, memories = state[0], []
        for update, gate in zip(z.unbind(0), f.unbind(0), strict=True):
            c = torch.lerp(c, update, gate)
            memories.append(c)
        return o * torch.stack(memories), (c, x[-1])[: self.window]

    def adapted(self, x: Tensor, state: LayerState, matrix: Tensor) -> tuple[Tensor, LayerState]:
        """`read` in evaluation, with h' = h + M h on the first units (Krause et al. 2018, eq. 9).

        No gate reads h, so only the next layer reads h'.
        """
        h, state = self.read(x, state, list(self.parameters()))
        return adapt(h, matrix), state
