"""The interface of language models for training and evaluation, and their devices and seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
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

    @property
    def output_weight(self) -> nn.Parameter:
        """The output embedding, shape (V, D). If weights are tied, it is also the input embedding."""

    @property
    def output_bias(self) -> nn.Parameter:
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


def parameter_count(model: nn.Module) -> int:
    """Number of parameters; a tied one counts once."""
    return sum(p.numel() for p in model.parameters())


def set_up(device: str) -> torch.device:
    """The device of that name, ready for full 32-bit arithmetic in a fixed order; one thread on a CPU."""
    chosen = torch.device(device)
    torch.set_float32_matmul_precision("highest")
    if chosen.type == "cpu":
        torch.set_num_threads(1)
    else:
        torch.backends.cudnn.allow_tf32 = False
        # Without this, a few operations (such as index_add) sum in any order. cuBLAS reads its own setting
        # when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN's attention has no fixed order
        # Deterministic algorithms also fill every new tensor, but all are written before they are read.
        deterministic: Any = torch.utils.deterministic
        deterministic.fill_uninitialized_memory = False
    return chosen


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Inside, a GPU's operations add in a fixed order where they can, and raise where they cannot.

    Fused attention adds up its gradients in a fixed order only while torch raises such errors.
    """
    if device.type != "cuda":
        yield
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=True)


def seeds_of(seed: int) -> tuple[int, int]:
    """Two seeds from the seed of a training: of the model (weights and dropout), and of the data's order."""
    of_model, of_data = np.random.SeedSequence(seed).generate_state(2)
    return int(of_model), int(of_data)
