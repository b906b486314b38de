"""Static evaluation: the trained model reads one stream from its first token to its last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.runner.lm.language_model import LanguageModel, pieces
from hpobench_nmt.runner.lm.softmax import linear_nll
from hpobench_nmt.runner.torch_training.clock import seconds

_STEPS = 256
WARM_UP = _STEPS + 10
"""Tokens to read before a clock starts. First calls load kernels, and a short piece has its own kernels."""


@contextmanager
def evaluating(model: LanguageModel) -> Iterator[None]:
    """Inside, the model has no dropout. Afterwards it is as before."""
    before = model.training
    model.train(False)
    try:
        yield
    finally:
        model.train(before)


def hidden_vectors(model: LanguageModel, tokens: Tokens, batch: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
    """Hidden vectors of a stream, (n, D), and the tokens that follow them, (n,), piece by piece.

    The model must be in evaluation mode. N - 1 of the stream's N tokens are predicted. Reading a `batch` of
    parallel streams instead is faster, but each of them begins with an empty state.
    """
    state = model.initial_state(batch)
    with torch.no_grad():
        for piece in pieces(model, tokens, batch, _STEPS):
            hidden, state = model(piece[:-1], state)
            yield hidden.flatten(0, 1), piece[1:].flatten()


def static_nll(model: LanguageModel, tokens: Tokens, batch: int = 1) -> Floats:
    """Negative log-likelihood (nats) of every token except the first, in order if batch is 1."""
    with evaluating(model):
        parts = [
            linear_nll(hidden, model.output_weight, model.output_bias, targets).cpu().numpy()
            for hidden, targets in hidden_vectors(model, tokens, batch)
        ]
    return np.concatenate(parts).astype(np.float64)


def timed(nll: Callable[[Tokens], Floats], tokens: Tokens, device: torch.device) -> tuple[Floats, float]:
    """The losses of a stream, and the seconds that reading it takes by the clock of clock.py."""
    nll(tokens[:WARM_UP])
    started = seconds(device)
    losses = nll(tokens)
    return losses, seconds(device) - started


def perplexity(nll: Floats) -> float:
    """exp of the mean negative log-likelihood."""
    return math.exp(min(float(nll.mean()), 700.0))


def bits(nll: Floats) -> float:
    """Mean negative log-likelihood in bits."""
    return float(nll.mean()) / math.log(2.0)
