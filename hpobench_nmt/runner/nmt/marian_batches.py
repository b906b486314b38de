"""Sentence pairs as numbers, in batches with about the same number of target subwords.

A pass over the data draws an order. The pairs are sorted by the lengths of target and source, in steps of
eight, so that a batch has pairs of similar lengths and little padding. They are cut wherever a batch has its
words. Then the batches are shuffled. The order depends only on the seed and the number of the pass, so a
training's state need not contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.nmt.marian_numbers import BEGIN, END, PAD, Pairs

_STEP = 8
_ROWS, _SUBWORDS = 16, 8  # padded shapes are multiples of these


@dataclass(frozen=True, eq=False)
class Batch:
    """B pairs of at most S source and T target subwords, both with END; N target subwords in total.

    Attributes:
        source: shape (B, S), padded.
        mask: 1 where the source is not padding, shape (B, S); None if nothing is padding.
        read: the decoder's input, BEGIN and the target, shape (B, T).
        real: where the target is not padding, shape (B, T).
        written: the output that the decoder should have there, the target and END, shape (N,).
    """

    source: Tensor
    mask: Tensor | None
    read: Tensor
    real: Tensor
    written: Tensor


class PaddedBatch(NamedTuple):
    """B pairs of S source and T target subwords, in a shape that other batches have as well.

    Attributes:
        source: shape (B, S), padded; an added pair has only END.
        mask: where the source is not padding, shape (B, 1, 1, S).
        read: the decoder's input, shape (B, T), padded.
        seen: the positions that the decoder sees at each position, those up to it, shape (1, 1, T, T).
        written: the output that the decoder should have, shape (B, T), padded.
        words: the number that the loss is divided by, a scalar.
    """

    source: Tensor
    mask: Tensor
    read: Tensor
    seen: Tensor
    written: Tensor
    words: Tensor


def batches(pairs: Pairs, words: int, seed: int, epoch: int, chosen: Ints | None = None) -> list[Ints]:
    """The numbers of the pairs of each batch of one pass, in the order of the pass.

    A pass has the chosen pairs, or all pairs. A batch has at least one pair. Its number of target subwords is
    as near to `words` as whole pairs allow.
    """
    draws = np.random.default_rng([seed, epoch])
    source, target = pairs.source.lengths, pairs.target.lengths
    order = draws.permutation(np.arange(len(pairs)) if chosen is None else chosen)
    order = order[np.lexsort((source[order] // _STEP, target[order] // _STEP))]
    ends = np.cumsum(target[order])
    cuts = np.searchsorted(ends, np.arange(words, ends[-1], words) + 0.5)
    found = [part for part in np.split(order, np.unique(cuts)) if len(part)]
    return [found[i] for i in draws.permutation(len(found))]


def batch_of(pairs: Pairs, chosen: Sequence[int] | Ints, device: torch.device) -> Batch:
    """The batch of the pairs with these numbers."""
    source, written = pairs.source.padded(chosen), pairs.target.padded(chosen)
    read = np.concatenate((np.full((len(written), 1), BEGIN), written[:, :-1]), 1)
    real = written != PAD

    def moved(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(device)

    return Batch(moved(source), mask_of(source, device), moved(read), moved(real), moved(written[real]))


def padded_batch(pairs: Pairs, chosen: Sequence[int] | Ints, words: int, device: torch.device) -> PaddedBatch:
    """The batch of the pairs with these numbers, in one of a few dozen shapes."""
    source, written = (_enlarged(side.padded(chosen)) for side in (pairs.source, pairs.target))
    source[len(chosen) :, 0] = END
    read = np.concatenate((np.full((len(written), 1), BEGIN), written[:, :-1]), 1)
    mask, seen = (source != PAD)[:, None, None], np.tri(read.shape[1], dtype=bool)[None, None]
    tensors = [torch.as_tensor(each) for each in (source, mask, read, seen, written, np.float32(words))]
    if device.type == "cuda":  # copied while the GPU works on earlier batches
        tensors = [each.pin_memory() for each in tensors]
    return PaddedBatch(*(each.to(device, non_blocking=True) for each in tensors))


def _enlarged(array: Ints) -> Ints:
    """The array with padding up to a multiple of _ROWS rows and of _SUBWORDS columns."""
    rows, columns = (-size % step for size, step in zip(array.shape, (_ROWS, _SUBWORDS), strict=True))
    return np.pad(array, ((0, rows), (0, columns)), constant_values=PAD)


def mask_of(source: Ints, device: torch.device) -> Tensor | None:
    """1 where the source is not padding; None if nothing is padding, which is faster."""
    mask = source != PAD
    return None if mask.all() else torch.from_numpy(mask.astype(np.int64)).to(device)
