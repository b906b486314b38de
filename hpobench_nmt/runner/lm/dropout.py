"""Dropout with the same mask at every time step, of whole words, and of recurrent weights.

Masks are drawn from an explicit generator, so that a seed gives the same training. They scale the values that
they keep by 1 / (1 - p), so that evaluation needs no scaling.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mask(shape: tuple[int, ...], p: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Zeros with probability p, 1 / (1 - p) otherwise."""
    kept = like.new_empty(shape).bernoulli_(1.0 - p, generator=generator)
    return kept.div_(1.0 - p) if p < 1.0 else kept


def locked_dropout(x: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Variational dropout: x, shape (T, B, D), with one mask per sequence, shared by all T steps."""
    return x * mask((1, x.shape[1], x.shape[2]), p, x, generator) if p else x


def embedding_dropout(x: Tensor, tokens: Tensor, rows: int, p: float, generator: torch.Generator) -> Tensor:
    """Drop whole words from the embeddings x, (T, B, D), of tokens, (T, B); the vocabulary has `rows` words.

    A dropped word is dropped wherever it occurs in the batch. Costs O(rows + T B D), because the embedding
    matrix itself is not masked.
    """
    return x * mask((rows,), p, x, generator)[tokens].unsqueeze(-1) if p else x


def plain_dropout(x: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Drop single numbers. On weights, this is DropConnect (Wan et al. 2013)."""
    return x * mask(tuple(x.shape), p, x, generator) if p else x
