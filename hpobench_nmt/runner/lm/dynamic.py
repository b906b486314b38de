"""Dynamic evaluation: the model keeps learning from the text that it has just predicted (Krause et al. 2018).

A stream is read in segments s_1, s_2, ... of n tokens. Segment i is predicted with the local parameters L
that segment i-1 left. Only then are they updated with the gradient g of its mean loss, back-propagated to the
segment's beginning. With global (trained) parameters G, learning rate eta and decay lambda:

    sgd             L <- L - eta g
    sgd-prior       L <- L - eta g + lambda (G - L)                                         eq. 4
    rms-prior       L <- L - eta g / (R + epsilon) + lambda (G - L)                         eq. 6
    rms-rms-prior   L <- L - eta g / (R + epsilon) + (G - L) min(lambda R / avg(R), 1)      eq. 8
    sparse          rms-rms-prior on matrices M (G = 0) that change hidden states, h' = h + M h   eq. 9

R = sqrt(MS_g), the root mean square of the gradients on batches of the training data (eq. 5). "sgd" with
n = 1 is traditional dynamic evaluation.

avg in eq. 8 is the mean over all adapted parameters (eq. 7). The code published with the paper takes the
mean of each tensor, and then the mean of these means (dynamiceval.py in
github.com/benkrause/dynamic-evaluation, commit 09fa27c). Its lambda therefore has another scale, which
`decay_scale` "tensors" selects. To convert it to the lambda of eq. 7, multiply it by (avg over elements) /
(avg over tensors). With its option --oldhyper, with which the paper's own results were made, the code also
divides lambda by the number of tensors, and eta and epsilon by the root of the number of batches of MS_g.

The paper and its code keep eta constant. With a `horizon` of H tokens, it falls linearly instead: the update
after t tokens has eta max(0, 1 - t / H).

Time O(N). Memory: four times the parameters, for local and global parameters, gradient and R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.runner.lm.language_model import LanguageModel, State, detach, pieces
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, mixed_with_cache
from hpobench_nmt.runner.lm.settings import DECAY_SCALES, RULES
from hpobench_nmt.runner.lm.softmax import nll_with_gradients
from hpobench_nmt.runner.lm.static import evaluating
from hpobench_nmt.runner.lm.update_rules import descend_rms, descend_together, groups, parts_at
from hpobench_nmt.runner.torch_training.loop import swapped

Rms = Sequence[Tensor] | None
"""sqrt(MS_g) of each adapted tensor, from `gradient_rms`; None for rules that do not need it."""


@dataclass(frozen=True)
class UpdateRule:
    """How parameters are adapted.

    Attributes:
        name: one of RULES.
        learning_rate, decay, epsilon: eta, lambda (of rules with a prior) and epsilon (of RMS rules).
        segment: n, tokens read between two updates.
        units: hidden units of each layer that `sparse` adapts; layers with fewer are adapted whole.
        decay_scale: the meaning of avg in eq. 8: the mean over all adapted parameters ("elements", eq. 7), or
            the mean of the means of the tensors ("tensors", as in the paper's code).
        horizon: predicted tokens in which eta falls linearly to 0, where it stays; 0: eta is constant.
    """

    name: str
    learning_rate: float
    segment: int = 5
    decay: float = 0.0
    epsilon: float = 1e-5
    units: int = 0
    decay_scale: str = "elements"
    horizon: int = 0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        check_known("dynamic-evaluation rule", [self.name], RULES)
        check_known("scale of the decay", [self.decay_scale], DECAY_SCALES)
        if self.segment < 1:
            raise InputError(f"a segment has at least 1 token, not {self.segment}.")
        if not 0 <= self.decay <= 1:
            raise InputError(f"the decay rate goes from 0 to 1, not {self.decay!r}.")
        if self.name == "sparse" and self.units < 1:
            raise InputError("sparse dynamic evaluation adapts at least 1 hidden unit a layer.")

    @property
    def needs_rms(self) -> bool:
        """Whether the rule divides by the RMS of training gradients."""
        return self.name not in ("sgd", "sgd-prior")

    def learning_rate_after(self, tokens: int) -> float:
        """eta of the update after that many predicted tokens."""
        share = max(0.0, 1.0 - tokens / self.horizon) if self.horizon else 1.0
        return self.learning_rate * share

    def average(self, rms: Sequence[Tensor]) -> float:
        """avg of R in eq. 8, over all parameters or over the tensors."""
        if self.decay_scale == "tensors":
            return sum(float(r.mean(dtype=torch.float64)) for r in rms) / len(rms)
        return sum(float(r.sum(dtype=torch.float64)) for r in rms) / sum(r.numel() for r in rms)


def dynamic_nll(
    model: LanguageModel, tokens: Tokens, rule: UpdateRule, rms: Rms = None, cache: NeuralCache | None = None
) -> Floats:
    """Negative log-likelihood (nats) of every token of a stream except the first, shape (N - 1,).

    Afterwards the model has its own parameters again. `rms` comes from `gradient_rms` for the same model and
    number of units; only rules with `needs_rms` use it. With a cache, the adapted model's probabilities are
    mixed with those of the cache, which holds the adapted model's hidden vectors.
    """
    with adapting_reader(model, rule, rms) as reader:
        parts, hidden = [], []
        for piece in pieces(model, tokens, 1, rule.segment):
            parts.append(reader.read(piece))
            hidden += [reader.hidden] if cache else []
    nll = torch.cat(parts).cpu().numpy().astype(np.float64)
    return mixed_with_cache(nll, torch.cat(hidden), tokens[1:], cache) if cache else nll


class AdaptingReader:
    """Reads one stream segment by segment, and adapts the model to each segment after reading it."""

    def __init__(self, model: LanguageModel, rule: UpdateRule, local: _Local, rms: Rms) -> None:
        self.state: State = model.initial_state(1)
        self.hidden = torch.zeros(0)  # vectors that predicted the last piece, shape (segment, D)
        self._local, self._rule = local, rule
        self._update = _updater(rule, local, rms)
        self._read = 0

    def read(self, piece: Tensor) -> Tensor:
        """Negative log-likelihoods (nats) of all tokens except the first. Then the model is adapted to them.

        `piece` is a segment with the token that follows it, shape (segment + 1, 1).
        """
        nll, self.hidden, self.state = self._local.gradient(piece, self.state)
        self._read += len(nll)
        self._update(self._rule.learning_rate_after(self._read))
        return nll

    def look(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Hidden vectors, shape (T, 1, D), and state of the model as it is now; nothing is adapted."""
        with torch.no_grad():
            return self._local.forward(tokens, state)


@contextmanager
def adapting_reader(model: LanguageModel, rule: UpdateRule, rms: Rms = None) -> Iterator[AdaptingReader]:
    """A reader. Afterwards the model has its own parameters again. See `dynamic_nll` for the arguments."""
    if rule.needs_rms and rms is None:
        raise InputError(f"rule {rule.name!r} needs the RMS of the gradients on training data.")
    with _adapting(model, rule.units if rule.name == "sparse" else 0) as local:
        yield AdaptingReader(model, rule, local, rms)


def gradient_rms(
    model: LanguageModel, tokens: Tokens, batch: int, segment: int, units: int = 0
) -> list[Tensor]:
    """sqrt(MS_g), eq. 5: the RMS of the gradients on batches of the training data, one tensor per parameter.

    The model's parameters are not changed. A batch has `segment` time steps of `batch` parallel streams. With
    more streams, gradients are smaller, and so are their squares. With `units`, there is one tensor per
    adaptation matrix of the rule "sparse".
    """
    count = 0
    with _adapting(model, units, updates=False) as local:
        totals = [torch.zeros_like(p) for p in local.parameters]
        state = model.initial_state(batch)
        for piece in pieces(model, tokens, batch, segment):
            _, _, state = local.gradient(piece, state)
            count += 1
            for total, p in zip(totals, local.parameters, strict=True):
                gradient: Tensor = p.grad  # type: ignore[assignment]
                total.addcmul_(gradient, gradient)
    if not count:
        raise InputError(f"{len(tokens)} tokens are too few for gradients of batches of {batch}.")
    return [total.div_(count).sqrt_() for total in totals]


@dataclass(frozen=True, eq=False)
class _Local:
    """The adapted tensors with their gradients, and the global values (None: zeros)."""

    parameters: Sequence[Tensor]
    globals: Sequence[Tensor] | None
    gradient: Callable[[Tensor, State], tuple[Tensor, Tensor, State]]
    forward: Callable[[Tensor, State], tuple[Tensor, State]]


@contextmanager
def _adapting(model: LanguageModel, units: int, updates: bool = True) -> Iterator[_Local]:
    """Inside, the model has local parameters (units = 0) or adaptation matrices. Afterwards it is as before.

    Without `updates`, the parameters are not copied.
    """
    with evaluating(model), torch.enable_grad():
        yield from _with_matrices(model, units) if units else _with_parameters(model, updates)


def _with_parameters(model: LanguageModel, updates: bool) -> Iterator[_Local]:
    parameters: list[nn.Parameter] = list(model.parameters())
    own = [p.data for p in parameters]
    weight, bias = model.output_weight, model.output_bias
    rest = [p for p in parameters if p is not weight and p is not bias]

    def gradient(piece: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        for p in rest:
            p.grad = None  # the next gradients are written to the memory that this frees
        return _propagated(model, model, piece, state, (weight.grad, bias.grad))

    # All gradients are written to the same memory, because fresh memory would cost more than the arithmetic.
    with swapped(parameters, [p.data.clone() if updates else p.data for p in parameters]):
        for p in parameters:
            p.grad = torch.zeros_like(p)
        try:
            yield _Local(parameters, own, gradient, model)
        finally:
            for p in parameters:
                p.grad = None


def _with_matrices(model: LanguageModel, units: int) -> Iterator[_Local]:
    matrices = [
        torch.zeros(n, n, device=model.output_weight.device, requires_grad=True)
        for n in (min(units, size) for size in model.hidden_sizes)
    ]

    def gradient(piece: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        for matrix in matrices:
            matrix.grad = None
        return _propagated(model, forward, piece, state, (None, None), matrices)

    def forward(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return model.adapted(tokens, state, matrices)

    yield _Local(matrices, None, gradient, forward)


def _propagated(
    model: LanguageModel,
    forward: Callable[[Tensor, State], tuple[Tensor, State]],
    piece: Tensor,
    state: State,
    of_output: tuple[Tensor | None, Tensor | None],
    inputs: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, State]:
    """Losses of a piece, the vectors that predicted it, and the state after it. Gradients stay in tensors.

    Args:
        of_output: memory for the gradients of the output layer's weight and bias; None: they are not needed.
        inputs: the tensors whose gradients are computed; None: all parameters.
    """
    hidden, state = forward(piece[:-1], detach(state))
    flat = hidden.flatten(0, 1)
    weight, bias = model.output_weight.data, model.output_bias.data
    nll, grad_hidden = nll_with_gradients(flat.detach(), weight, bias, piece[1:].flatten(), *of_output)
    torch.autograd.backward([flat], [grad_hidden], inputs=inputs)
    return nll, flat.detach(), state


def _updater(rule: UpdateRule, local: _Local, rms: Rms) -> Callable[[float], None]:
    """The rule as a function of eta that updates the local parameters with their gradients."""
    values = [p.data for p in local.parameters]
    wholes = local.globals or [torch.zeros_like(value) for value in values]
    scales = rms if rule.needs_rms else None
    decay = 0.0 if rule.name == "sgd" else rule.decay
    per_rms = 0.0
    if rule.name in ("rms-rms-prior", "sparse"):
        decay, per_rms = 0.0, rule.decay / rule.average(rms or ())

    def gradients() -> list[Tensor]:
        return [p.grad for p in local.parameters]  # type: ignore[misc]

    def one_by_one(eta: float) -> None:
        numbers = [np.float32(number) for number in (eta, rule.epsilon, decay, per_rms)]
        for tensors in zip(values, wholes, gradients(), scales or (), strict=True):
            arrays: Any = [tensor.view(-1).numpy() for tensor in tensors]
            descend_rms(*arrays, *numbers)

    parts = [
        (at, parts_at(at, values), parts_at(at, wholes), None if scales is None else parts_at(at, scales))
        for at in groups([value.numel() for value in values])
    ]

    def together(eta: float) -> None:
        found = gradients()
        for at, value, whole, scale in parts:
            descend_together(value, whole, parts_at(at, found), scale, eta, rule.epsilon, decay, per_rms)

    return one_by_one if scales is not None and values[0].device.type == "cpu" else together
