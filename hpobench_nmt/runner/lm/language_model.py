"""The interface of language models for training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

State = Any
"""Nested tuples of tensors, each with the batch as its second-to-last dimension."""


def detach(state: State) -> State:
    """The same state, cut off from the graph that computed it (truncated back-propagation)."""
    if isinstance(state, Tensor):
        return state.detach()
    return tuple(detach(part) for part in state)


class LanguageModel(Protocol):
    """A module that reads tokens and gives, at every step, the hidden vector that predicts the next token."""

    training: bool
    """Whether dropout is on."""
    output_weight: nn.Parameter
    """The output embedding, shape (V, D). If weights are tied, it is also the input embedding."""
    output_bias: nn.Parameter
    """Shape (V,)."""

    def initial_state(self, batch: int) -> State:
        """The state before the first token of `batch` streams."""

    def regularisation(self) -> Tensor | float:
        """The term that the last forward pass in training adds to the loss."""

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Hidden vectors, shape (T, B, D), of tokens, shape (T, B), and the state after them."""

    def train(self, mode: bool = True) -> Any:
        """Switch dropout on or off."""

    def parameters(self) -> Any:
        """Every parameter, once."""


class SparselyAdaptable(LanguageModel, Protocol):
    """A language model whose hidden states an adaptation matrix can change (Krause et al. 2018, eq. 9)."""

    @property
    def hidden_sizes(self) -> Sequence[int]:
        """The number of hidden units of each recurrent layer."""

    def adapted(self, tokens: Tensor, state: State, matrices: Sequence[Tensor]) -> tuple[Tensor, State]:
        """The forward pass with h' = h + M h instead of h on each layer's first units.

        There is one square matrix per layer. The layer's next step and the next layer both read h'.
        """


def streams(tokens: Tensor, batch: int) -> Tensor:
    """A stream cut into `batch` parallel streams of equal length, shape (T, batch); the rest is left out."""
    length = len(tokens) // batch
    return tokens[: length * batch].view(batch, length).t().contiguous()
