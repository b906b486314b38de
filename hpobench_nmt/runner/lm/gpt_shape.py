"""The architecture of a decoder-only Transformer (lm/gpt_model.py) and its cost. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.core.system.errors import InputError

Norm = Literal["rmsnorm", "layernorm"]
Positions = Literal["rotary", "learnt"]
Activation = Literal["gelu", "swiglu"]

# Largest relative distance between a model's size and the size asked for. Not every size can be met, because
# widths are multiples of the number of heads.
_TOLERANCE = 0.15


@dataclass(frozen=True)
class GPTShape:
    """The architecture.

    Attributes:
        vocabulary: V.
        depth: blocks, L.
        width: D, a multiple of heads; with rotary positions an even multiple.
        heads: H.
        hidden: width of a block's MLP.
        context: C, even.
        norm, positions, activation: see lm/gpt_model.py.
        biases: whether linear maps and LayerNorm have biases.
        tied: whether one matrix is both input and output embedding.
    """

    vocabulary: int
    depth: int
    width: int
    heads: int
    hidden: int
    context: int
    norm: Norm = "rmsnorm"
    positions: Positions = "rotary"
    activation: Activation = "gelu"
    biases: bool = False
    tied: bool = True

    @property
    def body(self) -> int:
        """Parameters without embeddings and output biases."""
        matrices = 4 * self.width + (3 if self.activation == "swiglu" else 2) * self.hidden
        a_block = matrices * self.width
        if self.biases:
            a_block += 5 * self.width + (2 if self.activation == "swiglu" else 1) * self.hidden
        norms = (2 * self.depth + 1) * self.width * (2 if self._shifted else 1)
        return self.depth * a_block + norms

    @property
    def parameters(self) -> int:
        """All parameters; a tied matrix counts once."""
        embeddings = self.vocabulary * (self.width * (1 if self.tied else 2) + 1)
        if self.positions == "learnt":
            embeddings += self.context * self.width
        return self.body + embeddings

    @property
    def _shifted(self) -> bool:
        return self.biases and self.norm == "layernorm"

    @property
    def flops(self) -> int:
        """Floating-point operations of training on one token (Kaplan et al. 2020, table 1).

        Only matrix products count: those of the blocks and of the output, and attention over half a context
        on average. A multiplication with its addition counts as two. The backward pass costs twice as much
        as the forward pass.
        """
        maps = (4 * self.width + (3 if self.activation == "swiglu" else 2) * self.hidden) * self.width
        attention = self.context * self.width  # scores and sums of values, half of 2 C D
        return 3 * 2 * (self.depth * (maps + attention) + self.vocabulary * self.width)


def shape_of_size(of_width: Callable[[int], GPTShape], step: int, size: int) -> GPTShape:
    """The shape whose number of parameters without embeddings is nearest to a size.

    Args:
        of_width: the shape of a width.
        step: every width is a multiple of it.
        size: parameters without embeddings.

    Raises:
        InputError: no width comes near the size; the message has the nearest sizes.
    """
    width = step
    while of_width(width + step).body <= size:
        width += step
    near = [of_width(width), of_width(width + step)]
    found = min(near, key=lambda shape: abs(shape.body - size))
    if abs(found.body - size) > _TOLERANCE * size:
        raise InputError(
            f"size {size:,}: a model of depth {found.depth} and {found.heads} heads has "
            f"{near[0].body:,} or {near[1].body:,} parameters without embeddings. Set size to one of these, "
            f"or use fewer heads."
        )
    return found
