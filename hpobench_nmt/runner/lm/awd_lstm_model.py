"""AWD-LSTM: a stack of LSTMs with dropped recurrent weights and tied embeddings (Merity et al. 2018)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.lm import single_stream_lstm
from hpobench_nmt.runner.lm.dropout import embedding_dropout, locked_dropout, weight_drop

# Up to so many steps of a single sequence, our own LSTM is faster than torch's on a CPU.
_FEW_STEPS = 16

# Index of the hidden-to-hidden weights among a layer's weights, in the order of torch.lstm.
_RECURRENT = 1

LayerState = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Regularisation:
    """Rates of dropout and the weights of activation regularisation.

    Attributes:
        input: variational dropout of the embedded words.
        hidden: variational dropout between layers.
        output: variational dropout of the last layer.
        embedding: dropout of whole words.
        weight: DropConnect on the hidden-to-hidden weights.
        alpha: activation regularisation (AR), on the dropped output.
        beta: temporal activation regularisation (TAR), on the output's change from step to step.
    """

    input: float = 0.0
    hidden: float = 0.0
    output: float = 0.0
    embedding: float = 0.0
    weight: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0


class AWDLSTM(nn.Module):
    """Layers of sizes E -> H -> ... -> H -> E over an embedding that is also the output layer's weight.

    Args:
        vocabulary: number of words, V.
        layers: number of LSTM layers; a single one has E units.
        embedding_size: E.
        hidden_size: H, of every layer but the last.
        regularisation: dropout rates and AR/TAR.
        generator: draws the initial weights and, in training, the masks. On the model's device.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        layers: int,
        embedding_size: int,
        hidden_size: int,
        regularisation: Regularisation,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        device = generator.device

        def uniform(bound: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(
                torch.empty(shape, device=device).uniform_(-bound, bound, generator=generator)
            )

        self.output_weight = uniform(0.1, vocabulary, embedding_size)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary, device=device))
        self.hidden_sizes = (*[hidden_size] * (layers - 1), embedding_size)
        self.layers = nn.ModuleList()
        for inputs, units in zip((embedding_size, *self.hidden_sizes), self.hidden_sizes, strict=False):
            bound = 1.0 / math.sqrt(units)
            # Gates are input, forget, cell, output.
            weights = [(4 * units, inputs), (4 * units, units), (4 * units,), (4 * units,)]
            self.layers.append(nn.ParameterList([uniform(bound, *shape) for shape in weights]))
        self.rates = regularisation
        self.generator = generator
        self._outputs: tuple[Tensor, Tensor] | None = None

    def initial_state(self, batch: int) -> tuple[LayerState, ...]:
        """Zeros: for each layer a pair (h, c) of shape (batch, units)."""
        weight = self.output_weight
        return tuple((weight.new_zeros(batch, n), weight.new_zeros(batch, n)) for n in self.hidden_sizes)

    def forward(self, tokens: Tensor, state: Sequence[LayerState]) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Hidden vectors, shape (T, B, E), of tokens, shape (T, B), and the state after them."""
        rates, draw = self.rates, self.generator
        x = self._embed(tokens)
        after = []
        for i, (layer, (h, c)) in enumerate(zip(self.layers, state, strict=True)):
            weights: list[Tensor] = list(layer.parameters())
            if self.training:
                weights[_RECURRENT] = weight_drop(weights[_RECURRENT], rates.weight, draw)
            raw, h, c = _lstm(x, h, c, weights)
            after.append((h, c))
            last = i == len(self.layers) - 1
            x = raw
            if self.training:
                x = locked_dropout(raw, rates.output if last else rates.hidden, draw)
        if self.training:
            self._outputs = (raw, x)
        return x, tuple(after)

    def adapted(
        self, tokens: Tensor, state: Sequence[LayerState], matrices: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """The forward pass with h' = h + M h on the first units of each layer (Krause et al. 2018, eq. 9).

        Each layer has one square matrix. Time steps are computed one by one: for evaluation, not training.
        """
        x = embedding(tokens, self.output_weight)
        after = []
        for layer, (h, c), matrix in zip(self.layers, state, matrices, strict=True):
            outputs = []
            for inputs in x:
                h, c = torch.lstm_cell(inputs, (h, c), *layer.parameters())
                units = len(matrix)
                changed = h[:, :units] + h[:, :units] @ matrix.t()
                h = torch.cat((changed, h[:, units:]), 1)
                outputs.append(h)
            x = torch.stack(outputs)
            after.append((h, c))
        return x, tuple(after)

    def regularisation(self) -> Tensor | float:
        """AR and TAR of the last forward pass in training: alpha mean(m h)^2 + beta mean(h_t - h_t-1)^2."""
        if self._outputs is None:
            return 0.0
        (raw, dropped), self._outputs = self._outputs, None
        total: Tensor | float = 0.0
        if self.rates.alpha:
            total = total + self.rates.alpha * dropped.square().mean()
        if self.rates.beta and len(raw) > 1:
            total = total + self.rates.beta * (raw[1:] - raw[:-1]).square().mean()
        return total

    def _embed(self, tokens: Tensor) -> Tensor:
        # The gradient of a batch touches few rows. As a sparse one it is added to the output layer's
        # dense gradient in place; a dense one would cost another V x E matrix.
        sparse = self.output_weight.requires_grad and torch.is_grad_enabled()
        x = embedding(tokens, self.output_weight, sparse=sparse)
        if not self.training:
            return x
        x = embedding_dropout(x, tokens, len(self.output_weight), self.rates.embedding, self.generator)
        return locked_dropout(x, self.rates.input, self.generator)


def _lstm(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """One LSTM layer: outputs (T, B, units), and h and c after the last step, (B, units)."""
    mixed = torch.is_autocast_enabled(x.device.type)
    if mixed and x.device.type == "cpu" and torch.get_autocast_dtype("cpu") == torch.float16:
        raise InputError(
            'precision = "fp16": torch has no LSTM of it on a CPU. Take "bf16" or "fp32", or a CUDA device.'
        )
    if x.device.type == "cpu" and len(x) <= _FEW_STEPS and x.shape[1] == 1 and not mixed:
        outputs, h, c = single_stream_lstm.lstm(x[:, 0], h[0], c[0], weights)
        return outputs[:, None], h[None], c[None]
    with warnings.catch_warnings():
        # Weights that were just dropped cannot lie in one piece, as cuDNN would like them to.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
        output, h, c = torch.lstm(
            x, (h[None], c[None]), weights, True, 1, 0.0, torch.is_grad_enabled(), False, False
        )
    # In mixed precision they may have 16 bits.
    return output.to(x.dtype), h[0].to(x.dtype), c[0].to(x.dtype)
