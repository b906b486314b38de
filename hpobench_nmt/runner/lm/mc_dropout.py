"""Monte-Carlo averaging of dropout at evaluation (Gal & Ghahramani 2016; Melis et al. 2018, section 5).

    p(w_t | w_<t) = 1/n sum_i p(w_t | w_<t, masks_i)

The text is read n times with dropout as in training, and the probabilities are averaged. This costs n times
as much as static evaluation, which replaces the masks by their mean (the mean field). Melis et al. report a
gain of about 0.4 in perplexity at a thousand times the cost. As in the code of the paper (lamb/evaluation.py,
arithmetic mean), each reading has its own state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.lm.language_model import LanguageModel, pieces
from hpobench_nmt.runner.lm.softmax import linear_nll


def mc_nll(
    model: LanguageModel, tokens: Tokens, masks: int, steps: int, generator: torch.Generator
) -> Floats:
    """Negative log-likelihood (nats) of every token except the first, shape (N - 1,), averaged over masks.

    The stream is read once with each of n = `masks` draws of the generator, which is on the model's device.
    Masks of a whole sequence are drawn again every `steps` time steps. The model is not changed.
    """
    if masks < 1 or steps < 1:
        raise InputError(f"averaging needs at least 1 mask and 1 step, not {masks} and {steps}.")
    total = np.full(len(tokens) - 1, -np.inf)
    with _dropping(model, generator), torch.no_grad():
        for _ in range(masks):
            state, parts = model.initial_state(1), []
            for piece in pieces(model, tokens, 1, steps):
                hidden, state = model(piece[:-1], state)
                flat = hidden.flatten(0, 1)
                parts.append(linear_nll(flat, model.output_weight, model.output_bias, piece[1:, 0]))
            np.logaddexp(total, -torch.cat(parts).cpu().numpy().astype(np.float64), out=total)
    return math.log(masks) - total


@contextmanager
def _dropping(model: LanguageModel, generator: torch.Generator) -> Iterator[None]:
    """Inside, dropout is as in training, with masks of this generator. Afterwards the model is as before."""
    before, own, zero_state = model.training, model.generator, model.zero_state
    model.train(True)
    model.generator = generator
    model.zero_state = 0.0  # to forget the state at random is not part of dropout
    try:
        yield
    finally:
        model.regularisation()  # frees the outputs that training would regularise
        model.train(before)
        model.generator, model.zero_state = own, zero_state
