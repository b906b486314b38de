"""The interface of language models for training and evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Tokens
from hpobench_nmt.core.system.errors import InputError

State = Any
"""Nested tuples of tensors, each with the batch as its second-to-last dimension."""


def detach(state: State) -> State:
    """The same state, cut off from the graph that computed it (truncated back-propagation)."""
    if isinstance(state, Tensor):
        return state.detach()
    return tuple(detach(part) for part in state)


class LanguageModel(nn.Module):
    """A module that reads tokens and gives, at every step, the hidden vector that predicts the next token.

    It is called with tokens, shape (T, B), and a state. It returns the hidden vectors, shape (T, B, D), and
    the state after the tokens.

    Attributes:
        output_weight: the output embedding, shape (V, D). It may also be the input embedding.
        output_bias: shape (V,).
        generator: draws the masks of training. On the model's device.
        hidden_sizes: the number of hidden units of each recurrent layer.
        zero_state: the share of sequences that start from an empty state in training.
    """

    output_weight: nn.Parameter
    output_bias: nn.Parameter
    generator: torch.Generator
    hidden_sizes: Sequence[int] = ()
    zero_state: float = 0.0

    def initial_state(self, batch: int) -> State:
        """The state before the first token of `batch` streams."""
        raise NotImplementedError

    def regularisation(self) -> Tensor | float:
        """The term that the last forward pass in training adds to the loss. By default, nothing is added."""
        return 0.0

    def adapted(self, tokens: Tensor, state: State, matrices: Sequence[Tensor]) -> tuple[Tensor, State]:
        """The forward pass with h' = h + M h on each layer's first units (Krause et al. 2018, eq. 9).

        There is one square matrix per layer. The layer's next step and the next layer both read h'. For
        evaluation only, because most layers then compute time steps one by one.
        """
        raise InputError(f"sparse dynamic evaluation is not there for {type(self).__name__}.")


def streams(tokens: Tensor, batch: int) -> Tensor:
    """A stream cut into `batch` parallel streams of equal length, shape (T, batch); the rest is left out."""
    length = len(tokens) // batch
    return tokens[: length * batch].view(batch, length).t().contiguous()


def pieces(model: LanguageModel, tokens: Tokens, batch: int, steps: int) -> Iterator[Tensor]:
    """Pieces of a stream and the token after each, shape (steps + 1, batch); the last may be shorter."""
    columns = streams(torch.from_numpy(np.array(tokens, dtype=np.int64)), batch)
    columns = columns.to(model.output_weight.device)
    for start in range(0, len(columns) - 1, steps):
        yield columns[start : start + steps + 1]
