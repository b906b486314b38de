"""A decoder-only Transformer language model (Radford et al. 2019; Touvron et al. 2023).

Each of L blocks adds two terms to the vectors x of width D. Both read x after a normalisation n(.):

    x <- x + W_o attention(W_qkv n(x))        causal, H heads
    x <- x + W_2 gelu(W_1 n(x))               or W_2 (silu(W_1 n(x)) * W_3 n(x)), "swiglu"

With LayerNorm, learnt positions, "gelu" and biases it is GPT-2; with RMSNorm, rotary positions (Su et al.
2021), "swiglu" and no biases it is Llama. The tests copy weights from both.

**Windows.** A model has a context of C tokens. In training, each sequence is a window of its own. In
evaluation, a stream is read in blocks of S = C / 2 tokens. A token sees its own block up to itself, and the
whole block before it: S + 1 to C tokens after the first block. The state consists of these tokens, not of
vectors computed from them. So a stream has the same hidden vectors however it is cut into pieces, and an
adapted model reads its context with its present weights.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpobench_nmt.runner.lm.dropout import plain_dropout
from hpobench_nmt.runner.lm.gpt_shape import GPTShape
from hpobench_nmt.runner.lm.language_model import LanguageModel

_EPSILON = 1e-5  # of the normalisations
_INITIAL = 0.4  # variance of initial weights times width: a deviation of 0.02 at width 1000, more below
_BASE = 10_000.0  # of rotary positions


class GPT(LanguageModel):
    """The model.

    Dropout acts on embedded tokens and on every term that a block adds.

    Args:
        generator: draws the initial weights and, in training, the masks. On the model's device.
    """

    def __init__(self, shape: GPTShape, generator: torch.Generator) -> None:
        super().__init__()
        settings = shape.settings
        self.shape, self.settings, self.generator = shape, settings, generator
        self.zero_state = 1.0  # in training, each sequence is its own window; mc_dropout.py sets 0
        width = shape.width
        deviation = _deviation(shape)
        vectors = partial(_normal, generator, deviation, shape.vocabulary, width)
        self.output_weight = vectors()
        self.output_bias = nn.Parameter(torch.zeros(shape.vocabulary, device=generator.device))
        self.input_weight = self.output_weight if settings.tied else vectors()
        self.positions: nn.Parameter | None = None
        if settings.positions == "learnt":
            self.positions = _normal(generator, deviation, settings.context, width)
        else:
            # Not saved in a state, because the shape determines them.
            self.register_buffer("rotations", _rotations(shape, generator.device), persistent=False)
        self.blocks: Any = nn.ModuleList(_Block(shape, generator) for _ in range(settings.depth))
        self.norm = _norm(shape, generator.device)

    def initial_state(self, batch: int) -> Tensor:
        """The earlier tokens that the next token sees, shape (n, batch, 1): at first, n is 0."""
        return torch.zeros(0, batch, 1, dtype=torch.int64, device=self.output_weight.device)

    def forward(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden vectors, shape (T, B, D), of tokens, shape (T, B), and the state after them."""
        if self.training and self.zero_state and len(tokens) <= self.settings.context:
            return self._window(tokens.t()).transpose(0, 1), state[:0]
        block = self.settings.context // 2
        stream = torch.cat([state[:, :, 0], tokens])
        end = len(stream)
        # A window has two blocks. The first window gives both; each further window gives its second block.
        count = max((end - 1) // block, 1)
        padded = stream
        if count > 1:
            padded = functional.pad(stream, (0, 0, 0, (count + 1) * block - end))
        windows = torch.cat([padded[k * block : (k + 2) * block].t() for k in range(count)])
        parts = self._window(windows).transpose(0, 1).split(tokens.shape[1], 1)
        hidden = torch.cat([parts[0], *(part[block:] for part in parts[1:])])
        kept = stream[max(end // block - 1, 0) * block :, :, None]
        return hidden[len(state) : end], kept

    def _window(self, tokens: Tensor) -> Tensor:
        """Hidden vectors, shape (B, T, D), of tokens, shape (B, T), with nothing before them."""
        length = tokens.shape[1]
        x = functional.embedding(tokens, self.input_weight)
        rotations: Tensor | None = None
        if self.positions is not None:
            x = x + self.positions[:length]
        else:
            rotations = self.get_buffer("rotations")[:, :length]
        x = self._dropped(x)
        for block in self.blocks:
            x = x + self._dropped(block.attended(x, rotations))
            x = x + self._dropped(block.mapped(x))
        hidden: Tensor = self.norm(x)
        return hidden

    def _dropped(self, x: Tensor) -> Tensor:
        return plain_dropout(x, self.settings.dropout, self.generator) if self.training else x


class _Block(nn.Module):
    """The two terms of a block."""

    def __init__(self, shape: GPTShape, generator: torch.Generator) -> None:
        super().__init__()
        settings, width, hidden = shape.settings, shape.width, shape.hidden
        self.heads = settings.heads
        # The terms of a block start small, so that the sum over all blocks does not grow with their number.
        deviation = _deviation(shape)
        residual = deviation / math.sqrt(2 * settings.depth)
        self.norm_attention, self.norm_map = _norm(shape, generator.device), _norm(shape, generator.device)
        self.queries_keys_values = _linear(width, 3 * width, settings.biases, deviation, generator)
        self.attention_output = _linear(width, width, settings.biases, residual, generator)
        self.hidden = _linear(width, hidden, settings.biases, deviation, generator)
        self.gate: nn.Module | None = None
        if settings.activation == "swiglu":
            self.gate = _linear(width, hidden, settings.biases, deviation, generator)
        self.output = _linear(hidden, width, settings.biases, residual, generator)

    def attended(self, x: Tensor, rotations: Tensor | None) -> Tensor:
        """The first term, shape (B, T, D)."""
        batch, length, width = x.shape
        mapped = self.queries_keys_values(self.norm_attention(x))
        # (3, B, H, T, D / H)
        parts = mapped.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = parts[:2] if rotations is None else _rotated(parts[:2], rotations)
        seen = functional.scaled_dot_product_attention(q, k, parts[2], is_causal=True)
        if seen.is_cuda and seen.requires_grad:
            _repeat_backward(seen, q)
        found: Tensor = self.attention_output(seen.transpose(1, 2).reshape(batch, length, width))
        return found

    def mapped(self, x: Tensor) -> Tensor:
        """The second term, shape (B, T, D)."""
        x = self.norm_map(x)
        if self.gate is None:
            hidden = functional.gelu(self.hidden(x), approximate="tanh")
        else:
            hidden = functional.silu(self.gate(x)) * self.hidden(x)
        found: Tensor = self.output(hidden)
        return found


def _repeat_backward(seen: Tensor, queries: Tensor) -> None:
    """Make fused attention add up its gradients in a fixed order on a GPU.

    It does so only while torch raises errors, not warnings, about operations without a fixed order. The hooks
    ask for errors between the gradient of its output and that of its queries.
    """
    seen.register_hook(lambda _: torch.use_deterministic_algorithms(True))
    queries.register_hook(lambda _: torch.use_deterministic_algorithms(True, warn_only=True))


def _linear(inputs: int, outputs: int, bias: bool, deviation: float, generator: torch.Generator) -> nn.Module:
    """A linear map with weights from the generator; torch would draw them from its global generator."""
    made: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias, device=generator.device)
    nn.init.normal_(made.weight, 0.0, deviation, generator=generator)
    if bias:
        nn.init.zeros_(made.bias)
    return made


def _norm(shape: GPTShape, device: torch.device) -> nn.Module:
    """RMSNorm (Zhang & Sennrich 2019) or LayerNorm of the last dimension."""
    if shape.settings.norm == "rmsnorm":
        return nn.RMSNorm(shape.width, _EPSILON, device=device)
    return nn.LayerNorm(shape.width, _EPSILON, bias=shape.settings.biases, device=device)


def _deviation(shape: GPTShape) -> float:
    """The standard deviation of initial weights (Nguyen & Salazar 2019, SmallInit)."""
    return math.sqrt(_INITIAL / shape.width)


def _normal(generator: torch.Generator, deviation: float, *shape: int) -> nn.Parameter:
    weight = torch.empty(shape, device=generator.device)
    return nn.Parameter(weight.normal_(0.0, deviation, generator=generator))


def _rotations(shape: GPTShape, device: torch.device) -> Tensor:
    """Cosines and sines of every position's angles, shape (2, C, D / H), each angle twice."""
    size = shape.width // shape.settings.heads
    frequencies = _BASE ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(shape.settings.context, dtype=torch.float64)[:, None] * frequencies
    angles = torch.cat([angles, angles], -1)
    return torch.stack([angles.cos(), angles.sin()]).float().to(device)


def _rotated(x: Tensor, rotations: Tensor) -> Tensor:
    """Pairs of numbers from the two halves of the last dimension, turned by their position's angles."""
    first, second = x.chunk(2, -1)
    return x * rotations[0] + torch.cat([-second, first], -1) * rotations[1]
