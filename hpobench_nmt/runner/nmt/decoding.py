"""Strategies of decoding: beam search, and the translation of least risk among samples.

Minimum Bayes risk (Kumar & Byrne 2004; Eikema & Aziz 2020) draws samples from the model, and chooses the one
that is most like all samples, by the mean of a score of sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from operator import mul
from typing import Any

import torch

from hpobench_nmt.runner.nmt.bpe import Bpe
from hpobench_nmt.runner.nmt.decoding_settings import DecodingSettings
from hpobench_nmt.runner.nmt.marian_decoding import Write, beam_search, generated
from hpobench_nmt.runner.nmt.marian_numbers import END, decode, encode
from hpobench_nmt.runner.nmt.marian_sampling import Sampling, sampled
from hpobench_nmt.runner.nmt.pairwise_scores import PairwiseScores, pairwise_scores

_MORE = 5  # subwords that a translation may have in addition to its share of the source's


def translated(
    model: Any, source: Bpe, target: Bpe, lines: Sequence[str], settings: DecodingSettings, seed: int
) -> tuple[list[str], int]:
    """A translation of each line, and the number of positions that were generated.

    A position is a subword, or the end, of one hypothesis: each beam, and each sample, counts.

    Args:
        seed: of the samples.
    """
    sampling = settings.strategy == "mbr"

    def longest(subwords: int) -> int:
        return int(settings.limit * subwords) + _MORE

    write = _sampling(model, settings, seed) if sampling else _beam_search(model, settings)
    found = generated(model, source, lines, settings.decode_batch_size, longest, write)
    scores = pairwise_scores(settings.utility, settings.bleu_tokenizer)
    texts, positions = [], 0
    for line, sequences in zip(encode(source, lines), found, strict=True):
        hypotheses = [numbers[: longest(len(line))] for numbers in sequences]
        own = [decode(target, numbers) for numbers in hypotheses]
        texts.append(least_risk(own, scores) if own else "")
        positions += sum(map(_length, hypotheses)) * (1 if sampling else settings.beam_size)
    return texts, positions


def _beam_search(model: Any, settings: DecodingSettings) -> Write:
    options: dict[str, Any] = {"length_penalty": settings.length_penalty} if settings.beam_size > 1 else {}
    return beam_search(
        model,
        num_beams=settings.beam_size,
        no_repeat_ngram_size=settings.no_repeat,
        repetition_penalty=settings.repetition_penalty,
        **options,
    )


def _sampling(model: Any, settings: DecodingSettings, seed: int) -> Write:
    sampling = Sampling(**{field.name: getattr(settings, field.name) for field in fields(Sampling)})
    draws = torch.Generator().manual_seed(seed)
    return lambda tokens, mask, most: sampled(model, tokens, mask, most, sampling, draws)


def _length(numbers: Sequence[int]) -> int:
    """How many numbers were generated, the end included but not what follows it."""
    return numbers.index(END) + 1 if END in numbers else len(numbers)


def least_risk(texts: Sequence[str], scores: PairwiseScores) -> str:
    """The text with the largest sum of scores against all texts; of several, the first."""
    counts = Counter(texts)
    different = list(counts)
    if len(different) == 1:
        return texts[0]
    sums = [sum(map(mul, counts.values(), row)) for row in scores(different)]
    return different[sums.index(max(sums))]
