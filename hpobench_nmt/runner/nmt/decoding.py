"""Strategies of decoding: beam search, and the translation of least risk among samples.

Minimum Bayes risk (Kumar & Byrne 2004; Eikema & Aziz 2020) draws samples from the model, and chooses the one
that is most like all samples, by the mean of a score of sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hpobench_nmt.runner.nmt.bpe import Bpe
from hpobench_nmt.runner.nmt.decoding_settings import DecodingSettings
from hpobench_nmt.runner.nmt.marian_decoding import generated
from hpobench_nmt.runner.nmt.marian_numbers import END, decode, encode
from hpobench_nmt.runner.nmt.text_scores import sentence_score

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
    options: dict[str, Any] = {
        "no_repeat_ngram_size": settings.no_repeat,
        "repetition_penalty": settings.repetition_penalty,
        "num_beams": 1 if sampling else settings.beam_size,
        "do_sample": sampling,
    }
    if sampling:
        drawn = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": 0}
        options |= {"num_return_sequences": settings.samples, **drawn}
    elif settings.beam_size > 1:
        options |= {"length_penalty": settings.length_penalty}

    def longest(subwords: int) -> int:
        return int(settings.limit * subwords) + _MORE

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = generated(model, source, lines, settings.decode_batch_size, longest, options)
    score = sentence_score(settings.utility, settings.bleu_tokenizer)
    texts, positions = [], 0
    for line, sequences in zip(encode(source, lines), found, strict=True):
        hypotheses = [numbers[: longest(len(line))] for numbers in sequences]
        own = [decode(target, numbers) for numbers in hypotheses]
        texts.append(least_risk(own, score) if own else "")
        positions += sum(map(_length, hypotheses)) * (1 if sampling else settings.beam_size)
    return texts, positions


def _length(numbers: Sequence[int]) -> int:
    """How many numbers were generated, the end included but not what follows it."""
    return numbers.index(END) + 1 if END in numbers else len(numbers)


def least_risk(texts: Sequence[str], score: Callable[[str, str], float]) -> str:
    """The text with the largest sum of scores against all texts; of several, the first."""
    counts = Counter(texts)
    if len(counts) == 1:
        return texts[0]
    return max(counts, key=lambda text: sum(n * score(text, other) for other, n in counts.items()))
