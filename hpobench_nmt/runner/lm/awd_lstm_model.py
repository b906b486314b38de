"""AWD-LSTM and AWD-QRNN: layers with dropped weights under tied embeddings (Merity et al. 2018)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.lm import single_stream_lstm
from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings
from hpobench_nmt.runner.lm.dropout import embedding_dropout, locked_dropout, plain_dropout
from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.qrnn import QRNNLayer
from hpobench_nmt.runner.lm.recurrent_layers import LayerState, adapt, embed, uniform

# Up to this many steps of a single sequence, our own LSTM is faster than torch's on a CPU.
_FEW_STEPS = 16


class AWDLSTM(LanguageModel):
    """Layers of sizes E -> H -> ... -> H -> E over an embedding that is also the output layer's weight.

    A single layer has E units. The generator, on the model's device, draws the initial weights and, in
    training, the masks. With the cell "qrnn", layers are quasi-recurrent, and the first has a window of two
    words.
    """

    def __init__(self, vocabulary: int, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__()
        size = settings.embedding_size
        self.output_weight = uniform(0.1, generator, vocabulary, size)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary, device=generator.device))
        self.hidden_sizes = (*[settings.hidden_size] * (settings.layers - 1), size)
        self.layers: Any = nn.ModuleList()
        for inputs, units in zip((size, *self.hidden_sizes), self.hidden_sizes, strict=False):
            if settings.cell == "qrnn":
                window = 1 if len(self.layers) else 2
                self.layers.append(QRNNLayer(inputs, units, window, settings.zoneout, generator))
            else:
                self.layers.append(_LSTMLayer(inputs, units, generator))
        self.settings = settings
        self.generator = generator
        self._outputs: tuple[Tensor, Tensor] | None = None

    def initial_state(self, batch: int) -> tuple[LayerState, ...]:
        """Zeros, for each layer: (h, c) of an LSTM, each (batch, units); see qrnn.py for the other cell."""
        return tuple(layer.initial_state(batch) for layer in self.layers)

    def forward(self, tokens: Tensor, state: Sequence[LayerState]) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Hidden vectors, shape (T, B, E), of tokens, shape (T, B), and the state after them."""
        settings, draw = self.settings, self.generator
        x = self._embed(tokens)
        after = []
        for i, (layer, before) in enumerate(zip(self.layers, state, strict=True)):
            weights: list[Tensor] = list(layer.parameters())
            if self.training:
                weights[layer.dropped] = plain_dropout(weights[layer.dropped], settings.weight_drop, draw)
            raw, new = layer.read(x, before, weights, draw)
            after.append(new)
            last = i == len(self.layers) - 1
            x = raw
            if self.training:
                x = locked_dropout(raw, settings.dropout_output if last else settings.dropout_hidden, draw)
        if self.training:
            self._outputs = (raw, x)
        return x, tuple(after)

    def adapted(
        self, tokens: Tensor, state: Sequence[LayerState], matrices: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """See LanguageModel."""
        x = embedding(tokens, self.output_weight)
        after = []
        for layer, before, matrix in zip(self.layers, state, matrices, strict=True):
            x, new = layer.adapted(x, before, matrix)
            after.append(new)
        return x, tuple(after)

    def regularisation(self) -> Tensor | float:
        """AR and TAR of the last forward pass in training: alpha mean(m h)^2 + beta mean(h_t - h_t-1)^2."""
        if self._outputs is None:
            return 0.0
        (raw, dropped), self._outputs = self._outputs, None
        total: Tensor | float = 0.0
        if self.settings.alpha:
            total = total + self.settings.alpha * dropped.square().mean()
        if self.settings.beta and len(raw) > 1:
            total = total + self.settings.beta * (raw[1:] - raw[:-1]).square().mean()
        return total

    def _embed(self, tokens: Tensor) -> Tensor:
        x = embed(self.output_weight, tokens, self.output_weight)
        if not self.training:
            return x
        settings, words = self.settings, len(self.output_weight)
        x = embedding_dropout(x, tokens, words, settings.dropout_embedding, self.generator)
        return locked_dropout(x, settings.dropout_input, self.generator)


class _LSTMLayer(nn.ParameterList):
    """A layer's weights in torch.lstm's order: W_ih, W_hh, b_ih, b_hh; gates input, forget, cell, output."""

    dropped = 1  # the hidden-to-hidden weights

    def __init__(self, inputs: int, units: int, generator: torch.Generator) -> None:
        bound = 1.0 / math.sqrt(units)
        shapes = [(4 * units, inputs), (4 * units, units), (4 * units,), (4 * units,)]
        super().__init__([uniform(bound, generator, *shape) for shape in shapes])
        self.units = units

    def initial_state(self, batch: int) -> LayerState:
        """Zeros: (h, c)."""
        return self[0].new_zeros(batch, self.units), self[0].new_zeros(batch, self.units)

    def read(
        self, x: Tensor, state: LayerState, weights: Sequence[Tensor], generator: Any = None
    ) -> tuple[Tensor, LayerState]:
        """Outputs (T, B, units) and the state after them. Some of the weights may be dropped."""
        h, c = state
        output, h, c = _lstm(x, h, c, list(weights))
        return output, (h, c)

    def adapted(self, x: Tensor, state: LayerState, matrix: Tensor) -> tuple[Tensor, LayerState]:
        """`read`, step by step, with h + M h instead of h, which the next step reads as well."""
        (h, c), outputs = state, []
        for inputs in x:
            h, c = torch.lstm_cell(inputs, (h, c), *self.parameters())
            h = adapt(h, matrix)
            outputs.append(h)
        return torch.stack(outputs), (h, c)


def _lstm(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """One LSTM layer: outputs (T, B, units), and h and c after the last step, (B, units)."""
    mixed = torch.is_autocast_enabled(x.device.type)
    if mixed and x.device.type == "cpu" and torch.get_autocast_dtype("cpu") == torch.float16:
        told = 'torch has no LSTM of it on a CPU. Take "bf16" or "fp32", or a CUDA device.'
        raise InputError(f'precision = "fp16": {told}')
    if x.device.type == "cpu" and len(x) <= _FEW_STEPS and x.shape[1] == 1 and not mixed:
        outputs, h, c = single_stream_lstm.lstm(x[:, 0], h[0], c[0], weights)
        return outputs[:, None], h[None], c[None]
    # On a CUDA device, autocast runs LSTMs in fp16 whatever its precision. So it is off here, and we cast.
    read = torch.get_autocast_dtype(x.device.type) if mixed else x.dtype
    state, weights = (h[None].to(read), c[None].to(read)), [weight.to(read) for weight in weights]
    with warnings.catch_warnings(), torch.autocast(x.device.type, enabled=False) if mixed else nullcontext():
        # cuDNN warns that weights are not in one block of memory, which freshly dropped weights cannot be.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
        fixed = True, 1, 0.0, torch.is_grad_enabled(), False, False
        output, h, c = torch.lstm(x.to(read), state, weights, *fixed)
    return output.to(x.dtype), h[0].to(x.dtype), c[0].to(x.dtype)
