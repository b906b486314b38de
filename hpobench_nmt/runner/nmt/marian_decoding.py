"""Translation by beam search, with transformers' `generate`, in batches of sentences of similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hpobench_nmt.runner.nmt.bpe import Bpe
from hpobench_nmt.runner.nmt.marian_batches import mask_of
from hpobench_nmt.runner.nmt.marian_numbers import NumberLines, cut, decode, encode
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings

Write = Callable[[Tensor, Tensor, int], Tensor]
"""From B lines and their mask, shape (B, S), and a length T, to k sequences of each, (B k, at most T)."""


def _longest(subwords: int) -> int:
    return 2 * subwords + 10  # at most twice the source's subwords, and ten more


def translate_lines(
    model: Any, source: Bpe, target: Bpe, lines: Sequence[str], settings: MarianSettings
) -> list[str]:
    """A translation of each line; empty for an empty line. Afterwards the model is in its previous mode.

    Lines that are too long for the model are cut (`marian_settings.longest`).
    """
    write = beam_search(model, num_beams=settings.beam_size, length_penalty=settings.length_penalty)
    found = generated(model, source, lines, settings.decode_batch_size, _longest, write)
    return [decode(target, each[0]) if each else "" for each in found]


def beam_search(model: Any, **options: Any) -> Write:
    """Beam search with these options of `generate`."""

    def write(tokens: Tensor, mask: Tensor, most: int) -> Tensor:
        found: Tensor = model.generate(
            input_ids=tokens, attention_mask=mask, max_new_tokens=most, do_sample=False, **options
        )
        return found[:, 1:]

    return write


@torch.no_grad()
def generated(
    model: Any, source: Bpe, lines: Sequence[str], at_once: int, longest: Callable[[int], int], write: Write
) -> list[list[list[int]]]:
    """The numbers of each sequence that is generated for each line, without BEGIN; none for an empty line.

    Args:
        at_once: lines in a batch.
        longest: the largest length of a sequence, from that of the longest source in a batch, END included.
        write: the model's sequences of a batch.
    """
    device = next(model.parameters()).device
    most = model.config.max_position_embeddings - 1
    numbers = NumberLines.of(cut(line, most) for line in encode(source, lines))
    lengths = numbers.lengths.tolist()
    full = sorted((i for i, length in enumerate(lengths) if length > 1), key=lambda i: -lengths[i])
    found: list[list[list[int]]] = [[] for _ in lines]
    training = model.training
    model.eval()
    for start in range(0, len(full), at_once):
        chosen = full[start : start + at_once]
        batch = numbers.padded(chosen)
        mask = mask_of(batch, device)
        tokens = torch.from_numpy(batch).to(device)
        written = write(
            tokens, torch.ones_like(tokens) if mask is None else mask, min(most, longest(batch.shape[1]))
        )
        of_each = written.view(len(chosen), -1, written.shape[1]).tolist()
        for i, sequences in zip(chosen, of_each, strict=True):
            found[i] = sequences
    model.train(training)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # beams need more memory than training, and others may share the GPU
    return found
