"""Samples of translations. Samples of a line that begin alike are read by the model as one row.

A batch has B lines of S source subwords, k samples of each, and V target subwords. At a step, R rows are the
different beginnings, of the same length, of the samples that have not ended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.runner.nmt.marian_numbers import BEGIN, END, PAD


@dataclass(frozen=True)
class Sampling:
    """What samples are drawn from: see `DecodingSettings`."""

    samples: int
    temperature: float
    top_p: float
    no_repeat: int
    repetition_penalty: float


@torch.no_grad()
def sampled(
    model: Any, source: Tensor, mask: Tensor, most: int, sampling: Sampling, draws: torch.Generator
) -> Tensor:
    """The samples of each line, shape (B k, at most `most`), padded after END.

    Args:
        source: shape (B, S).
        mask: 1 where the source is not padding, shape (B, S).
        draws: on the CPU. All samples draw at each step until the last of the batch has ended.
    """
    from transformers import DynamicCache, EncoderDecoderCache

    adjusted = _adjusted(sampling)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    named = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    encoded = model.get_encoder()(input_ids=source, attention_mask=mask)
    rows = torch.full((len(source), 1), BEGIN, device=source.device)
    going = torch.arange(len(source) * sampling.samples)
    row_of = torch.arange(len(source), device=source.device).repeat_interleave(sampling.samples)
    written = torch.full((len(going), most), PAD)
    for step in range(most):
        logits = model(
            encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=rows[:, -1:], **{named: cache}
        ).logits[:, -1]
        size = logits.shape[1]
        chances = adjusted(rows, logits.float()).softmax(-1)
        # torch.multinomial draws the same, but makes its exponential variables more slowly.
        uniform = torch.rand(len(written), size, dtype=torch.float64, generator=draws)[going]
        times = -torch.log1p(-uniform).float()
        drawn = (chances[row_of] / times.to(chances.device)).argmax(-1)
        written[going, step] = drawn.cpu()
        on = drawn != END
        going = going[on.cpu()]
        if not len(going):
            return written[:, : step + 1]
        ways, row_of = torch.unique(row_of[on] * size + drawn[on], return_inverse=True)
        before = ways // size
        rows = torch.cat((rows[before], ways[:, None] % size), 1)
        mask, encoded.last_hidden_state = mask[before], encoded.last_hidden_state[before]
        cache.reorder_cache(before)
    return written


def _adjusted(sampling: Sampling) -> Callable[[Tensor, Tensor], Tensor]:
    """The function of rows (R, T) and logits (R, V) that changes logits as the settings ask."""
    import transformers

    parts = transformers.LogitsProcessorList()
    parts.append(transformers.RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.no_repeat:
        parts.append(transformers.NoRepeatNGramLogitsProcessor(sampling.no_repeat))

    def adjusted(rows: Tensor, logits: Tensor) -> Tensor:
        found = parts(rows, logits) / sampling.temperature
        return nucleus(found, sampling.top_p) if sampling.top_p < 1 else found

    return adjusted


def nucleus(logits: Tensor, top_p: float) -> Tensor:
    """The logits, and -inf for all but the fewest largest that have this share of the probability."""
    # On a CPU, NumPy sorts 30 times as fast as torch, which also returns the order.
    ascending = torch.from_numpy(np.sort(logits.cpu().numpy())).to(logits.device)
    outside = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
    smallest = ascending.gather(1, outside[:, :-1].sum(1, keepdim=True))
    return logits.masked_fill(logits < smallest, -torch.inf)
