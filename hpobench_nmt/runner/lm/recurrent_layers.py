"""Recurrent layers as modules, and initial weights, which are drawn on the generator's device."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.lm.cells import lstm, nas, rhn
from hpobench_nmt.runner.lm.parameter_budget import Gates
from hpobench_nmt.runner.lm.scanned_cells import Mask

LayerState = tuple[Tensor, ...]

# With this bias, gates initially keep most of the state.
_KEEP = 1.0


class LSTMLayer(nn.Module):
    """One layer of LSTM cells."""

    def __init__(self, inputs: int, hidden: int, gates: Gates, generator: torch.Generator) -> None:
        super().__init__()
        blocks = 3 if gates == "tied" else 4
        self.gates = gates
        self.input_map = weight(blocks * hidden, inputs, generator)
        self.recurrent = weight(blocks * hidden, hidden, generator)
        self.bias = constant(0.0, generator, blocks * hidden)
        self.bias.data[hidden : 2 * hidden] = _KEEP

    def forward(
        self, x: Tensor, state: LayerState, state_mask: Mask = None, update_mask: Mask = None
    ) -> tuple[Tensor, LayerState]:
        """Outputs, shape (T, B, H), of inputs, shape (T, B, .), and the state (h, c) after them."""
        mapped = functional.linear(x, self.input_map, self.bias)
        h, c = state
        x, h, c = lstm(mapped, self.recurrent, h, c, self.gates, state_mask, update_mask)
        return x, (h, c)


class NASLayer(nn.Module):
    """One layer of NAS cells."""

    def __init__(self, inputs: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.input_map = weight(8 * hidden, inputs, generator)
        self.recurrent = weight(8 * hidden, hidden, generator)

    def forward(
        self, x: Tensor, state: LayerState, state_mask: Mask = None, update_mask: Mask = None
    ) -> tuple[Tensor, LayerState]:
        """Outputs, shape (T, B, H), of inputs, shape (T, B, .), and the state (h, c) after them."""
        h, c = state
        mapped = functional.linear(x, self.input_map)
        x, h, c = nas(mapped, self.recurrent, h, c, state_mask, update_mask)
        return x, (h, c)


class RHNLayer(nn.Module):
    """A recurrent highway network of `depth` processing steps per token."""

    def __init__(self, inputs: int, hidden: int, depth: int, generator: torch.Generator) -> None:
        super().__init__()
        self.input_map = weight(2 * hidden, inputs, generator)
        drawn = [weight(2 * hidden, hidden, generator) for _ in range(depth)]
        self.recurrent = nn.Parameter(torch.stack([w.data for w in drawn]))
        self.biases = constant(0.0, generator, depth, 2 * hidden)
        self.biases.data[:, hidden:] = -_KEEP

    def forward(
        self, x: Tensor, state: LayerState, state_mask: Mask = None, update_mask: Mask = None
    ) -> tuple[Tensor, LayerState]:
        """Outputs, shape (T, B, H), of inputs, shape (T, B, .), and the state (s,) after them."""
        mapped = functional.linear(x, self.input_map, self.biases[0])
        x, s = rhn(mapped, self.recurrent, self.biases[1:], state[0], state_mask, update_mask)
        return x, (s,)


def adapted_layer(layer: Any, x: Tensor, state: LayerState, matrix: Tensor) -> tuple[Tensor, LayerState]:
    """Outputs and state of a layer whose h is replaced by h + M h, on its first units, at every step.

    The layer maps inputs (T, B, .) and a state, whose first part is h, to outputs and the state after them.
    M is square, with at most as many rows as the layer has units.
    """
    outputs = []
    for inputs in torch.split(x, 1):
        _, (h, *rest) = layer(inputs, state)
        h = adapt(h, matrix)
        outputs.append(h)
        state = (h, *rest)
    return torch.stack(outputs), state


def adapt(h: Tensor, matrix: Tensor) -> Tensor:
    """h + M h, on as many of the first units as M has rows (Krause et al. 2018, eq. 9)."""
    units = len(matrix)
    return torch.cat((h[..., :units] + h[..., :units] @ matrix.t(), h[..., units:]), -1)


def embed(embedding: nn.Parameter, tokens: Tensor, output_weight: nn.Parameter) -> Tensor:
    """Embedded tokens, shape (T, B, E)."""
    # A batch touches few rows. If weights are tied, a sparse gradient is added to the dense gradient of the
    # output layer in place, which saves another V x E matrix.
    tied = embedding is output_weight
    return functional.embedding(tokens, embedding, sparse=tied and torch.is_grad_enabled())


def weight(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """A matrix of normal entries, N(0, 1 / columns) truncated at two standard deviations."""
    std = 1.0 / math.sqrt(columns)
    empty = torch.empty(rows, columns, device=generator.device)
    return nn.Parameter(nn.init.trunc_normal_(empty, std=std, a=-2.0 * std, b=2.0 * std, generator=generator))


def uniform(bound: float, generator: torch.Generator, *shape: int) -> nn.Parameter:
    """A parameter of entries between -bound and bound."""
    values = torch.empty(shape, device=generator.device)
    return nn.Parameter(values.uniform_(-bound, bound, generator=generator))


def constant(value: float, generator: torch.Generator, *shape: int) -> nn.Parameter:
    """A parameter of equal entries, on the generator's device."""
    return nn.Parameter(torch.full(shape, value, device=generator.device))


def orthogonal(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """A matrix with orthonormal rows, or orthonormal columns if there are fewer columns."""
    values = torch.empty(rows, columns, device=generator.device)
    return nn.Parameter(nn.init.orthogonal_(values, generator=generator))
