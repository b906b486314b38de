"""The language models of Melis et al. (2018): LSTM, NAS or RHN cells, with all their kinds of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.lm.dropout import mask, plain_dropout
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.melis_settings import MelisSettings
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


class MelisModel(LanguageModel):
    """An embedding, recurrent layers whose outputs are added up, and an optional down-projection.

    Each layer has H hidden units, and an embedded word has E numbers. E is H if the shape is square. The
    generator, on the model's device, draws the initial weights and, in training, the masks.

    The recurrent state has one mask of dropout per sequence; the other masks are drawn for each time step. An
    RHN has no dropout between layers, because only its state goes up. Dropout of the output acts on its
    projection as well. Recurrent dropout of the state acts on the update of the memory (Semeniuta et al.
    2016), variational dropout on the state itself (Gal & Ghahramani 2016).

    "recurrent-lamb" is recurrent dropout that is scaled as in the code of Melis et al. (lamb/cell.py in
    github.com/google-deepmind/lamb). In training, the kept updates are not multiplied by 1 / (1 - p). In
    evaluation, all updates are multiplied by 1 - p. For LSTMs whose input gate is capped or tied, the updates
    are 1.5 times as large in both cases.

    In training, a sequence starts from zeros with probability `zero_state`, whatever state it is given.

    Args:
        shape: the architecture.
        sizes: H and E.
        settings: those with the rates of dropout.
    """

    def __init__(
        self, shape: ModelShape, sizes: tuple[int, int], settings: MelisSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        hidden, embedding = sizes
        self.settings, self.zero_state, self.generator = settings, settings.zero_state, generator
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
        x = self._dropped(embed(self.input_weight, tokens, self.output_weight), self.settings.dropout_input)
        outputs, after = [], []
        for i, (layer, before) in enumerate(zip(self.layers, state, strict=True)):
            x, new = layer(
                self._dropped(x, self.settings.dropout_layer) if i else x, before, *self._masks(tokens)
            )
            outputs.append(x)
            after.append(new)
        return self._combined(outputs), tuple(after)

    def adapted(
        self, tokens: Tensor, state: Sequence[LayerState], matrices: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """See LanguageModel."""
        x = embed(self.input_weight, tokens, self.output_weight)
        outputs, after = [], []
        for layer, before, matrix in zip(self.layers, state, matrices, strict=True):
            state_mask, update_mask = self._masks(tokens)
            masked_layer = partial(layer, state_mask=state_mask, update_mask=update_mask)
            x, new = adapted_layer(masked_layer, x, before, matrix)
            outputs.append(x)
            after.append(new)
        return self._combined(outputs), tuple(after)

    def _forgotten(self, state: Sequence[LayerState]) -> Sequence[LayerState]:
        """The state, or zeros with the probability `zero_state`. On a GPU, nothing waits for the draw."""
        drawn = torch.rand((), generator=self.generator, device=self.generator.device)
        if drawn.device.type == "cpu":
            return self.initial_state(state[0][0].shape[0]) if float(drawn) < self.zero_state else state
        forgets = drawn < self.zero_state
        return tuple(tuple(part.masked_fill(forgets, 0.0) for part in parts) for parts in state)

    def _combined(self, outputs: list[Tensor]) -> Tensor:
        x = self._dropped(sum(outputs[1:], outputs[0]), self.settings.dropout_output)
        if self.projection is None:
            return x
        return self._dropped(functional.linear(x, self.projection), self.settings.dropout_output)

    def _dropped(self, x: Tensor, rate: float) -> Tensor:
        """x, shape (T, B, .), with a separate mask for every time step."""
        return plain_dropout(x, rate, self.generator) if self.training else x

    def _masks(self, tokens: Tensor) -> tuple[Mask, Mask]:
        """State mask and update mask of one layer for a whole sequence."""
        settings, scale = self.settings, self._update_scale
        if not self.training or not settings.dropout_state:
            return None, None if scale == 1 else self.output_weight.new_full((1, 1), scale)
        shape = (tokens.shape[1], self.hidden_sizes[0])
        drawn = mask(shape, settings.dropout_state, self.output_weight, self.generator)
        if settings.state_dropout == "variational":
            return drawn, None
        return None, drawn if scale == 1 else drawn * scale

    @property
    def _update_scale(self) -> float:
        """The factor of updates in evaluation. In training, it multiplies masks of 1 / (1 - p)."""
        if self.settings.state_dropout != "recurrent-lamb" or not self.settings.dropout_state:
            return 1.0
        return (1.0 - self.settings.dropout_state) * self._larger_updates
