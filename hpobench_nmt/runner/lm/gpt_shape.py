"""The architecture of a decoder-only Transformer (lm/gpt_model.py) and its cost. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.lm.gpt_settings import GptSettings

# Largest relative distance between a model's size and the size asked for. Not every size can be met, because
# widths are multiples of the number of heads.
_TOLERANCE = 0.15


@dataclass(frozen=True)
class GPTShape:
    """The architecture.

    Attributes:
        settings: all of it except the vocabulary, and the width if that is computed from the size.
        vocabulary: V.
        width: D, a multiple of the heads; with rotary positions an even multiple.
    """

    settings: GptSettings
    vocabulary: int
    width: int

    @property
    def hidden(self) -> int:
        """Width of a block's MLP."""
        return max(1, round(self.settings.mlp_ratio * self.width))

    @property
    def body(self) -> int:
        """Parameters without embeddings and output biases."""
        settings = self.settings
        a_block = self._matrices
        if settings.biases:
            a_block += 5 * self.width + (2 if settings.activation == "swiglu" else 1) * self.hidden
        shifted = settings.biases and settings.norm == "layernorm"
        norms = (2 * settings.depth + 1) * self.width * (2 if shifted else 1)
        return settings.depth * a_block + norms

    @property
    def parameters(self) -> int:
        """All parameters; a tied matrix counts once."""
        embeddings = self.vocabulary * (self.width * (1 if self.settings.tied else 2) + 1)
        if self.settings.positions == "learnt":
            embeddings += self.settings.context * self.width
        return self.body + embeddings

    @property
    def flops(self) -> int:
        """Floating-point operations of training on one token (Kaplan et al. 2020, table 1).

        Only matrix products count: those of the blocks and of the output, and attention over half a context
        on average. A multiplication with its addition counts as two. The backward pass costs twice as much
        as the forward pass.
        """
        attention = self.settings.context * self.width  # scores and sums of values, half of 2 C D
        blocks = self.settings.depth * (self._matrices + attention)
        return 3 * 2 * (blocks + self.vocabulary * self.width)

    @property
    def _matrices(self) -> int:
        """The numbers in the matrices of a block."""
        maps = 3 if self.settings.activation == "swiglu" else 2
        return (4 * self.width + maps * self.hidden) * self.width


def shape_of(settings: GptSettings, vocabulary: int) -> GPTShape:
    """The architecture. Its width is set, or the one whose number of parameters is nearest to `size`.

    Raises:
        InputError: no width comes near the size; the message has the nearest sizes.
    """
    if settings.width:
        return GPTShape(settings, vocabulary, settings.width)
    size, width, step = settings.size, step_of(settings), step_of(settings)
    while GPTShape(settings, vocabulary, width + step).body <= size:
        width += step
    near = [GPTShape(settings, vocabulary, each) for each in (width, width + step)]
    found = min(near, key=lambda shape: abs(shape.body - size))
    if abs(found.body - size) > _TOLERANCE * size:
        raise InputError(
            f"size {size:,}: a model of depth {settings.depth} and {settings.heads} heads has "
            f"{near[0].body:,} or {near[1].body:,} parameters without embeddings. Set size to one of these, "
            f"or use fewer heads."
        )
    return found


def step_of(settings: GptSettings) -> int:
    """The width must be a multiple of this. Rotary positions turn pairs of numbers in each head."""
    return settings.heads * (2 if settings.positions == "rotary" else 1)
