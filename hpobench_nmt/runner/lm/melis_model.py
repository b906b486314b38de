"""The language models of Melis et al. (2018): LSTM, NAS or RHN cells, with all their kinds of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.lm.dropout import mask
from hpobench_nmt.runner.lm.parameter_budget import ModelShape
from hpobench_nmt.runner.lm.recurrent_layers import (
    LayerState,
    LSTMLayer,
    NASLayer,
    RHNLayer,
    adapted_layer,
    constant,
    embed,
    orthogonal,
    weight,
)
from hpobench_nmt.runner.lm.scanned_cells import Mask


@dataclass(frozen=True)
class Dropout:
    """Rates of dropout of embedded words, between layers, of the recurrent state, and of the output.

    The state has one mask per sequence; the other masks are drawn for each time step. An RHN has no dropout
    between layers, because only its state goes up. Dropout of the output acts on its projection as well. With
    `recurrent`, dropout of the state acts on the update of the memory (Semeniuta et al. 2016), otherwise on
    the state (Gal & Ghahramani 2016).

    With `lamb`, recurrent dropout is scaled as in the code of Melis et al. (lamb/cell.py in
    github.com/google-deepmind/lamb). In training, the kept updates are not multiplied by 1 / (1 - p). In
    evaluation, all updates are multiplied by 1 - p. For LSTMs whose input gate is capped or tied, the updates
    are 1.5 times as large in both cases.

    In training, a sequence starts from zeros with probability `zero_state`, whatever state it is given.
    """

    input: float = 0.0
    layer: float = 0.0
    state: float = 0.0
    output: float = 0.0
    recurrent: bool = False
    lamb: bool = False
    zero_state: float = 0.0


class MelisModel(nn.Module):
    """An embedding, recurrent layers whose outputs are added up, and an optional down-projection.

    Each layer has H hidden units, and an embedded word has E numbers. E is H if the shape is square. The
    generator, on the model's device, draws the initial weights and, in training, the masks.
    """

    def __init__(
        self, shape: ModelShape, hidden: int, embedding: int, rates: Dropout, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.rates, self.zero_state, self.generator = rates, rates.zero_state, generator
        output = embedding if shape.projection else hidden
        self.output_weight = weight(shape.vocabulary, output, generator)
        self.output_bias = constant(0.0, generator, shape.vocabulary)
        self.input_weight = self.output_weight
        if not shape.shared:
            self.input_weight = weight(shape.vocabulary, embedding, generator)
        self.projection: nn.Parameter | None = None
        if shape.projection:
            self.projection = orthogonal(embedding, hidden, generator)
        inputs = [embedding, *[hidden] * (shape.depth - 1)]
        layers: list[nn.Module]
        if shape.cell == "rhn":
            layers = [RHNLayer(embedding, hidden, shape.depth, generator)]
        elif shape.cell == "nas":
            layers = [NASLayer(n, hidden, generator) for n in inputs]
        else:
            layers = [LSTMLayer(n, hidden, shape.gates, generator) for n in inputs]
        self.layers = nn.ModuleList(layers)
        # Such gates keep the memory in [-1, 1], where tanh is nearly linear. Larger updates use more of tanh.
        self._larger_updates = 1.5 if shape.cell == "lstm" and shape.gates != "untied" else 1.0
        self.hidden_sizes = (hidden,) * len(layers)

    def initial_state(self, batch: int) -> tuple[LayerState, ...]:
        """Zeros of shape (batch, H): a pair (h, c) for each layer; an RHN has only h."""
        zeros = self.output_weight.new_zeros(batch, self.hidden_sizes[0])
        return tuple((zeros,) * (1 if isinstance(layer, RHNLayer) else 2) for layer in self.layers)

    def forward(self, tokens: Tensor, state: Sequence[LayerState]) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Hidden vectors, shape (T, B, D), of tokens, shape (T, B), and the state after them."""
        if self.training and self.zero_state:
            state = self._forgotten(state)
        x = self._dropped(embed(self.input_weight, tokens, self.output_weight), self.rates.input)
        outputs, after = [], []
        for i, (layer, before) in enumerate(zip(self.layers, state, strict=True)):
            x, new = layer(self._dropped(x, self.rates.layer) if i else x, before, *self._masks(tokens))
            outputs.append(x)
            after.append(new)
        return self._combined(outputs), tuple(after)

    def adapted(
        self, tokens: Tensor, state: Sequence[LayerState], matrices: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """The forward pass with h' = h + M h on the first units of each layer (Krause et al. 2018, eq. 9).

        There is one square matrix per layer. For evaluation only, because time steps are computed one by one.
        """
        x = embed(self.input_weight, tokens, self.output_weight)
        outputs, after = [], []
        for layer, before, matrix in zip(self.layers, state, matrices, strict=True):
            state_mask, update_mask = self._masks(tokens)
            masked_layer = partial(layer, state_mask=state_mask, update_mask=update_mask)
            x, new = adapted_layer(masked_layer, x, before, matrix)
            outputs.append(x)
            after.append(new)
        return self._combined(outputs), tuple(after)

    def regularisation(self) -> float:
        """Nothing is added to the loss, because weight decay is part of the optimiser."""
        return 0.0

    def _forgotten(self, state: Sequence[LayerState]) -> Sequence[LayerState]:
        """The state, or zeros with the probability `zero_state`. On a GPU, nothing waits for the draw."""
        drawn = torch.rand((), generator=self.generator, device=self.generator.device)
        if drawn.device.type == "cpu":
            return self.initial_state(state[0][0].shape[0]) if float(drawn) < self.zero_state else state
        forgets = drawn < self.zero_state
        return tuple(tuple(part.masked_fill(forgets, 0.0) for part in parts) for parts in state)

    def _combined(self, outputs: list[Tensor]) -> Tensor:
        x = self._dropped(sum(outputs[1:], outputs[0]), self.rates.output)
        if self.projection is None:
            return x
        return self._dropped(functional.linear(x, self.projection), self.rates.output)

    def _dropped(self, x: Tensor, rate: float) -> Tensor:
        """x, shape (T, B, .), with a separate mask for every time step."""
        if not (self.training and rate):
            return x
        return x * mask(tuple(x.shape), rate, x, self.generator)

    def _masks(self, tokens: Tensor) -> tuple[Mask, Mask]:
        """State mask and update mask of one layer for a whole sequence."""
        rates, scale = self.rates, self._update_scale
        if not self.training or not rates.state:
            return None, None if scale == 1 else self.output_weight.new_full((1, 1), scale)
        shape = (tokens.shape[1], self.hidden_sizes[0])
        drawn = mask(shape, rates.state, self.output_weight, self.generator)
        if not rates.recurrent:
            return drawn, None
        return None, drawn if scale == 1 else drawn * scale

    @property
    def _update_scale(self) -> float:
        """The factor of updates in evaluation. In training, it multiplies masks of 1 / (1 - p)."""
        rates = self.rates
        if not (rates.lamb and rates.recurrent and rates.state):
            return 1.0
        return (1.0 - rates.state) * self._larger_updates
