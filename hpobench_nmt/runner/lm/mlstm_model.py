"""The multiplicative LSTM of Krause et al. (2016), with weight normalisation (Salimans & Kingma 2016).

    m_t = (W_mx x_t) . (W_mh (s . h_t-1))       each input has a transition of its own; s the state mask
    z_t = W_hx x_t + W_hm m_t + b
    c_t, h_t from z_t as in an LSTM with untied gates

Each of the four matrices is normalised row by row: w = g v / |v|.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from hpobench_nmt.runner.lm import scanned_cells
from hpobench_nmt.runner.lm.dropout import locked_dropout, mask
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.mlstm_settings import MlstmSettings
from hpobench_nmt.runner.lm.recurrent_layers import (
    LayerState,
    adapted_layer,
    constant,
    embed,
    orthogonal,
    uniform,
)
from hpobench_nmt.runner.lm.scanned_cells import Mask, masked
from hpobench_nmt.runner.torch_training.precision import for_products

# With this bias, memories are initially kept for a while.
_FORGET_BIAS = 3.0


def mlstm(
    inputs: Tensor,
    factor: Tensor,
    to_factor: Tensor,
    from_product: Tensor,
    h: Tensor,
    c: Tensor,
    state_mask: Mask = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A layer of multiplicative LSTM cells: outputs (T, B, H), and h and c after the last step.

    Args:
        inputs: W_hx x_t + b, shape (T, B, 4 H), blocks o, f, i, j.
        factor: W_mx x_t, shape (T, B, H).
        to_factor: W_mh, shape (H, H).
        from_product: W_hm, shape (4 H, H).
        h, c: the state, shape (B, H).
        state_mask: the mask of h_t-1, of the same shape.
    """
    if scanned_cells.scans(inputs):
        return scanned_cells.mlstm(inputs, factor, to_factor, from_product, h, c, state_mask)
    to_factor, from_product, outputs = for_products(to_factor).t(), for_products(from_product).t(), []
    for x, multiplier in zip(inputs.unbind(0), factor.unbind(0), strict=True):
        product = (masked(h, state_mask) @ to_factor) * multiplier
        z = torch.addmm(x, product, from_product).to(c.dtype)
        o, f, i = z[:, : -h.shape[1]].sigmoid().chunk(3, 1)
        c = f * c + i * z[:, -h.shape[1] :].tanh()
        h = o * c.tanh()
        outputs.append(h)
    return torch.stack(outputs), h, c


class MLSTM(LanguageModel):
    """A character model: embedding, one mLSTM layer, separate output embedding.

    Both kinds of dropout have one mask per sequence. The mask of h acts in the recurrence and on the output.
    The generator, on the model's device, draws the initial weights and, in training, the masks.
    """

    def __init__(self, vocabulary: int, settings: MlstmSettings, generator: torch.Generator) -> None:
        super().__init__()
        hidden = settings.hidden_size
        self.input_weight = uniform(0.2, generator, vocabulary, settings.embedding_size)
        self.layer = MLSTMLayer(settings.embedding_size, hidden, settings.weight_norm, generator)
        self.output_weight = orthogonal(vocabulary, hidden, generator)
        self.output_bias = constant(0.0, generator, vocabulary)
        self.hidden_sizes = (hidden,)
        self.settings, self.generator = settings, generator

    def initial_state(self, batch: int) -> LayerState:
        """Zeros: (h, c), each of shape (batch, H)."""
        zeros = self.output_weight.new_zeros(batch, self.hidden_sizes[0])
        return zeros, zeros

    def forward(self, tokens: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Hidden vectors, shape (T, B, H), of tokens, shape (T, B), and the state after them."""
        x = embed(self.input_weight, tokens, self.output_weight)
        if not self.training:
            x, state = self.layer(x, state)
            return x, state
        x = locked_dropout(x, self.settings.dropout_embedding, self.generator)
        drawn: Mask = None
        if self.settings.dropout_hidden:
            drawn = mask(tuple(state[0].shape), self.settings.dropout_hidden, x, self.generator)
        x, state = self.layer(x, state, drawn)
        return masked(x, drawn), state

    def adapted(
        self, tokens: Tensor, state: LayerState, matrices: Sequence[Tensor]
    ) -> tuple[Tensor, LayerState]:
        """See LanguageModel."""
        (matrix,) = matrices
        return adapted_layer(self.layer, embed(self.input_weight, tokens, self.output_weight), state, matrix)


class MLSTMLayer(nn.Module):
    """One layer of multiplicative LSTM cells, its matrices normalised or not."""

    def __init__(self, inputs: int, hidden: int, normalised: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.maps = nn.ModuleDict()
        for name, rows, columns in (
            ("hx", 4 * hidden, inputs),
            ("mx", hidden, inputs),
            ("mh", hidden, hidden),
            ("hm", 4 * hidden, hidden),
        ):
            linear = nn.Linear(columns, rows, bias=False, device="meta")
            linear.weight = orthogonal(rows, columns, generator)
            self.maps[name] = weight_norm(linear) if normalised else linear
        self.bias = constant(0.0, generator, 4 * hidden)
        self.bias.data[hidden : 2 * hidden] = _FORGET_BIAS

    def forward(self, x: Tensor, state: LayerState, state_mask: Mask = None) -> tuple[Tensor, LayerState]:
        """Outputs, shape (T, B, H), of inputs, shape (T, B, E), and the state (h, c) after them."""
        weights: dict[str, Any] = {name: linear.weight for name, linear in self.maps.items()}
        h, c = state
        inputs = functional.linear(x, weights["hx"], self.bias)
        factor = functional.linear(x, weights["mx"])
        x, h, c = mlstm(inputs, factor, weights["mh"], weights["hm"], h, c, state_mask)
        return x, (h, c)
