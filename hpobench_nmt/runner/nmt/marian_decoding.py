"""Translation by beam search, with transformers' `generate`, in batches of sentences of similar lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hpobench_nmt.runner.nmt.bpe import Bpe
from hpobench_nmt.runner.nmt.marian_batches import mask_of
from hpobench_nmt.runner.nmt.marian_numbers import NumberLines, cut, decode, encode
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings

_LONGER = 2, 10  # a translation has at most twice the source's subwords, and ten more


@torch.no_grad()
def translate_lines(
    model: Any, source: Bpe, target: Bpe, lines: Sequence[str], settings: MarianSettings
) -> list[str]:
    """A translation of each line; empty for an empty line. Afterwards the model is in its previous mode.

    Lines that are too long for the model are cut (`marian_settings.longest`).
    """
    device = next(model.parameters()).device
    most = model.config.max_position_embeddings - 1
    numbers = NumberLines.of(cut(line, most) for line in encode(source, lines))
    lengths = numbers.lengths.tolist()
    full = sorted((i for i, length in enumerate(lengths) if length > 1), key=lambda i: -lengths[i])
    found = [""] * len(lines)
    training = model.training
    model.eval()
    for start in range(0, len(full), settings.decode_batch_size):
        chosen = full[start : start + settings.decode_batch_size]
        batch = numbers.padded(chosen)
        mask = mask_of(batch, device)
        tokens = torch.from_numpy(batch).to(device)
        written = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens) if mask is None else mask,
            num_beams=settings.beam_size,
            do_sample=False,
            length_penalty=settings.length_penalty,
            max_new_tokens=min(most, _LONGER[0] * batch.shape[1] + _LONGER[1]),
        )
        for i, line in zip(chosen, written.tolist(), strict=True):
            found[i] = decode(target, line[1:])
    model.train(training)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # beams need more memory than training, and others may share the GPU
    return found
